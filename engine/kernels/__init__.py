"""The compiled kernels: quantized products, attention, the graph walk, the tokenizer's and the sampler's hot loops."""

from engine.kernels._kernels import (
    Arena,
    FileMap,
    Graph,
    Matrix,
    Rope,
    decoded_strings,
    descending,
    isa,
    mean_rows,
    multiply,
    pack,
    quantize,
    skip_strings,
    soft_max,
)

__all__ = [
    "Arena",
    "FileMap",
    "Graph",
    "Matrix",
    "Rope",
    "decoded_strings",
    "descending",
    "isa",
    "mean_rows",
    "multiply",
    "pack",
    "quantize",
    "skip_strings",
    "soft_max",
]
