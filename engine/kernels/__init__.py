"""The compiled kernels: quantized products, attention, the graph walk, the tokenizer's and the sampler's hot loops."""

from engine.kernels._kernels import (
    Graph as Graph,
)
from engine.kernels._kernels import (
    Matrix as Matrix,
)
from engine.kernels._kernels import (
    isa as isa,
)
from engine.kernels._kernels import (
    multiply as multiply,
)
