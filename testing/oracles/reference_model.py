"""A whole model in the reference's libllama: the logits that llama-server computes, token by token.

The context is set up as llama-server does for one slot with `-np 1`: flash attention as it resolves by default, weights
repacked where the loader repacks them, prompts handed over in batches that end in one output row.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from testing.oracles.reference_library import EvalCallback, Tensor, load
from testing.oracles.reference_server import ReferenceError

CACHE_TYPES = {"f32": 0, "f16": 1, "q8_0": 8}
_DTYPES: dict[int, Any] = {0: np.float32, 1: np.float16, 26: np.int32, 27: np.int64}
_FLASH_ATTN_AUTO = -1

Logits = npt.NDArray[np.float32]


class Oracle:
    """A loaded model with an empty cache.

    Args:
        path: the GGUF file.
        n_ctx: cells of the cache; 0 for what the model was trained for.
        n_threads: threads that compute, `-t`.
        n_batch, n_ubatch: tokens handed over and evaluated at once, `-b` and `-ub`.
        cache_type_k, cache_type_v: names as for `--cache-type-k`.
        capture: a pattern for the names of intermediate tensors (`attn_norm-0`, `Qcur-3`, `result_norm`, ...) to keep
            in `captured`. Asking for one ends a graph there, so a step that is otherwise fused with its next runs
            alone; without a pattern nothing is asked.

    Attributes:
        n_past: tokens in the cache.
        captured: name -> its values, in the order computed; a name comes once for each micro-batch, or oftener.

    Raises:
        ReferenceError: the reference is not installed, or cannot load the file.
    """

    def __init__(
        self,
        path: str | Path,
        n_ctx: int = 0,
        n_threads: int = 2,
        n_batch: int = 2048,
        n_ubatch: int = 512,
        cache_type_k: str = "f16",
        cache_type_v: str = "f16",
        capture: str = "",
    ) -> None:
        self.lib = load()
        self.n_past = 0
        self.captured: dict[str, list[npt.NDArray[Any]]] = {}
        self._context = None
        self._pattern = re.compile(capture) if capture else None
        self._callback = EvalCallback(self._evaluated)  # must outlive the context
        self._model = self.lib.llama_model_load_from_file(bytes(Path(path)), self.lib.llama_model_default_params())
        if not self._model:
            raise ReferenceError(f"the reference cannot load {path}")
        params = self.lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = n_ctx, n_batch, n_ubatch
        params.n_outputs_max = 1
        params.n_threads = params.n_threads_batch = n_threads
        params.type_k, params.type_v = CACHE_TYPES[cache_type_k], CACHE_TYPES[cache_type_v]
        params.flash_attn_type = _FLASH_ATTN_AUTO
        if self._pattern is not None:
            params.cb_eval = self._callback
        self._context = self.lib.llama_init_from_model(self._model, params)
        if not self._context:
            self.close()
            raise ReferenceError(f"the reference cannot make a context for {path}")
        self.n_batch = n_batch
        self.n_vocab = int(self.lib.llama_vocab_n_tokens(self.lib.llama_model_get_vocab(self._model)))
        self.n_ctx = int(self.lib.llama_n_ctx(self._context))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the context and the model."""
        if self._context:
            self.lib.llama_free(self._context)
        if self._model:
            self.lib.llama_model_free(self._model)
        self._context = self._model = None

    def prompt(self, tokens: Sequence[int], position: int = 0) -> Logits:
        """The logits after a prompt, (n_vocab,). The cache is kept up to `position` and `tokens` follow from there."""
        self.rewind(position)
        for start in range(0, len(tokens), self.n_batch):
            part = tokens[start : start + self.n_batch]
            self._decode(part, output=start + len(part) == len(tokens))
        return self._logits()

    def decode(self, token: int) -> Logits:
        """The logits after one more token, (n_vocab,)."""
        self._decode([token], output=True)
        return self._logits()

    def rewind(self, position: int) -> None:
        """Forgets the cache from `position` on."""
        assert 0 <= position <= self.n_past, f"the cache holds {self.n_past} tokens"
        removed = self.lib.llama_memory_seq_rm(self.lib.llama_get_memory(self._context), 0, position, -1)
        assert removed, "the reference cannot rewind this cache"
        self.n_past = position

    def _decode(self, tokens: Sequence[int], output: bool) -> None:
        batch = self.lib.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i] = token, self.n_past + i
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
            batch.logits[i] = output and i == len(tokens) - 1
        status = self.lib.llama_decode(self._context, batch)
        self.lib.llama_batch_free(batch)
        if status:
            raise ReferenceError(f"llama_decode answered {status}")
        self.n_past += len(tokens)

    def _logits(self) -> Logits:
        row = self.lib.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(row, (self.n_vocab,)).copy()

    def _evaluated(self, address: int, ask: bool, user: int | None) -> bool:
        tensor = Tensor.from_address(address)
        name = tensor.name.decode()
        if self._pattern is None or not self._pattern.search(name):
            return not ask  # false to go on without it; true, once computed, to go on at all
        if not ask:
            self.captured.setdefault(name, []).append(self._values(tensor))
        return True

    def _values(self, tensor: Tensor) -> npt.NDArray[Any]:
        size = self.lib.ggml_nbytes(ctypes.byref(tensor))
        room = np.empty(size, np.uint8)
        self.lib.ggml_backend_tensor_get(ctypes.byref(tensor), room.ctypes.data, 0, size)
        dtype = _DTYPES.get(tensor.type)
        if dtype is None:
            return room  # a quantized tensor: its bytes
        shape, strides = tuple(tensor.ne)[::-1], tuple(tensor.nb)[::-1]
        start = next((i for i, n in enumerate(shape) if n != 1), len(shape) - 1)
        return np.lib.stride_tricks.as_strided(room.view(dtype), shape[start:], strides[start:]).copy()
