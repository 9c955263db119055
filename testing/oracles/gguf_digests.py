"""Short hashes of a GGUF file's keys and tensors, in the file's order: where two files differ is seen at once."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from engine.gguf import read_header


def digests(path: Path) -> dict[str, Any]:
    """`keys` and `tensors` of a file: each name with its value's hash, or with the value where that is short."""
    header = read_header(path)
    data = path.read_bytes()
    tensors = {}
    for name, info in header.tensors.items():
        body = hashlib.sha256(data[info.offset : info.offset + info.nbytes]).hexdigest()[:12]
        tensors[name] = f"{info.type.name} {list(info.shape)} {body}"
    return {"keys": {key: _short(value) for key, value in header.metadata.items()}, "tensors": tensors}


def _short(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{len(value)}] {hashlib.sha256(value.tobytes()).hexdigest()[:12]}"
    if isinstance(value, list):
        return f"str[{len(value)}] {hashlib.sha256(repr(value).encode()).hexdigest()[:12]}"
    return value
