"""A GGUF file's tensors as the kernels take them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.errors import UnplayableModel
from engine.gguf import GGMLType, GGUFFile, TensorInfo
from engine.kernels import Arena, Matrix, pack

PLAYED_TYPES = frozenset({GGMLType.F32, GGMLType.F16, GGMLType.BF16, GGMLType.Q4_1, GGMLType.Q8_0})


class Weights:
    """Matrices and vectors of a file: views of its map. Every refusal names the tensor and why."""

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self._matrices: dict[str, Matrix] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._file.tensors

    def _info(self, name: str, shape: tuple[int, ...]) -> TensorInfo:
        info = self._file.tensors.get(name)
        if info is None:
            raise UnplayableModel(f"tensor {name} is missing")
        if info.shape != shape:
            raise UnplayableModel(f"tensor {name} has shape {list(info.shape)}, not {list(shape)}")
        return info

    def matrix(self, name: str, rows: int, cols: int) -> Matrix:
        """A matrix of (rows, cols) weights in one of the types that have a kernel."""
        if name not in self._matrices:
            info = self._info(name, (cols, rows))
            if info.type not in PLAYED_TYPES:
                raise UnplayableModel(f"tensor {name} is {info.type.name}, a type that is not played")
            if cols % 32:
                raise UnplayableModel(f"tensor {name} has rows of {cols} weights, not a multiple of 32")
            self._matrices[name] = Matrix(int(info.type), self._file.data(name), rows, cols)
        return self._matrices[name]

    def vector(self, name: str, n: int) -> npt.NDArray[np.float32]:
        """A vector of n floats."""
        info = self._info(name, (n,))
        if info.type is not GGMLType.F32:
            raise UnplayableModel(f"tensor {name} is {info.type.name}, not F32")
        return self._file.data(name).view(np.float32)

    def pack(self) -> None:
        """Copies the matrices handed out so far into the order the kernels read them in, where that pays for itself,
        and gives the pages of the map back that were read for it."""
        matrices = list(self._matrices.values())
        pack(matrices, Arena(sum(matrix.packed_bytes for matrix in matrices)))
        self._file.release()
