"""registry/conversion: what is damaged or not reproduced is refused with its reason, and nothing is left."""

from __future__ import annotations

import errno
import json
import os
import re
import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from registry.conversion import conversion, convert, fast_tokenizer
from registry.conversion.source import SourceDirectory
from registry.errors import ConversionFailed, ConversionRefused, ModelFileChanged, ModelFileError, RegistryError
from registry.progress import Progress
from testing.hf_models import HFModel, with_header
from testing.oracles.conversion_cases import CASES

LLAMA, QWEN2, QWEN3, SENTENCEPIECE = (
    next(case.model for case in CASES if case.model.name == name)
    for name in ("TinyLM2-1M-Instruct-v1.5", "Qwen2.5-0.5B-Instruct", "qwen3-of-smol", "tiny-llama-2")
)


def refused(directory: Path, reason: str, error: type[RegistryError] = ConversionRefused) -> None:
    """That a directory is refused for this reason, and that nothing new lies in the output's folder."""
    output = directory.parent / "out" / "model.gguf"
    output.parent.mkdir(exist_ok=True)
    before = set(output.parent.iterdir())
    with pytest.raises(error, match=reason):
        convert(directory, output)
    assert set(output.parent.iterdir()) == before


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Changes a JSON file: `change` gives what it holds then."""
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("architectures", ["MistralForCausalLM"], "the architecture MistralForCausalLM is not converted"),
        ("architectures", None, "that config.json does not name"),
        ("architectures", "LlamaForCausalLM", "that config.json does not name"),
        ("model_type", "mistral", "model_type 'mistral'"),
        ("model_type", None, "model_type None"),
        ("quantization_config", {"quant_method": "fp8"}, "quantization_config"),
        ("num_local_experts", 8, "num_local_experts"),
        ("text_config", {}, "text_config"),
        ("is_causal", False, "is_causal"),
        ("rope_scaling", {"rope_type": "longrope", "factor": 2.0}, "'longrope'"),
        ("rope_scaling", [1], "no object"),
        ("rope_scaling", {"rope_type": "yarn", "factor": 2.0}, "original_max_position_embeddings"),
        ("rope_scaling", {"rope_type": "linear", "factor": "2"}, "scaling.factor"),
        ("rope_scaling", {"rope_type": "llama3", "factor": "8"}, "not numbers above zero"),
        ("rope_scaling", {"rope_type": "llama3", "factor": 8}, "heads of 4 values"),
        ("num_hidden_layers", 0, "num_hidden_layers is 0"),
        ("num_hidden_layers", 10**9, "no more than 4096"),
        ("num_hidden_layers", 1, "has no place in a llama of 1 layers"),
        ("vocab_size", 10**9, "no more than"),
        ("vocab_size", "many", "vocab_size is 'many'"),
        ("vocab_size", 400, "tokens beyond the vocab_size"),
        ("num_attention_heads", True, "num_attention_heads is True"),
        ("num_attention_heads", 3, "does not fall into 3 heads"),
        ("hidden_size", 1 << 40, "llama.embedding_length"),
        ("rms_norm_eps", "small", "layer_norm_rms_epsilon"),
        ("rms_norm_eps", 1e300, "layer_norm_rms_epsilon"),
        ("_name_or_path", 7, "_name_or_path"),
    ],
)
def test_a_configuration_that_is_not_converted_is_refused_by_name(
    key: str, value: Any, reason: str, tmp_path: Path
) -> None:
    directory = LLAMA.write(tmp_path)
    edit(directory / "config.json", lambda config: {**config, key: value})
    refused(directory, re.escape(reason))


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any], cut: int | None = None) -> None:
    header, data = header_of(path)
    changed = change(header)
    text = changed if isinstance(changed, bytes) else json.dumps(changed).encode()
    path.write_bytes(with_header(text, data[:cut]))


NORM = "model.norm.weight"


def entry(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda header: {**header, NORM: {**header[NORM], **changes}}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (entry(dtype="Q4_0"), "has the type 'Q4_0'"),
        (entry(dtype=["F32"]), "has the type"),
        (entry(dtype="I16"), "I16, which is not converted"),
        (entry(shape=[-1]), "no shape"),
        (entry(shape=[True]), "no shape"),
        (entry(shape=[1 << 70]), "no shape"),
        (entry(shape=[1] * 5), "no shape"),
        (entry(shape=[0]), "is empty"),
        (entry(shape=[1 << 60]), "do not take"),
        (entry(data_offsets=[0, 1]), "has 1 bytes"),
        (entry(data_offsets=[4, 2]), "has no place"),
        (entry(data_offsets=[0]), "has no place"),
        (entry(data_offsets=[1 << 62, (1 << 62) + 32]), "is cut short"),
        (entry(data_offsets=[0, 32]), "overlap"),
        (lambda header: {**header, "model.new.weight": header[NORM]}, "overlap"),
        (
            lambda header: {"model.other.weight" if key == NORM else key: header[key] for key in header},
            "has no place in a",
        ),
        (lambda header: {**header, NORM: 7}, "has the type None"),
        (lambda header: [1], "not a JSON object"),
        (lambda header: b"{" * 100_000, "not JSON"),
        (lambda header: b"[" * 100_000, "not JSON"),
        (lambda header: b"\xff", "not JSON"),
        (lambda header: json.dumps(header).encode()[:-1] + b"," + json.dumps(header).encode()[1:], "stands twice"),
    ],
)
def test_a_header_that_lies_is_refused(change: Callable[[Any], Any], reason: str, tmp_path: Path) -> None:
    directory = LLAMA.write(tmp_path)
    rewrite(directory / "model.safetensors", change)
    refused(directory, re.escape(reason))


@pytest.mark.parametrize("length", [0, 2, 1 << 24, 1 << 62, (1 << 64) - 1])
def test_a_header_of_any_stated_length_is_refused(length: int, tmp_path: Path) -> None:
    directory = LLAMA.write(tmp_path)
    header, data = header_of(directory / "model.safetensors")
    (directory / "model.safetensors").write_bytes(with_header(json.dumps(header).encode(), data, length))
    refused(directory, "not JSON|cut short|no more than")


def test_weights_cut_anywhere_are_refused(tmp_path: Path) -> None:
    directory = SENTENCEPIECE.write(tmp_path)
    path = directory / "model.safetensors"
    data = path.read_bytes()
    for length in (0, 1, 7, 8, 9, 100, *range(1000, len(data), 997), len(data) - 1):
        path.write_bytes(data[:length])
        refused(directory, "cut short")


@pytest.mark.parametrize(
    "name",
    ["../model-00001-of-00003.safetensors", "/etc/passwd", "", "..", "a\0b.safetensors", "x/y.safetensors", 7, None],
)
def test_an_index_leads_to_files_beside_it_only(name: Any, tmp_path: Path) -> None:
    directory = CASES[1].model.write(tmp_path)
    index = directory / "model.safetensors.index.json"
    edit(index, lambda found: {**found, "weight_map": {**found["weight_map"], "model.norm.weight": name}})
    refused(directory, "no name of a file beside it|no safetensors file")


def test_an_index_and_its_files_agree(tmp_path: Path) -> None:
    directory = CASES[1].model.write(tmp_path)
    index = directory / "model.safetensors.index.json"
    whole = json.loads(index.read_text())
    first = whole["weight_map"]["model.norm.weight"]
    index.write_text(json.dumps({"weight_map": {**whole["weight_map"], "model.more.weight": first}}))
    refused(directory, "names 1 tensors that no file has, 'model.more.weight'")
    fewer = {name: part for name, part in whole["weight_map"].items() if name != "model.norm.weight"}
    index.write_text(json.dumps({"weight_map": fewer}))
    refused(directory, "does not name 1 tensors that the files have, 'model.norm.weight'")
    index.write_text(json.dumps({"weight_map": {**whole["weight_map"], "model.norm.weight": "gone.safetensors"}}))
    refused(directory, "gone.safetensors", ModelFileError)
    index.write_text(json.dumps({"weight_map": 7}))
    refused(directory, "no weight_map")


_YAML_BOMB = "".join(
    [
        "---\na: &a [x, x, x, x, x, x, x, x, x]\n",
        *(f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in pairwise("abcdefghijk")),
        "tags: *k\n---\n",
    ]
)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("config.json", "{", "config.json is not JSON"),
        ("config.json", "[" * 100_000, "nested too deep|is not JSON"),
        ("config.json", "[]", "config.json is not a JSON object"),
        ("config.json", b"\xff\xfe", "config.json is not UTF-8"),
        ("config.json", f'{{"a": [{"[]," * 2_000_000}[]]}}', "config.json has more than 2000000 arrays and objects"),
        ("tokenizer.json", "{}", "the type None"),
        ("tokenizer_config.json", "7", "not a JSON object"),
        ("tokenizer_config.json", '{"tokenizer_class": "T5Tokenizer"}', "'T5Tokenizer'"),
        ("tokenizer_config.json", '{"tokenizer_class": 7}', "not reproduced"),
        ("tokenizer_config.json", '{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<new>"}', "'<new>'"),
        ("special_tokens_map.json", '{"bos_token": {"content": "<map>"}}', "'<map>'"),
        ("added_tokens.json", '{"<more>": 49160}', "'<more>'"),
        ("README.md", "---\n[: }\n---\n", "not YAML"),
        ("README.md", "---\nversion: 1.5\n---\n", "general.version would be 1.5"),
        ("README.md", "---\ntags: [a, 1]\n---\n", "different types"),
        ("README.md", "---\nlicense: [1]\n---\n", "licence"),
        ("README.md", "---\nname: 2024-01-01\n---\n", "general.name"),
        ("README.md", _YAML_BOMB, r"not YAML \(aliases are not read\)"),
        ("README.md", f"---\nname: {'a' * (512 << 10)}\n---\n", "more than 524288 characters"),
        (
            "README.md",
            f"---\ntags: [[{'a, ' * 100}a]]\n---\n",
            r"would hold \['a', 'a', 'a', 'a', 'a', 'a', \.\.\.\]$",
        ),
        ("tokenizer_config.json", f'{{"extra_special_tokens": {"[" * 950}{"]" * 950}}}', "nested too deep"),
        ("generation_config.json", '{"top_k": "many"}', "top_k would be 'many'"),
        ("generation_config.json", '{"top_k": 0.5}', "top_k would be 0.5"),
        ("generation_config.json", "[1]", "not a JSON object"),
        ("tokenizer.model", b"\x0a\xff", "cut short"),
        ("tokenizer.model", b"", "no pieces"),
        ("tokenizer.model", b"\x0b" * 20, "no SentencePiece vocabulary"),
        ("tokenizer.model", b"\xff" * 20, "no SentencePiece vocabulary"),
    ],
)
def test_a_damaged_file_is_refused_by_its_name(name: str, content: Any, reason: str, tmp_path: Path) -> None:
    directory = LLAMA.write(tmp_path)
    (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(directory, reason)


def split_at(pattern: str) -> dict[str, Any]:
    """A step of a pre-tokenizer."""
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def sequence(steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Steps one after the other."""
    return {"type": "Sequence", "pretokenizers": steps, "processors": steps}


