"""The compiled kernels: quantized products, attention, the graph walk, the tokenizer's and the sampler's hot loops."""

from engine.kernels._kernels import Graph, Matrix, isa, multiply

__all__ = ["Graph", "Matrix", "isa", "multiply"]
