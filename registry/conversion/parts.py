"""Which files hold a directory's tensors, and which of them the converter takes."""

from __future__ import annotations

import os
from typing import Any, Final

from registry.conversion.safetensors import StoredTensor, tensors_in
from registry.conversion.source import SourceDirectory
from registry.errors import ConversionRefused

INDEX: Final = "model.safetensors.index.json"
MAX_PARTS: Final = 4096

# What llama.cpp takes for parts of images and sound, and leaves out of a text model (`TextModel.filter_tensors`).
_SENSES_FIRST: Final = (
    "mlp",
    "vit.",
    "vpm.",
    "siglip2.",
    "conformer.",
    "merger.",
    "resampler.",
    "sound_encoder.",
    "sound_projection.",
    "speech_embeddings.",
)
_SENSES: Final = (
    "visual.",
    "vision.",
    "audio.",
    "talker.",
    "vision_",
    "audio_",
    "token2wav.",
    "code2wav.",
    "projector.",
    "pre_mm_projector_norm",
    "image_newline",
    "view_seperator",
    "patch_embed",
    "patch_embedding",
    "patch_merger.",
    "patch_merge_mlp.",
    "model.connector.",
)
# Buffers that old checkpoints carry along (`ModelBase.prepare_tensors`).
_BUFFERS: Final = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")


def stored_tensors(source: SourceDirectory, *, text_model: bool) -> dict[str, StoredTensor]:
    """Every tensor to be converted, by its name there, in the order in which llama.cpp writes them: part by part, by
    name within a part.

    Args:
        source: the directory.
        text_model: whether `text_model.` is taken out of the names, as for Llama.

    Raises:
        ModelFileError: a part is missing or cannot be read.
        ConversionRefused: there are none, one is damaged, or the index disagrees with them.
    """
    names = sorted(
        name for name in os.listdir(source.path) if name.startswith("model") and name.endswith(".safetensors")
    )
    if not names:
        raise ConversionRefused(f"there is no model*.safetensors in {source.path}")
    index = _index(source)
    if index is not None:
        names = sorted(set(index.values()))
    if len(names) > MAX_PARTS:
        raise ConversionRefused(f"the weights are in {len(names)} files; no more than {MAX_PARTS} are read")
    found: dict[str, StoredTensor] = {}
    in_parts: set[str] = set()
    for name in names:
        for tensor in tensors_in(source, name):
            if tensor.name in in_parts:
                raise ConversionRefused(f"the tensor {tensor.name!r} is in two files, {name} the second of them")
            in_parts.add(tensor.name)
            if (taken := _taken(tensor.name, text_model)) is not None:
                if taken in found:
                    raise ConversionRefused(f"{name}: two tensors would be {taken!r}")
                found[taken] = tensor
    if index is not None:
        _check_index(index, in_parts)
    return found


def _index(source: SourceDirectory) -> dict[str, str] | None:
    """Tensor -> file, from the index; None when there is none."""
    index = source.json_of(INDEX)
    if index is None:
        return None
    found: Any = index.get("weight_map")
    if not isinstance(found, dict) or not found:
        raise ConversionRefused(f"{INDEX} has no weight_map")
    for tensor, name in found.items():
        if not isinstance(name, str) or name in ("", ".", "..") or any(char in name for char in "/\\\0"):
            raise ConversionRefused(
                f"{INDEX}: the file of {tensor!r} is {name!r}, which is no name of a file beside it"
            )
        if not name.endswith(".safetensors"):
            raise ConversionRefused(f"{INDEX}: the file of {tensor!r} is {name!r}, which is no safetensors file")
    return found


def _check_index(index: dict[str, str], in_parts: set[str]) -> None:
    if missing := sorted(index.keys() - in_parts):
        raise ConversionRefused(f"{INDEX} names {len(missing)} tensors that no file has, {missing[0]!r} the first")
    if extra := sorted(in_parts - index.keys()):
        raise ConversionRefused(
            f"{INDEX} does not name {len(extra)} tensors that the files have, {extra[0]!r} the first"
        )


def _taken(name: str, text_model: bool) -> str | None:
    """The name under which a tensor is taken; None when it is left out."""
    if text_model:
        name = name.replace("text_model.", "")
    if name.startswith(_SENSES_FIRST) or any(part in name for part in _SENSES):
        return None
    if name.endswith("e_score_correction_bias"):
        name = name.replace("e_score_correction_bias", "e_score_correction.bias")
    name = name.replace("language_model.", "")
    return None if name.endswith(_BUFFERS) else name
