"""Tensors as llama.cpp's converter writes them: names, types, the order of Llama's rotary rows, Llama 3's factors.

A tensor is read, converted and handed on in parts of a few megabytes, so that memory does not grow with the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from engine.ggml_types import GGMLType
from registry.conversion.hparams import HParams
from registry.conversion.powers import powers
from registry.conversion.safetensors import ITEM_BYTES, StoredTensor
from registry.errors import ConversionRefused

CHUNK: Final = 4 << 20
"""Values converted at a time."""

_WHOLE: Final[Mapping[str, str]] = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output"}
_IN_LAYER: Final[Mapping[str, str]] = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_NAME: Final = re.compile(r"(?:model\.)?(?:layers\.(0|[1-9][0-9]{0,5})\.)?(.+)(\.weight|\.bias)", re.ASCII)
_READ: Final[Mapping[str, str]] = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """A tensor to be written.

    Args:
        name: llama.cpp's name for it.
        shape: extents, the contiguous one last.
        type: `F16` or `F32`.
        parts: gives its bytes, part after part.
    """

    name: str
    shape: tuple[int, ...]
    type: GGMLType
    parts: Callable[[], Iterator[bytes]]

    @property
    def n_values(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.n_values * (2 if self.type is GGMLType.F16 else 4)


def output_tensors(stored: Mapping[str, StoredTensor], hparams: HParams) -> list[OutputTensor]:
    """The tensors of the file, in its order. Nothing is read yet.

    Args:
        stored: the tensors by name, in the order of `stored_tensors`.
        hparams: the model's numbers.

    Raises:
        ConversionRefused: a name is not known to llama.cpp, two are the same, or a type or shape is not converted.
    """
    tensors: dict[str, OutputTensor] = {}
    if hparams.architecture == "llama" and hparams.rope.get("rope_type") == "llama3":
        factors = llama3_factors(hparams.rope, hparams.head_dim)
        tensors["rope_freqs.weight"] = OutputTensor(
            "rope_freqs.weight", factors.shape, GGMLType.F32, lambda: iter([factors.tobytes()])
        )
    for name, tensor in stored.items():
        new = _output_name(name, hparams)
        if new in tensors:
            raise ConversionRefused(f"two tensors would be {new!r}, {name!r} the second of them")
        if tensor.dtype not in _READ:
            raise ConversionRefused(f"the tensor {name!r} is of type {tensor.dtype}, which is not converted")
        tensors[new] = _output_tensor(new, name, tensor, hparams)
    return list(tensors.values())


def _output_name(name: str, hparams: HParams) -> str:
    match = _NAME.fullmatch(name)
    layer, inner, suffix = match.groups() if match else (None, "", "")
    if layer is None:
        mapped = _WHOLE.get(inner)
    elif int(layer) < hparams.n_layer and not (
        inner.endswith(("q_norm", "k_norm")) and hparams.architecture != "qwen3"
    ):
        mapped = _IN_LAYER.get(inner)
    else:
        mapped = None
    if mapped is None:
        raise ConversionRefused(
            f"the tensor {name!r} has no place in a {hparams.architecture} of {hparams.n_layer} layers"
        )
    return f"{mapped}{suffix}" if layer is None else f"blk.{layer}.{mapped}{suffix}"


def _output_tensor(new: str, name: str, tensor: StoredTensor, hparams: HParams) -> OutputTensor:
    plain = len(tensor.shape) <= 1 or new.endswith("_norm.weight") or not new.endswith(".weight")
    kind = GGMLType.F32 if plain else GGMLType.F16
    n_heads = 0
    if hparams.architecture == "llama":
        for projection, count in (("q_proj", hparams.n_head), ("k_proj", hparams.n_head_kv)):
            if name.endswith((f"{projection}.weight", f"{projection}.bias")):
                n_heads = count
    if n_heads and (not tensor.shape or tensor.shape[0] % (2 * n_heads)):
        raise ConversionRefused(f"the tensor {name!r} of shape {list(tensor.shape)} does not fall into {n_heads} heads")
    return OutputTensor(new, tensor.shape, kind, lambda: _parts(tensor, kind, n_heads))


def _parts(tensor: StoredTensor, kind: GGMLType, n_heads: int) -> Iterator[bytes]:
    """A tensor's bytes: whole heads at a time where rows change places, else as many values as are convenient."""
    size = ITEM_BYTES[tensor.dtype]
    n_values = prod(tensor.shape)
    step = n_values // n_heads if n_heads else CHUNK
    for start in range(0, n_values, step):
        count = min(step, n_values - start)
        values = np.frombuffer(tensor.read(start * size, count * size), _READ[tensor.dtype])
        if n_heads:
            values = unrotated(values, tensor.shape[0] // n_heads)
        yield converted(values, tensor.dtype, kind).tobytes()


def unrotated(head: npt.NDArray[Any], n_rows: int) -> npt.NDArray[Any]:
    """The rows of one head in the order of ggml's rotary embedding.

    Hugging Face turns row i with row i + n/2, ggml row 2i with row 2i + 1 (`LlamaModel.permute`).

    Args:
        head: the head's values, in any type, flat.
        n_rows: its rows, an even number.
    """
    return head.reshape(2, n_rows // 2, -1).swapaxes(0, 1).reshape(-1)


def converted(values: npt.NDArray[Any], dtype: str, kind: GGMLType) -> npt.NDArray[Any]:
    """Values of a safetensors type as F16 or F32, rounded to the nearest, ties to even, by way of F32.

    Args:
        values: as they are stored; BF16 as 16-bit numbers.
        dtype: `F16`, `BF16`, `F32` or `F64`.
        kind: F16 or F32.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large becomes infinite, as in llama.cpp
        if dtype == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        elif dtype == "F64":
            values = values.astype("<f4")
        return values.astype("<f2" if kind is GGMLType.F16 else "<f4", copy=False)


def llama3_factors(rope: Mapping[str, Any], head_dim: int) -> npt.NDArray[np.float32]:
    """What Llama 3 divides each frequency of its rotary embedding by (`LlamaModel.generate_extra_tensors`).

    Every step is rounded to 32 bits, and a number divided by a value is a product with its reciprocal, as PyTorch does
    it. PyTorch takes powers 16 or 32 at a time, as the processor has it, and those that are left over by another
    function: only whole groups of 32 have the same bits everywhere.

    Args:
        rope: the parameters.
        head_dim: of queries and keys.

    Returns:
        F32 (head_dim / 2).

    Raises:
        ConversionRefused: a parameter is no number, two that must differ do not, or the reference's bits depend on the
            processor.
    """
    names = ("rope_theta", "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    found = [rope.get(name, default) for name, default in zip(names, (10000.0, 8.0, 1.0, 4.0, 8192), strict=True)]
    if not all(isinstance(value, (int, float)) and math.isfinite(value) and value > 0 for value in found):
        raise ConversionRefused("config.json: the parameters of Llama 3's rotary embedding are not numbers above zero")
    base, factor, low, high, n_ctx = map(float, found)
    if low == high:
        raise ConversionRefused("config.json: low_freq_factor and high_freq_factor are the same")
    if head_dim % 64:
        raise ConversionRefused(f"Llama 3's rotary embedding with heads of {head_dim} values is not converted")
    f32 = np.float32
    one = f32(1)
    exponents = np.arange(0, head_dim, 2, dtype=f32) / f32(head_dim)
    wavelengths = one / (one / powers(base, exponents)) * f32(2 * math.pi)
    factors = []
    for wavelength in wavelengths:
        if wavelength < f32(n_ctx / high):
            factors.append(one)
        elif wavelength > f32(n_ctx / low):
            factors.append(f32(factor))
        else:
            smooth = (one / wavelength * f32(n_ctx) - f32(low)) / f32(high - low)
            factors.append(one / ((one - smooth) / f32(factor) + smooth))
    return np.array(factors, dtype="<f4")
