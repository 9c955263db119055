"""The reference's shared libraries, loaded once into this process: where they are, and what their calls take.

llama-server b11192 is linked against `libllama.so`, `libggml-base.so` and `libggml-cpu.so`; the same files answer here,
so what they compute is what the server computes. Types and layouts are those of that build's `ggml.h`, `ggml-backend.h`
and `llama.h`; `load` checks them where the libraries let it.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from testing.oracles.reference_server import PASSIVE, ReferenceError, require

_P, _I32, _I64, _U32, _F32 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_float
_SIZE, _BOOL, _TEXT = ctypes.c_size_t, ctypes.c_bool, ctypes.c_char_p
_OBJECT_SIZE = 32  # ggml puts a header of so many bytes before each tensor

EvalCallback = ctypes.CFUNCTYPE(_BOOL, _P, _BOOL, _P)
"""`ggml_backend_sched_eval_callback`: tensor, whether it is only asked for, user data."""
LogCallback = ctypes.CFUNCTYPE(None, _I32, _TEXT, _P)
"""`ggml_log_callback`: level, text, user data."""


class Tensor(ctypes.Structure):
    """`ggml_tensor`."""

    _fields_ = [
        ("type", _I32),
        ("buffer", _P),
        ("ne", _I64 * 4),
        ("nb", _SIZE * 4),
        ("op", _I32),
        ("op_params", _I32 * 16),
        ("flags", _I32),
        ("src", _P * 10),
        ("view_src", _P),
        ("view_offs", _SIZE),
        ("data", _P),
        ("name", ctypes.c_char * 64),
        ("extra", _P),
        ("padding", ctypes.c_char * 8),
    ]


class InitParams(ctypes.Structure):
    """`ggml_init_params`."""

    _fields_ = [("mem_size", _SIZE), ("mem_buffer", _P), ("no_alloc", _BOOL)]


class TypeTraits(ctypes.Structure):
    """`ggml_type_traits`."""

    _fields_ = [
        ("type_name", _TEXT),
        ("blck_size", _I64),
        ("blck_size_interleave", _I64),
        ("type_size", _SIZE),
        ("is_quantized", _BOOL),
        ("to_float", _P),
        ("from_float_ref", _P),
    ]


class TypeTraitsCpu(ctypes.Structure):
    """`ggml_type_traits_cpu`."""

    _fields_ = [("from_float", _P), ("vec_dot", _P), ("vec_dot_type", _I32), ("nrows", _I64)]


class ModelParams(ctypes.Structure):
    """`llama_model_params`."""

    _fields_ = [
        ("devices", _P),
        ("tensor_buft_overrides", _P),
        ("n_gpu_layers", _I32),
        ("split_mode", _I32),
        ("load_mode", _I32),
        ("lazy_mode", _I32),
        ("main_gpu", _I32),
        ("tensor_split", _P),
        ("progress_callback", _P),
        ("progress_callback_user_data", _P),
        ("kv_overrides", _P),
        ("vocab_only", _BOOL),
        ("check_tensors", _BOOL),
        ("use_extra_bufts", _BOOL),
        ("no_host", _BOOL),
        ("no_alloc", _BOOL),
        ("load_mtp", _BOOL),
    ]


class ContextParams(ctypes.Structure):
    """`llama_context_params`."""

    _fields_ = [
        ("n_ctx", _U32),
        ("n_batch", _U32),
        ("n_ubatch", _U32),
        ("n_seq_max", _U32),
        ("n_rs_seq", _U32),
        ("n_outputs_max", _U32),
        ("n_outputs_max_per_seq", _U32),
        ("n_threads", _I32),
        ("n_threads_batch", _I32),
        ("ctx_type", _I32),
        ("rope_scaling_type", _I32),
        ("pooling_type", _I32),
        ("attention_type", _I32),
        ("flash_attn_type", _I32),
        ("rope_freq_base", _F32),
        ("rope_freq_scale", _F32),
        ("yarn_ext_factor", _F32),
        ("yarn_attn_factor", _F32),
        ("yarn_beta_fast", _F32),
        ("yarn_beta_slow", _F32),
        ("yarn_orig_ctx", _U32),
        ("defrag_thold", _F32),
        ("cb_eval", EvalCallback),
        ("cb_eval_user_data", _P),
        ("type_k", _I32),
        ("type_v", _I32),
        ("abort_callback", _P),
        ("abort_callback_data", _P),
        ("embeddings", _BOOL),
        ("offload_kqv", _BOOL),
        ("no_perf", _BOOL),
        ("op_offload", _BOOL),
        ("swa_full", _BOOL),
        ("kv_unified", _BOOL),
        ("samplers", _P),
        ("n_samplers", _SIZE),
        ("ctx_other", _P),
    ]


class Batch(ctypes.Structure):
    """`llama_batch`."""

    _fields_ = [
        ("n_tokens", _I32),
        ("token", ctypes.POINTER(_I32)),
        ("embd", _P),
        ("pos", ctypes.POINTER(_I32)),
        ("n_seq_id", ctypes.POINTER(_I32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(_I32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    ]


_MODEL_DEFAULTS = {"n_gpu_layers": -1, "split_mode": 1, "load_mode": -1, "lazy_mode": 1, "use_extra_bufts": True}
_CONTEXT_DEFAULTS: dict[str, float] = dict(
    [("n_ctx", 512), ("n_batch", 2048), ("n_ubatch", 512), ("n_seq_max", 1), ("n_outputs_max_per_seq", 1)]
    + [("n_threads", 4), ("n_threads_batch", 4), ("type_k", 1), ("type_v", 1)]
    + [(f"{name}_type", -1) for name in ("rope_scaling", "pooling", "attention", "flash_attn")]
    + [(f"yarn_{name}", -1) for name in ("ext_factor", "attn_factor", "beta_fast", "beta_slow")]
    + [("defrag_thold", -1), ("offload_kqv", 1), ("no_perf", 1), ("op_offload", 1), ("swa_full", 1)]
)
"""The defaults that are not zero, as `llama_*_default_params` of that build sets them."""

_T = ctypes.POINTER(Tensor)
_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "ggml_tensor_overhead": (_SIZE, []),
    "ggml_graph_overhead": (_SIZE, []),
    "ggml_init": (_P, [InitParams]),
    "ggml_free": (None, [_P]),
    "ggml_nbytes": (_SIZE, [_T]),
    "ggml_row_size": (_SIZE, [_I32, _I64]),
    "ggml_new_tensor": (_T, [_P, _I32, _I32, ctypes.POINTER(_I64)]),
    "ggml_permute": (_T, [_P, _T, _I32, _I32, _I32, _I32]),
    "ggml_mul_mat": (_T, [_P, _T, _T]),
    "ggml_mul_mat_set_hint": (None, [_T, _I32]),
    "ggml_get_rows": (_T, [_P, _T, _T]),
    "ggml_mul": (_T, [_P, _T, _T]),
    "ggml_rms_norm": (_T, [_P, _T, _F32]),
    "ggml_swiglu_split": (_T, [_P, _T, _T]),
    "ggml_rope_ext": (_T, [_P, _T, _T, _T, _I32, _I32, _I32, _F32, _F32, _F32, _F32, _F32, _F32]),
    "ggml_flash_attn_ext": (_T, [_P, _T, _T, _T, _T, _F32, _F32, _F32]),
    "ggml_prec_set_acc": (_BOOL, [_T, _I32]),
    "ggml_new_graph": (_P, [_P]),
    "ggml_build_forward_expand": (None, [_P, _T]),
    "ggml_quantize_chunk": (_SIZE, [_I32, _P, _P, _I64, _I64, _I64, _P]),
    "ggml_get_type_traits": (ctypes.POINTER(TypeTraits), [_I32]),
    "ggml_get_type_traits_cpu": (ctypes.POINTER(TypeTraitsCpu), [_I32]),
    "ggml_backend_cpu_reg": (_P, []),
    "ggml_backend_cpu_init": (_P, []),
    "ggml_backend_cpu_set_n_threads": (None, [_P, _I32]),
    "ggml_backend_cpu_buffer_type": (_P, []),
    "ggml_backend_reg_dev_get": (_P, [_P, _SIZE]),
    "ggml_backend_reg_get_proc_address": (_P, [_P, _TEXT]),
    "ggml_backend_dev_supports_op": (_BOOL, [_P, _T]),
    "ggml_backend_buft_name": (_TEXT, [_P]),
    "ggml_backend_buft_alloc_buffer": (_P, [_P, _SIZE]),
    "ggml_backend_buffer_free": (None, [_P]),
    "ggml_backend_buffer_set_usage": (None, [_P, _I32]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_P, [_P, _P]),
    "ggml_backend_tensor_set": (None, [_T, _P, _SIZE, _SIZE]),
    "ggml_backend_tensor_get": (None, [_T, _P, _SIZE, _SIZE]),
    "ggml_backend_graph_compute": (_I32, [_P, _P]),
    "llama_log_set": (None, [LogCallback, _P]),
    "llama_backend_init": (None, []),
    "llama_model_default_params": (ModelParams, []),
    "llama_context_default_params": (ContextParams, []),
    "llama_model_load_from_file": (_P, [_TEXT, ModelParams]),
    "llama_model_free": (None, [_P]),
    "llama_model_get_vocab": (_P, [_P]),
    "llama_vocab_n_tokens": (_I32, [_P]),
    "llama_init_from_model": (_P, [_P, ContextParams]),
    "llama_free": (None, [_P]),
    "llama_n_ctx": (_U32, [_P]),
    "llama_get_memory": (_P, [_P]),
    "llama_memory_seq_rm": (_BOOL, [_P, _I32, _I32, _I32]),
    "llama_batch_init": (Batch, [_I32, _I32, _I32]),
    "llama_batch_free": (None, [Batch]),
    "llama_decode": (_I32, [_P, Batch]),
    "llama_get_logits_ith": (ctypes.POINTER(_F32), [_P, _I32]),
}


@functools.cache
def load() -> Any:
    """The libraries behind one handle, each call typed. Its log is silenced.

    Raises:
        ReferenceError: none is installed, it is another build, or its structs are laid out otherwise.
    """
    reference = require()
    for name, value in PASSIVE.items():
        os.environ.setdefault(name, value)  # OpenMP reads it when it is loaded
    reference.identity()
    library = ctypes.CDLL(str(reference.folder / "libllama.so"), mode=ctypes.RTLD_GLOBAL)
    cpu = ctypes.CDLL(str(reference.folder / "libggml-cpu.so"), mode=ctypes.RTLD_GLOBAL)
    for name, (result, arguments) in _CALLS.items():
        function = getattr(cpu if name.startswith("ggml_") else library, name)
        function.restype, function.argtypes = result, arguments
        setattr(library, name, function)
    _check_layouts(library)
    library.llama_log_set(_SILENCE, None)
    library.llama_backend_init()
    return library


def _check_layouts(library: Any) -> None:
    if library.ggml_tensor_overhead() != _OBJECT_SIZE + ctypes.sizeof(Tensor):
        raise ReferenceError("ggml_tensor is laid out otherwise than in b11192")
    for params, defaults in (
        (library.llama_model_default_params(), _MODEL_DEFAULTS),
        (library.llama_context_default_params(), _CONTEXT_DEFAULTS),
    ):
        for name, kind in params._fields_:
            value = getattr(params, name)
            expected = defaults.get(name, 0)
            if kind is EvalCallback or value is None:
                value = int(bool(value))
            if value != expected:
                raise ReferenceError(f"{type(params).__name__}.{name} is {value!r} by default, not {expected!r}")


def _drop(level: int, text: bytes, user: int) -> None:
    """Takes a line of the library's log and keeps it to itself."""


_SILENCE = LogCallback(_drop)
