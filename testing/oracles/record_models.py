"""Write down what whole models compute in the reference: `python -m testing.oracles.record_models`.

`records/models.json` gets, for each of `small_models.MODELS` and for SmolLM2, the file's sha256 and, for each setting,
a hash of the logits at each point of its script; null where the reference refuses to load it so. The architectures
have the longer script's as `edges`. The small models are made wherever the record is read.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from registry.download import ensure
from testing.oracles.model_cases import EDGES, N_CTX, SETTINGS, SHORT, SMALL, WHOLE, Script, Settings, settings_of
from testing.oracles.operation_cases import digest
from testing.oracles.record import sha256_of
from testing.oracles.reference_model import Oracle
from testing.oracles.reference_server import ReferenceError, require
from testing.oracles.small_models import ARCHITECTURES, MODELS
from testing.server_process import ServerError

RECORD = Path(__file__).parent / "records" / "models.json"
SCRIPTS = {"whole": WHOLE, "short": SHORT}


def record() -> dict[str, Any]:
    """The record.

    Raises:
        ReferenceError: the reference is not installed, or is another build.
    """
    models = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            path = model.file().write(Path(folder) / f"{model.name}.gguf")
            models[model.name] = _model(path, settings_of(model.name), SMALL)
            if model in ARCHITECTURES:
                models[model.name]["edges"] = _logits(path, SETTINGS[0], EDGES)
    source, _ = ensure()
    real = {name: _model(source, SETTINGS[:1], script) for name, script in SCRIPTS.items()}
    return {"reference": require().identity(), "small": models, "SmolLM2": real}


def _model(path: Path, settings: Sequence[Settings], script: Script) -> dict[str, Any]:
    return {"sha256": sha256_of(path), **{one.name: _logits(path, one, script) for one in settings}}


def _logits(path: Path, settings: Settings, script: Script) -> list[str] | None:
    try:
        reference = Oracle(path, n_ctx=N_CTX, **settings.flags)
    except ReferenceError:
        return None
    with reference:
        return [digest(logits) for _, logits in script.play(reference)]


def main() -> int:
    try:
        made = record()
    except ServerError as error:
        print(f"record_models: {error}", file=sys.stderr)
        return 2
    RECORD.write_text(json.dumps(made, separators=(",", ":")).replace('],"', '],\n"').replace('},"', '},\n"') + "\n")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
