"""A GGUF file's tensors as the kernels take them, and what is wrong with those that they do not take."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, cast

import numpy as np
import numpy.typing as npt

from engine.errors import UnplayableModel
from engine.gguf import GGMLType, GGUFFile, TensorInfo
from engine.kernels import Arena, Matrix, pack

PLAYED_TYPES = frozenset(
    {
        GGMLType.F32,
        GGMLType.F16,
        GGMLType.BF16,
        GGMLType.Q4_0,
        GGMLType.Q4_1,
        GGMLType.Q5_0,
        GGMLType.Q5_1,
        GGMLType.Q8_0,
        GGMLType.Q2_K,
        GGMLType.Q3_K,
        GGMLType.Q4_K,
        GGMLType.Q5_K,
        GGMLType.Q6_K,
        GGMLType.IQ4_NL,
        GGMLType.IQ4_XS,
        GGMLType.Q1_0,
        GGMLType.Q2_0,
    }
)


# --- the rules: why a tensor is not taken, None if it is ------------------------------------------------------------


def _misfit(info: TensorInfo | None, shape: tuple[int, ...]) -> str | None:
    if info is None:
        return "is missing"
    if _without_ones(info.shape) != _without_ones(shape):
        return f"has shape {list(info.shape)}, not {list(shape)}"
    return None


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the extents of 1 at its end: they say nothing, and the reference does not compare them."""
    n = len(shape)
    while n and shape[n - 1] == 1:
        n -= 1
    return shape[:n]


def _unplayed(kind: GGMLType) -> str | None:
    return None if kind in PLAYED_TYPES else f"is {kind.name}, a type that is not played"


def _no_matrix(info: TensorInfo | None, rows: int, cols: int) -> str | None:
    if (why := _misfit(info, (cols, rows))) or info is None:
        return why
    if cols % 32:
        return f"has rows of {cols} weights, not a multiple of 32"
    return _unplayed(info.type)


def _no_vector(info: TensorInfo | None, n: int) -> str | None:
    if (why := _misfit(info, (n,))) or info is None:
        return why
    return None if info.type is GGMLType.F32 else f"is {info.type.name}, not F32"


# --- the tensors --------------------------------------------------------------------------------------------------


class Weights:
    """Matrices and vectors of a file: views of its map. Every refusal names the tensor and why."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._matrices: dict[str, Matrix] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def matrix(self, name: str, rows: int, cols: int) -> Matrix:
        """A matrix of (rows, cols) weights in one of the types that have a kernel."""
        if name not in self._matrices:
            info = self._file.tensors.get(name)
            if (why := _no_matrix(info, rows, cols)) or info is None:
                raise UnplayableModel(f"tensor {name} {why}")
            self._matrices[name] = Matrix(int(info.type), self._file.data(name), rows, cols)
        return self._matrices[name]

    def vector(self, name: str, n: int) -> npt.NDArray[np.float32]:
        """A vector of n floats."""
        if why := _no_vector(self._file.tensors.get(name), n):
            raise UnplayableModel(f"tensor {name} {why}")
        return self._file.data(name).view(np.float32)

    def optional_vector(self, name: str, n: int) -> npt.NDArray[np.float32] | None:
        """A vector of n floats, or None if the file does not have it."""
        return self.vector(name, n) if name in self else None

    def pack(self, matrices: Collection[Matrix], n_threads: int = 1) -> None:
        """Copies matrices into large pages and the order the kernels read them in, where that pays for itself, and
        gives the pages of the map back that were read for it."""
        pack(list(matrices), Arena(sum(matrix.packed_bytes for matrix in matrices)), n_threads)
        self._file.release()


class _Shape:
    """Stands for a matrix where only its size is asked for."""

    def __init__(self, rows: int, cols: int) -> None:
        self.rows = rows
        self.cols = cols


_NO_FLOATS: Final = np.empty(0, dtype=np.float32)


class HeaderWeights(Weights):
    """The tensors of a header, without their data: for a walk that finds everything that is wrong with them.

    What it hands out has a size and no contents. Nothing is raised; `problems` has it all.
    """

    def __init__(self, tensors: Mapping[str, TensorInfo]) -> None:
        self._tensors = tensors
        self._asked: dict[str, str | None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def matrix(self, name: str, rows: int, cols: int) -> Matrix:
        self._ask(name, _no_matrix(self._tensors.get(name), rows, cols))
        return cast(Matrix, _Shape(rows, cols))

    def vector(self, name: str, n: int) -> npt.NDArray[np.float32]:
        self._ask(name, _no_vector(self._tensors.get(name), n))
        return _NO_FLOATS

    def pack(self, matrices: Collection[Matrix], n_threads: int = 1) -> None:
        raise NotImplementedError("a header has nothing to pack")

    def _ask(self, name: str, why: str | None) -> None:
        self._asked[name] = self._asked.get(name) or why

    def problems(self) -> list[str]:
        """Why the tensors asked for so far are not taken, and which were never asked for: the reference refuses those
        too, for it does not know what they would change. Tensors with one and the same fault are one problem."""
        faults = {name: why for name, why in self._asked.items() if why}
        faults |= dict.fromkeys((name for name in self._tensors if name not in self._asked), "is none that is played")
        return _grouped(faults)

    def unplayed_types(self) -> list[str]:
        """The tensors of types that no kernel takes, for a header whose architecture is not known."""
        return _grouped({name: why for name, info in self._tensors.items() if (why := _unplayed(info.type))})


def _grouped(faults: Mapping[str, str]) -> list[str]:
    names: dict[str, list[str]] = {}
    for name, why in faults.items():
        names.setdefault(why, []).append(name)
    return [
        f"tensor {first} {why}" + (f", and {len(others)} more like it" if others else "")
        for why, (first, *others) in names.items()
    ]
