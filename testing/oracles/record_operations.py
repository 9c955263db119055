"""Write down what the reference's kernels compute: `python -m testing.oracles.record_operations`.

`records/operations.json` gets a hash of what each operation gives: for each weight type the dequantized rows and the
products of `operation_cases.recorded`, then every case of `activation_cases` and `step_cases`. The inputs are made of a
seed wherever the record is read.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from testing.oracles import activation_cases, reference_steps, step_cases
from testing.oracles.blocks import WANTED
from testing.oracles.operation_cases import Case, digest, recorded, recorded_rows
from testing.oracles.reference_ops import Operations
from testing.oracles.reference_server import require
from testing.server_process import ServerError

RECORD = Path(__file__).parent / "records" / "operations.json"


def record() -> dict[str, Any]:
    """The record.

    Raises:
        ReferenceError: the reference is not installed, or is another build.
    """
    operations = Operations()
    types = {}
    for kind in WANTED:
        rows = {
            name: digest(operations.dequantize(kind, data.tobytes(), rows, cols))
            for name, rows, cols, data in recorded_rows(kind)
        }
        products = {name: [_product(operations, case) for case in cases] for name, cases in recorded(kind).items()}
        types[kind.name] = {"rows": rows, "products": products}
    steps = {
        "rope": {case.name: digest(reference_steps.rope_table(operations, case)) for case in step_cases.ropes()},
        "attention": {case.name: digest(reference_steps.attention(case)) for case in step_cases.attentions()},
        "rms_norm": {case.name: digest(reference_steps.rms_norm(operations, case)) for case in step_cases.norms()},
        "swiglu": {case.name: digest(reference_steps.swiglu(operations, case)) for case in step_cases.gates()},
    }
    activations = {
        kind: {
            case.name: {
                part: digest(values)
                for part, values in sorted(activation_cases.references(operations, kind, case).items())
            }
            for case in activation_cases.cases()
        }
        for kind in activation_cases.KINDS
    }
    reference = require().identity() | {"threads": operations.n_threads}
    return {"reference": reference, "activations": activations, "steps": steps, "types": types}


def _product(operations: Operations, case: Case) -> str:
    data, x = case.weights(), case.activations()
    return digest(operations.mul_mat(case.type, data, case.rows, case.cols, x))


def main() -> int:
    try:
        made = record()
    except ServerError as error:
        print(f"record_operations: {error}", file=sys.stderr)
        return 2
    RECORD.write_text(json.dumps(made, separators=(",", ":")).replace('],"', '],\n"').replace('},"', '},\n"') + "\n")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