def repeated(n_times: int) -> dict[str, Any]:
    """A post-processor that says a text so many times."""
    return {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}] * n_times, "special_tokens": {}}


ENDS = {"type": "RobertaProcessing", "cls": ["<s>", 0], "sep": ["</s>", 0]}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda file: file["model"].update(type="Unigram"), "the type 'Unigram'"),
        (lambda file: file["model"].update(dropout=0.1), "dropout"),
        (lambda file: file["model"].update(byte_fallback=True), "byte_fallback"),
        (lambda file: file["model"].update(merges=[]), "no merges"),
        (lambda file: file["model"].update(merges=["a b c"]), "the merge 0"),
        (lambda file: file["model"].update(merges=["a \u20ac"]), "does not have"),
        (lambda file: file["model"].update(vocab={"a": -1}), "number"),
        (lambda file: file["model"].update(vocab={"a": 1, "b": 1}), "the same number"),
        (lambda file: file.update(pre_tokenizer={"type": "Whitespace"}), "Whitespace"),
        (lambda file: file["pre_tokenizer"]["pretokenizers"].insert(0, split_at("e")), "is not known to llama.cpp"),
        (lambda file: file.update(normalizer={"type": "Lowercase"}), "Lowercase"),
        (lambda file: file.update(post_processor={"type": "Other"}), "Other"),
        (lambda file: file.update(post_processor={"type": "TemplateProcessing"}), "damaged"),
        (lambda file: file["added_tokens"][0].update(id=77), "has the number 77"),
        (lambda file: file["added_tokens"].append(file["added_tokens"][0]), "the same as another"),
        (
            lambda file: file.update(pre_tokenizer=split_at(r"(?:.|\s)*?" * 4 + r"\p{Lt}")),
            "take more than 0.2 seconds",
        ),
        (lambda file: file.update(pre_tokenizer=split_at("(")), "is not read"),
        (lambda file: file.update(pre_tokenizer=sequence([{"type": "ByteLevel"}] * 64)), "make more than 4096"),
        (
            lambda file: file.update(pre_tokenizer=sequence([{"type": "Digits"}] * 100_000)),
            "take more than 0.2 seconds",
        ),
        (lambda file: file.update(post_processor=sequence([repeated(9)] * 64)), "make more than 4096"),
        (lambda file: file.update(post_processor=sequence([ENDS] * 9_999)), "make more than 4096"),
    ],
)
def test_a_tokenizer_that_is_not_reproduced_is_refused(
    change: Callable[[Any], None], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_tokenizer, "TIMEOUT", 0.2)
    directory = LLAMA.write(tmp_path)

    def changed(file: Any) -> Any:
        change(file)
        return file

    edit(directory / "tokenizer.json", changed)
    refused(directory, reason)


