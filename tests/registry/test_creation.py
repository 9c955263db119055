"""Create: what a new model is made of, what it takes over, what each step says, what is refused with nothing left."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engine.model import ModelOptions
from registry.blobs import InvalidDigest
from registry.catalog import Catalog
from registry.creation import Creator, Recipe
from registry.derived import DerivedModel, Message
from registry.errors import CreateRefused, ModelNotFound, RegistryError
from registry.folder import ModelFolder
from registry.fork_file import ForkFile, PinnedFile
from registry.names import InvalidModelName, ModelName
from testing.oracles.small_models import MODELS, TEMPLATE


def _sha(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


@pytest.fixture
def catalog(tmp_path: Path, weights: bytes) -> Catalog:
    """A folder with one pinned file, beside another that the server was started with."""
    start = MODELS[1].file().write(tmp_path / "start.gguf")
    folder = tmp_path / "forks"
    folder.mkdir()
    (folder / "Tiny-F16.gguf").write_bytes(weights)
    ForkFile((PinnedFile("Tiny-F16.gguf", _sha(weights)),)).write(folder / "Tiny-F16.gguf.FORK.json")
    return Catalog.of_file(start, folder=ModelFolder(folder))


def _folder(catalog: Catalog) -> ModelFolder:
    assert catalog.folder is not None
    return catalog.folder


def _left(catalog: Catalog) -> dict[Path, int]:
    """Every file of the folder but its lock, and when it was written."""
    files = (path for path in _folder(catalog).path.rglob("*") if path.is_file() and path.name != ".lock")
    return {path: path.stat().st_mtime_ns for path in files}


async def _all(creator: Creator, recipe: Recipe) -> list[Mapping[str, Any]]:
    return [line async for line in creator.create(recipe)]


def create(catalog: Catalog, name: str = "mario", **recipe: Any) -> list[str]:
    """What the steps of a create say."""
    creator = Creator(catalog, ModelOptions())
    return [line["status"] for line in asyncio.run(_all(creator, Recipe(ModelName.parse(name), **recipe)))]


def made(catalog: Catalog, name: str = "mario") -> DerivedModel:
    model = _folder(catalog).find(ModelName.parse(name))
    assert model is not None
    return model


def refused(catalog: Catalog, error: type[RegistryError] = CreateRefused, name: str = "mario", **recipe: Any) -> str:
    """What a create is refused with; nothing of it is left."""
    before = _left(catalog)
    with pytest.raises(error) as caught:
        create(catalog, name, **recipe)
    assert _left(catalog) == before
    return str(caught.value)


def test_a_layer_over_a_pinned_file_names_its_pin(catalog: Catalog, weights: bytes) -> None:
    lines = create(catalog, source="tiny", system="You are Mario.", parameters={"temperature": 0.7}, stop=("é",))
    sha = _sha(weights)
    assert lines == [
        f"using existing layer sha256:{sha}",
        f"creating new layer sha256:{_sha('You are Mario.')}",
        "creating new layer sha256:" + _sha('{"stop":["é"],"temperature":0.7}\n'),
        "writing manifest",
        "success",
    ]
    model = made(catalog)
    assert (model.base.name, model.base.file, model.base.sha256) == ("tiny:latest", "Tiny-F16.gguf", sha)
    assert (model.base.fork, model.base.path) == ("Tiny-F16.gguf.FORK.json", _folder(catalog).path / "Tiny-F16.gguf")
    entry = catalog.resolve("Mario")
    assert (entry.layer, entry.sha256, entry.refused) == (model.layer, sha, None)


def test_the_file_of_the_start_needs_no_pin(catalog: Catalog) -> None:
    create(catalog, source="start")
    assert made(catalog).base.fork is None
    assert made(catalog).base.path == catalog.default.path
    assert catalog.resolve("mario").refused is None


def test_what_a_model_is_made_from_is_taken_over_and_overridden_as_in_ollama(catalog: Catalog) -> None:
    hello, yo = Message("user", "Hello"), Message("assistant", "Yo")
    create(
        catalog,
        source="tiny",
        system="one",
        license=("MIT",),
        parameters={"temperature": 0.7, "seed": 3},
        stop=("a", "b"),
        messages=(hello, yo),
        requires="0.14.0",
    )
    lines = create(
        catalog, "luigi", source="mario", parameters={"seed": 4}, stop=("c",), license=("more",), messages=(hello,)
    )
    layer = made(catalog, "luigi").layer
    assert (layer.system, layer.license, layer.requires) == ("one", ("MIT", "more"), "0.14.0")
    assert layer.parameters == {"temperature": 0.7, "seed": 4}
    assert (layer.stop, layer.messages) == (("c",), (hello,))
    assert made(catalog, "luigi").base.name == "mario:latest"
    assert [line.split(" layer ")[0] for line in lines] == [
        *("using existing", "using existing", "using existing"),  # weights, system, the first licence
        *("creating new", "creating new", "creating new"),  # the second licence, parameters, messages
        *("writing manifest", "success"),
    ]
    assert create(catalog, "peach", source="luigi")[:-2] == [
        f"using existing layer sha256:{digest}"
        for digest in (
            *(made(catalog).base.sha256, _sha("one"), _sha("MIT"), _sha("more")),
            _sha('[{"role":"user","content":"Hello"}]\n'),
            _sha('{"seed":4,"stop":["c"],"temperature":0.7}\n'),
        )
    ]
    assert made(catalog, "peach").digest == made(catalog, "luigi").digest


def test_a_template_is_taken_when_it_is_that_of_the_weights(catalog: Catalog) -> None:
    assert create(catalog, source="tiny", template=TEMPLATE)[1] == f"creating new layer sha256:{_sha(TEMPLATE)}"
    assert made(catalog).layer.template_sha256 == _sha(TEMPLATE)
    reason = refused(catalog, name="luigi", source="tiny", template="{{ .Prompt }}")
    assert reason.startswith("TEMPLATE is not supported unless it is the chat template of the weights")


def test_a_gguf_that_came_as_a_blob_is_checked_and_used_where_it_lies(catalog: Catalog, weights: bytes) -> None:
    other = MODELS[2].file().write(catalog.default.path.with_name("other.gguf")).read_bytes()
    path = _folder(catalog).add_blob(_sha(other), [other])
    lines = create(catalog, files={"other.gguf": f"sha256:{_sha(other)}"})
    assert lines == ["parsing GGUF", f"using existing layer sha256:{_sha(other)}", "writing manifest", "success"]
    assert (made(catalog).base.name, made(catalog).base.fork) == ("other.gguf", None)
    assert catalog.resolve("mario").path == path
    for source in (f"sha256:{_sha(other)}", f"@sha256:{_sha(other)}", str(path)):
        create(catalog, "luigi", source=source)
        assert made(catalog, "luigi").base.path == path
    create(catalog, "mario", source="tiny")
    assert path.is_file()
    create(catalog, "luigi", source="tiny")
    assert not path.exists()  # as in Ollama: the last model over it has other weights now


def test_a_path_is_taken_where_a_model_of_the_catalog_lies_there(catalog: Catalog) -> None:
    create(catalog, source=str(_folder(catalog).path / "Tiny-F16.gguf"))
    assert made(catalog).base.name == "tiny-f16:latest"


def test_a_path_of_this_machine_is_nothing_to_a_client(catalog: Catalog, tmp_path: Path) -> None:
    MODELS[2].file().write(tmp_path / "private.gguf")
    for source in (str(tmp_path / "private.gguf"), "/etc/passwd", "./private.gguf", "~/private.gguf"):
        assert refused(catalog, InvalidModelName, source=source) == "invalid model name"


def test_the_letter_case_of_a_name_that_is_there_stays(catalog: Catalog) -> None:
    create(catalog, "Mario:V2", source="tiny", system="one")
    create(catalog, "mario:v2", source="tiny", system="two")
    assert [(model.name.shown, model.layer.system) for model in _folder(catalog).derived()[0]] == [("Mario:V2", "two")]


@pytest.mark.parametrize("name", ["start", "Tiny-F16", "tiny-f16:latest"])
def test_a_files_own_name_is_not_taken_from_it(catalog: Catalog, name: str) -> None:
    assert "is the name of the file" in refused(catalog, name=name, source="tiny")


def test_a_short_name_may_be_taken(catalog: Catalog) -> None:
    create(catalog, "tiny", source="tiny", system="one")
    assert made(catalog, "tiny").layer.system == "one"
    assert catalog.resolve("tiny").layer == made(catalog, "tiny").layer
    assert catalog.resolve("tiny-f16").layer is None


def test_a_source_that_is_not_here_is_not_found(catalog: Catalog) -> None:
    assert refused(catalog, ModelNotFound, source="peach") == "model 'peach:latest' not found"


def test_a_source_that_is_not_here_is_pulled_where_that_is_possible(catalog: Catalog) -> None:
    async def pull(name: ModelName) -> AsyncGenerator[Mapping[str, Any], None]:
        yield {"status": "pulling manifest"}
        async for _ in Creator(catalog, ModelOptions()).create(Recipe(name, source="tiny")):
            pass
        yield {"status": "success"}

    creator = Creator(catalog, ModelOptions(), pull)
    lines = asyncio.run(_all(creator, Recipe(ModelName.parse("mario"), source="peach")))
    assert [line["status"] for line in lines] == [
        "pulling manifest",
        f"using existing layer sha256:{made(catalog).base.sha256}",
        "writing manifest",
        "success",
    ]
    assert made(catalog).base.name == "peach:latest"


def test_a_blob_that_is_not_here_is_named(catalog: Catalog) -> None:
    digest = f"sha256:{'0' * 64}"
    assert refused(catalog, files={"a.gguf": digest}) == f'blob "{digest}" not found'
    assert refused(catalog, source=digest) == f'blob "{digest}" not found'
    assert refused(catalog, InvalidDigest, files={"a.gguf": "sha256:0"}) == "invalid digest format"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"a.gguf": b"not a model"}, "supplied file was not in GGUF format"),
        ({"a.txt": b"not a model"}, "unknown type"),
        ({"a": b""}, "unknown type"),
        ({"a.gguf": b"GGUF"}, "these weights are not played: "),
        ({"a": b"GGUF" + b"\xff" * 100}, "these weights are not played: "),
        ({"a.gguf": b"GGUF1", "b.gguf": b"GGUF2"}, "weights in several GGUF files are not supported: merge them"),
    ],
)
def test_files_that_are_no_model_are_refused(catalog: Catalog, files: dict[str, bytes], reason: str) -> None:
    blobs = {name: _folder(catalog).add_blob(_sha(data), [data]) for name, data in files.items()}
    assert refused(catalog, files={name: path.name for name, path in blobs.items()}).startswith(reason)


def test_weights_that_are_cut_are_refused(catalog: Catalog, weights: bytes) -> None:
    path = _folder(catalog).path / "Tiny-F16.gguf"
    path.write_bytes(weights[:-1])
    assert refused(catalog, source="tiny").startswith("these weights are not played: ")


@pytest.mark.parametrize(
    ("model", "asked", "reason"),
    [
        ("f16", "Q4_K_M", "quantizing F16 weights to Q4_K_M is not supported"),
        ("f16", "f32", "quantizing F16 weights to F32 is not supported"),
        ("f16", "Q3_K_S", "unsupported quantization type Q3_K_S - supported types are F32, F16, Q4_K_S, Q4_K_M, Q8_0"),
        ("q8", "Q8_0", "quantization is only supported for F16, BF16 and F32 models"),
        ("none", "F16", "quantization is only supported for F16, BF16 and F32 models"),
    ],
)
def test_weights_are_not_quantized(catalog: Catalog, model: str, asked: str, reason: str) -> None:
    blob = _typed(catalog, {"f16": 1, "q8": 7, "none": None}[model])
    assert refused(catalog, source=blob, quantize=asked).startswith(reason)


def test_weights_that_have_the_type_already_are_taken(catalog: Catalog) -> None:
    create(catalog, source=_typed(catalog, 1), quantize="f16")
    assert made(catalog).base.path.is_file()


def _typed(catalog: Catalog, file_type: int | None) -> str:
    """The digest of a blob whose header says that its weights have a type."""
    file = MODELS[0].file()
    metadata = dict(file.metadata) | ({} if file_type is None else {"general.file_type": file_type})
    path = type(file)(metadata, file.tensors).write(catalog.default.path.with_name("typed.gguf"))
    data = path.read_bytes()
    _folder(catalog).add_blob(_sha(data), [data])
    return f"sha256:{_sha(data)}"


def test_a_manifest_edited_by_hand_is_no_source(catalog: Catalog) -> None:
    create(catalog, source="tiny", system="one")
    path = _folder(catalog).path / "mario.MODEL.json"
    manifest = json.loads(path.read_bytes())
    manifest["layer"]["system"] = "two"
    path.write_text(json.dumps(manifest))
    catalog.refresh()
    assert "edited by hand, refused: create it again" in refused(catalog, RegistryError, "luigi", source="mario")
    create(catalog, source="tiny", system="three")  # again
    assert made(catalog).layer.system == "three"


def test_a_chain_of_models_gathers_so_many_licences_and_no_more(catalog: Catalog) -> None:
    create(catalog, source="tiny", license=("a",) * 9_999)
    assert refused(catalog, name="luigi", source="mario", license=("b", "c")) == "a model has at most 10000 licenses"
    messages = (Message("user", "a"),) * 10_001
    assert refused(catalog, name="luigi", source="tiny", messages=messages) == "a model has at most 10000 messages"
