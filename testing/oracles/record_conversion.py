"""Convert `conversion_cases`' directories with the reference's converter and write down what came of it, to
`records/conversions.json`: `python -m testing.oracles.record_conversion PYTHON SCRIPT`.

PYTHON is an interpreter that has what llama.cpp's `requirements/requirements-convert_hf_to_gguf.txt` names
(transformers 4.57.6 among it), SCRIPT llama.cpp's `convert_hf_to_gguf.py`. Of each file: its sha256 and size, and of
each key and tensor a short hash, by which a difference is found. Of each name: its parts for each count of weights.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from registry.pins import sha256_file
from testing.oracles.conversion_cases import CASES, COUNTS, NAMES
from testing.oracles.gguf_digests import digests
from testing.oracles.record import RECORDS

RECORD: Final = RECORDS / "conversions.json"

_DRIVER: Final = """
import importlib, json, os, sys
script, runs, names, counts = json.load(sys.stdin)
sys.path.insert(0, os.path.dirname(script))
converter = importlib.import_module("convert_hf_to_gguf")
import gguf
for arguments in runs:
    sys.argv = [script, *arguments]
    converter.main()
parts = {
    name: {
        str(count): [*gguf.Metadata.get_model_id_components(name, count)] for count in counts
    } for name in names
}
titles = {name: gguf.Metadata.id_to_title(name) for name in names}
sizes = {str(count): gguf.size_label(count, count, 0, 0) for count in counts}
print(json.dumps([parts, titles, sizes]))
"""


def main() -> int:
    python, script = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        runs, outputs = [], {}
        for case in CASES:
            directory = case.model.write(Path(folder))
            outputs[case.model.name] = output = Path(folder) / f"{case.model.name}.gguf"
            named = ["--model-name", case.model_name] if case.model_name else []
            runs.append([str(directory), "--outfile", str(output), "--outtype", "f16", *named])
        done = subprocess.run(
            [python, "-c", _DRIVER],
            input=json.dumps([script, runs, NAMES, COUNTS]),
            env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TQDM_DISABLE": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        parts, titles, sizes = json.loads(done.stdout.splitlines()[-1])
        record: dict[str, Any] = {
            "files": {name: _described(path) for name, path in outputs.items()},
            "names": parts,
            "titles": titles,
            "sizes": sizes,
        }
    RECORD.write_text(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{len(outputs)} files, {len(parts)} names")
    return 0


def _described(path: Path) -> dict[str, Any]:
    digest = sha256_file(path)
    return {"sha256": digest.sha256, "size": digest.identity.size, **digests(path)}


if __name__ == "__main__":
    sys.exit(main())
