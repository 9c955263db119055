"""Single operations of the reference, computed by its own compiled code on the bytes that are handed in.

`Operations().mul_mat(GGMLType.Q4_K, weights, rows, cols, x)` is the product llama-server would compute for a matrix
of that type and shape. Arrays are numpy's, row-major: what ggml calls (ne0, ne1, ne2) has the shape (ne2, ne1, ne0).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from testing.oracles.reference_library import InitParams, load

F32, F16, I32 = 0, 1, 26
NEOX = 2
"""The rope mode that turns halves of a head; 0 turns neighbours."""
_PREC_F32 = 10
_HINT_HADAMARD = 1
_USAGE_WEIGHTS = 1
_TENSORS = 64  # a context holds at most so many

Floats = npt.NDArray[np.float32]


class Operations:
    """The reference's CPU backend.

    Args:
        n_threads: threads that compute; some operations split their work, and their sums, by it.
    """

    def __init__(self, n_threads: int = 2) -> None:
        self.lib = load()
        self.backend = self.lib.ggml_backend_cpu_init()
        self.lib.ggml_backend_cpu_set_n_threads(self.backend, n_threads)
        self.n_threads = n_threads
        registry = self.lib.ggml_backend_cpu_reg()
        self._device = self.lib.ggml_backend_reg_dev_get(registry, 0)
        address = self.lib.ggml_backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts")
        extra = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)(self._device)
        self._buffer_types: list[int] = []
        while extra[len(self._buffer_types)]:
            self._buffer_types.append(extra[len(self._buffer_types)])
        self.plain: int = self.lib.ggml_backend_cpu_buffer_type()

    # --- formats ---

    def row_bytes(self, type: int, cols: int) -> int:
        """Bytes of a row of `cols` weights."""
        return int(self.lib.ggml_row_size(type, cols))

    def block(self, type: int) -> tuple[int, int]:
        """How many weights a block of the type has, and how many bytes."""
        traits = self.lib.ggml_get_type_traits(type).contents
        return int(traits.blck_size), int(traits.type_size)

    def quantize(self, type: int, rows: Floats) -> bytes:
        """Rows of weights, (n, cols), as llama-quantize writes them without an importance matrix."""
        source = np.ascontiguousarray(rows, np.float32)
        n, cols = source.shape
        out = ctypes.create_string_buffer(n * self.row_bytes(type, cols))
        size = self.lib.ggml_quantize_chunk(type, source.ctypes.data, out, 0, n, cols, None)
        assert size == len(out)
        return out.raw

    def dequantize(self, type: int, weights: bytes, rows: int, cols: int) -> Floats:
        """The weights as floats, (rows, cols), as an embedding is looked up: by the operation GET_ROWS."""
        with Graph(self) as graph:
            matrix = graph.weight(type, weights, rows, cols, self.plain)
            indices = graph.input(np.arange(rows, dtype=np.int32))
            return graph.compute(self.lib.ggml_get_rows(graph.context, matrix, indices), (rows, cols))

    def activation_type(self, type: int) -> int:
        """The type to which a row of activations is converted before it meets weights of `type`."""
        return int(self.lib.ggml_get_type_traits_cpu(type).contents.vec_dot_type)

    def quantize_activations(self, type: int, x: Floats) -> bytes:
        """Rows of activations, (n, cols), in `type`: Q8_0, Q8_1, Q8_K, F16 or BF16, by the CPU's own conversion.

        The repacked layouts quantize four rows at a time with other code; `mul_mat` shows what that gives.
        """
        convert = self._function(self.lib.ggml_get_type_traits_cpu(type).contents.from_float, 2)
        source = np.ascontiguousarray(x, np.float32)
        size = self.row_bytes(type, source.shape[1])
        out = ctypes.create_string_buffer(len(source) * size)
        for i, row in enumerate(source):
            convert(row.ctypes.data, ctypes.addressof(out) + i * size, row.size)
        return out.raw

    def vec_dot(self, type: int, row: bytes, x: Floats) -> np.float32:
        """One row of weights times one row of activations, (cols,), by the type's plain dot product."""
        dot_type = self.activation_type(type)
        if dot_type == F32:
            quantized = np.ascontiguousarray(x, np.float32).tobytes()
        else:
            quantized = self.quantize_activations(dot_type, x.reshape(1, -1))
        address = self.lib.ggml_get_type_traits_cpu(type).contents.vec_dot
        kinds = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)
        dot = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(address)
        out = ctypes.c_float()
        weights, activations = _aligned(row), _aligned(quantized)
        dot(x.size, ctypes.addressof(out), 0, weights.ctypes.data, 0, activations.ctypes.data, 0, 1)
        return np.float32(out.value)

    @staticmethod
    def _function(address: int, n_pointers: int) -> Any:
        return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_pointers, ctypes.c_int64)(address)

    # --- products ---

    def mul_mat(
        self, type: int, weights: bytes | npt.NDArray[np.uint8], rows: int, cols: int, x: Floats, layout: str = ""
    ) -> Floats:
        """x W^T for x of (n, cols): (n, rows), by the kernel that llama-server takes for this type and shape.

        Which one is decided by where the weights lie (`layout_of`) and then, in the plain layout, by the operation
        itself: tinyBLAS, the panels of the IQ types, or a dot product for each row.

        Args:
            layout: "CPU" or "CPU_REPACK" to ask for one; "" for the one the loader of llama.cpp picks.
        """
        with Graph(self) as graph:
            buffer_type = self._buffer_type(type, rows, cols)
            if layout and layout != self._name(buffer_type):
                buffer_type = {self._name(x): x for x in (*self._buffer_types, self.plain)}[layout]
            matrix = graph.weight(type, weights, rows, cols, buffer_type)
            activations = graph.input(np.ascontiguousarray(x, np.float32))
            return graph.compute(self.lib.ggml_mul_mat(graph.context, matrix, activations), (len(x), rows))

    def layout_of(self, type: int, rows: int, cols: int) -> str:
        """The name of the buffer type that holds such a matrix: "CPU_REPACK" or "CPU".

        The rule is the model loader's. Its list for a CPU is the backend's extra buffer types, then the plain one; a
        tensor goes to the first that can run the operation the tensor is for, over 512 rows of activations. Matrices
        of a layer and `output.weight` are for MUL_MAT. `token_embd.weight` is for GET_ROWS, which no extra buffer
        type runs, and stays plain. Where output and embedding are tied, the loader makes a second tensor of the same
        bytes, which is for MUL_MAT like any output: it is repacked when its type and shape allow. Repacked here are
        Q4_0, Q4_K, IQ4_NL and MXFP4 of rows divisible by 8.
        """
        return self._name(self._buffer_type(type, rows, cols))

    def _name(self, buffer_type: int) -> str:
        name: bytes = self.lib.ggml_backend_buft_name(buffer_type)
        return name.decode()

    def _buffer_type(self, type: int, rows: int, cols: int) -> int:
        for buffer_type in self._buffer_types:
            with Graph(self) as graph:
                matrix = graph.tensor(type, (rows, cols), graph.weights)
                product = self.lib.ggml_mul_mat(graph.context, matrix, graph.tensor(F32, (512, cols)))
                matrix.contents.buffer = self.lib.ggml_backend_buft_alloc_buffer(buffer_type, 0)
                supported = self.lib.ggml_backend_dev_supports_op(self._device, product)
                self.lib.ggml_backend_buffer_free(matrix.contents.buffer)
                matrix.contents.buffer = None
                if supported:
                    return buffer_type
        return self.plain

    # --- the other steps of a layer ---

    def rope(
        self,
        x: Floats,
        positions: Sequence[int],
        n_rot: int,
        *,
        mode: int = 0,
        freq_base: float = 10000.0,
        freq_scale: float = 1.0,
        factors: Floats | None = None,
        n_ctx_orig: int = 0,
        ext_factor: float = 0.0,
        attn_factor: float = 1.0,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
    ) -> Floats:
        """Rotary position embedding of (n, n_head, head_size), one position a row; a `factors` entry a pair."""
        with Graph(self) as graph:
            rows = graph.input(np.ascontiguousarray(x, np.float32))
            where = graph.input(np.asarray(positions, np.int32))
            divisors = None if factors is None else graph.input(np.ascontiguousarray(factors, np.float32))
            yarn = (freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow)
            turned = self.lib.ggml_rope_ext(graph.context, rows, where, divisors, n_rot, mode, n_ctx_orig, *yarn)
            return graph.compute(turned, x.shape)

    def flash_attn(
        self,
        q: Floats,
        k: bytes | npt.NDArray[Any],
        v: bytes | npt.NDArray[Any],
        mask: npt.NDArray[np.float16],
        scale: float,
        *,
        n_head_kv: int,
        type_k: int = F16,
        type_v: int = F16,
    ) -> Floats:
        """Attention of q, (n, n_head, head_size), over a cache: (n, n_head, head_size).

        Args:
            k, v: the cells' bytes, (n_kv, n_head_kv, head_size) in `type_k` and `type_v`.
            mask: (n, n_kv), 0 or -inf. llama-server's caches show a multiple of 256 cells.
        """
        n, _, head_size = q.shape
        n_kv = mask.shape[1]
        with Graph(self) as graph:
            queries = graph.permuted(graph.input(np.ascontiguousarray(q, np.float32)))
            cells = (n_kv, n_head_kv, head_size)
            keys = graph.permuted(graph.input(_bytes(k), type_k, cells))
            values = graph.permuted(graph.input(_bytes(v), type_v, cells))
            seen = graph.input(_bytes(np.ascontiguousarray(mask, np.float16)), F16, (n, n_kv))
            out = self.lib.ggml_flash_attn_ext(graph.context, queries, keys, values, seen, scale, 0.0, 0.0)
            self.lib.ggml_prec_set_acc(out, _PREC_F32)
            return graph.compute(out, q.shape)

    def hadamard(self, x: Floats, size: int) -> Floats:
        """Orthonormal Hadamard transforms of `size` neighbouring floats each: what a quantized cache's rows go through.

        llama.cpp asks for a product with a matrix that it marks; the CPU never reads it and takes a fast transform.
        """
        with Graph(self) as graph:
            unread = graph.input(np.zeros((size, size), np.float32))
            rows = graph.input(np.ascontiguousarray(x, np.float32).reshape(-1, size))
            product = self.lib.ggml_mul_mat(graph.context, unread, rows)
            self.lib.ggml_mul_mat_set_hint(product, _HINT_HADAMARD)
            return graph.compute(product, x.shape)

    def rms_norm(self, x: Floats, weight: Floats | None, eps: float) -> Floats:
        """Root-mean-square norm over the last axis, times `weight` where one is given."""
        with Graph(self) as graph:
            out = self.lib.ggml_rms_norm(graph.context, graph.input(np.ascontiguousarray(x, np.float32)), eps)
            if weight is not None:
                out = self.lib.ggml_mul(graph.context, out, graph.input(np.ascontiguousarray(weight, np.float32)))
            return graph.compute(out, x.shape)

    def swiglu(self, gate: Floats, up: Floats) -> Floats:
        """silu(gate) * up, of (n, cols) both."""
        with Graph(self) as graph:
            first, second = (graph.input(np.ascontiguousarray(x, np.float32)) for x in (gate, up))
            return graph.compute(self.lib.ggml_swiglu_split(graph.context, first, second), gate.shape)