def test_rerankers_and_models_for_embeddings_are_refused(tmp_path: Path) -> None:
    directory = QWEN3.write(tmp_path)
    (directory / "README.md").write_text("# Qwen3-Reranker-0.6B\n")
    refused(directory, "reranker")
    directory = directory.rename(tmp_path / "Qwen3-Reranker-0.6B")
    (directory / "README.md").unlink()
    refused(directory, "reranker")
    directory = QWEN2.write(tmp_path)
    (directory / "modules.json").write_text("[]")
    refused(directory, "modules.json")


def test_missing_and_odd_files_are_refused(tmp_path: Path) -> None:
    directory = LLAMA.write(tmp_path)
    refused(directory / "config.json", "not a directory", ModelFileError)
    (directory / "tokenizer.json").unlink()
    refused(directory, "neither a tokenizer.model nor a tokenizer.json")
    (directory / "model.safetensors").unlink()
    refused(directory, r"no model\*\.safetensors")
    os.mkfifo(directory / "model.safetensors")
    refused(directory, "not a regular file", ModelFileError)
    (directory / "config.json").unlink()
    refused(directory, "no config.json")


def test_a_file_that_changes_meanwhile_ends_the_conversion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = LLAMA.write(tmp_path)
    inputs = SourceDirectory.inputs

    def touched(source: SourceDirectory, progress: Progress) -> Any:
        found = inputs(source, progress)
        os.utime(directory / "model.safetensors", ns=(1, 1))
        return found

    monkeypatch.setattr(SourceDirectory, "inputs", touched)
    refused(directory, "has changed", ModelFileChanged)

    def cut(source: SourceDirectory, progress: Progress) -> Any:
        found = inputs(source, progress)
        os.truncate(directory / "model.safetensors", 5000)
        return found

    monkeypatch.setattr(SourceDirectory, "inputs", cut)
    refused(directory, "has changed", ModelFileChanged)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    class Full(conversion.Silent):
        writing = False

        def start(self, what: str, total: int) -> None:
            self.writing = what.startswith("converting")

        def update(self, done: int) -> None:
            if self.writing and done > 10_000:
                raise OSError(errno.ENOSPC, "No space left on device")

    directory, output = LLAMA.write(tmp_path), tmp_path / "out" / "model.gguf"
    output.parent.mkdir()
    output.write_bytes(b"before")
    with pytest.raises(ConversionFailed, match=r"no space left in .*/out for model\.gguf"):
        convert(directory, output, progress=Full())
    assert [path.name for path in output.parent.iterdir()] == ["model.gguf"]
    assert output.read_bytes() == b"before"


def test_an_output_that_cannot_be_or_is_an_input_is_refused(tmp_path: Path) -> None:
    directory = LLAMA.write(tmp_path)
    with pytest.raises(ConversionFailed, match="cannot write"):
        convert(directory, tmp_path / "missing" / "model.gguf")
    before = (directory / "model.safetensors").read_bytes()
    with pytest.raises(ConversionRefused, match="would replace"):
        convert(directory, directory / "model.safetensors")
    assert (directory / "model.safetensors").read_bytes() == before


def test_every_model_used_here_is_converted_when_nothing_is_changed(tmp_path: Path) -> None:
    for model in (LLAMA, QWEN3, SENTENCEPIECE):
        assert isinstance(model, HFModel)
        report = convert(model.write(tmp_path), tmp_path / f"{model.name}.gguf")
        assert {name for name, _, _ in report.inputs} >= {"config.json", "model.safetensors", "tokenizer_config.json"}
