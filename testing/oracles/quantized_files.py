"""SmolLM2 in every weight type, made by the reference's llama-quantize in a folder outside the tree."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from registry.download import cache_dir
from testing.oracles.reference_server import ReferenceError, require

FOLDER = cache_dir() / "oracles"

QUANTIZATIONS: Sequence[str] = (
    *("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q3_K_M", "Q3_K_L"),
    *("Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "Q2_0"),
    *("Q4_0-pure", "Q5_0-pure", "Q5_1-pure", "IQ4_NL-pure", "Q2_0-pure"),
)
"""What llama-quantize can make of rows of 576: it puts a neighbour in the place of a type that needs 256 in a block.
In a pure file the embedding, which is the output too, has the type of the other matrices."""


def quantized(source: Path, name: str, folder: Path = FOLDER) -> Path:
    """The file of one quantization, made from `source` unless it is there.

    Raises:
        ReferenceError: llama-quantize failed.
    """
    path = folder / f"smol-{name}.gguf"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    kind, _, pure = name.partition("-")
    command = [str(require().folder / "llama-quantize"), "--allow-requantize", *(["--pure"] if pure else [])]
    made = subprocess.run([*command, str(source), str(part), kind, "2"], capture_output=True, text=True, check=False)
    if made.returncode:
        raise ReferenceError(
            f"llama-quantize makes no {name} of {source.name}: {made.stderr.strip().splitlines()[-1:]}"
        )
    return part.rename(path)


def all_quantized(source: Path, folder: Path = FOLDER) -> Iterator[tuple[str, Path]]:
    """Every quantization with its file."""
    for name in QUANTIZATIONS:
        yield name, quantized(source, name, folder)