class Graph:
    """One computation: its tensors, their memory, and the buffers that are freed with it."""

    def __init__(self, operations: Operations) -> None:
        self.operations = operations
        self.lib = operations.lib
        size = _TENSORS * self.lib.ggml_tensor_overhead() + self.lib.ggml_graph_overhead()
        self.context = self.lib.ggml_init(InitParams(size, None, True))
        self.weights = self.lib.ggml_init(InitParams(size, None, True))
        self._buffers: list[int] = []
        self._inputs: list[tuple[Any, npt.NDArray[Any]]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for buffer in self._buffers:
            self.lib.ggml_backend_buffer_free(buffer)
        self.lib.ggml_free(self.context)
        self.lib.ggml_free(self.weights)

    def tensor(self, type: int, shape: Sequence[int], context: int | None = None) -> Any:
        """A tensor without memory; `shape` slowest axis first."""
        sizes = (ctypes.c_int64 * len(shape))(*reversed(shape))
        return self.lib.ggml_new_tensor(context or self.context, type, len(shape), sizes)

    def weight(self, type: int, data: bytes | npt.NDArray[np.uint8], rows: int, cols: int, buffer_type: int) -> Any:
        """A matrix of weights in a buffer of the given type, which may lay them out anew."""
        matrix = self.tensor(type, (rows, cols), self.weights)
        source = _bytes(data)
        assert source.size == self.lib.ggml_nbytes(matrix), "bytes do not fit the shape"
        buffer = self.lib.ggml_backend_alloc_ctx_tensors_from_buft(self.weights, buffer_type)
        self._buffers.append(buffer)
        self.lib.ggml_backend_buffer_set_usage(buffer, _USAGE_WEIGHTS)
        self.lib.ggml_backend_tensor_set(matrix, source.ctypes.data, 0, source.size)
        return matrix

    def input(self, values: npt.NDArray[Any], type: int | None = None, shape: Sequence[int] | None = None) -> Any:
        """A tensor that `compute` fills with `values`: floats or int32, or bytes of the given type and shape."""
        if type is None:
            type = {np.dtype(np.float32): F32, np.dtype(np.int32): I32}[values.dtype]
        tensor = self.tensor(type, shape or values.shape)
        assert values.nbytes == self.lib.ggml_nbytes(tensor), "bytes do not fit the shape"
        self._inputs.append((tensor, values))
        return tensor

    def permuted(self, tensor: Any) -> Any:
        """A view with the second and third axis exchanged, as attention takes rows by heads."""
        return self.lib.ggml_permute(self.context, tensor, 0, 2, 1, 3)

    def compute(self, result: Any, shape: Sequence[int]) -> Floats:
        """What the graph that ends in `result` gives."""
        graph = self.lib.ggml_new_graph(self.context)
        self.lib.ggml_build_forward_expand(graph, result)
        buffer = self.lib.ggml_backend_alloc_ctx_tensors_from_buft(self.context, self.operations.plain)
        self._buffers.append(buffer)
        for tensor, values in self._inputs:
            self.lib.ggml_backend_tensor_set(tensor, values.ctypes.data, 0, values.nbytes)
        status = self.lib.ggml_backend_graph_compute(self.operations.backend, graph)
        assert status == 0, f"the reference's graph failed with {status}"
        out = np.empty(shape, np.float32)
        assert out.nbytes == self.lib.ggml_nbytes(result), "the result has another shape"
        self.lib.ggml_backend_tensor_get(result, out.ctypes.data, 0, out.nbytes)
        return out


def _bytes(data: bytes | npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if isinstance(data, bytes):
        return np.frombuffer(data, np.uint8)
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def _aligned(data: bytes) -> npt.NDArray[np.uint8]:
    """A copy at an address that is a multiple of 64."""
    room = np.empty(len(data) + 64, np.uint8)
    start = -room.ctypes.data % 64
    copy = room[start : start + len(data)]
    copy[:] = np.frombuffer(data, np.uint8)
    return copy
