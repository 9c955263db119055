"""A directory of safetensors to a GGUF file of F16 weights, byte for byte what llama.cpp b11192's converter writes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from registry.conversion.authorship import CARD, add_authorship, read_authorship
from registry.conversion.byte_pairs import add_byte_pairs
from registry.conversion.hparams import CONFIG, HParams, add_hparams, read_hparams
from registry.conversion.metadata import Metadata
from registry.conversion.output import write_gguf
from registry.conversion.parts import stored_tensors
from registry.conversion.sentencepiece import FILE as SENTENCEPIECE
from registry.conversion.sentencepiece import add_sentencepiece
from registry.conversion.source import SourceDirectory
from registry.conversion.special_tokens import CODE_LLAMA_TYPES, TOKENIZER, TOKENIZER_CONFIG, read_special_tokens
from registry.conversion.weights import output_tensors
from registry.errors import ConversionRefused
from registry.progress import Progress, Silent

_CODE_LLAMA_VOCABULARY: Final = 32016
_GRANITE_VOCABULARY: Final = 49152


@dataclass(frozen=True, slots=True)
class ConversionOptions:
    """What can be chosen.

    Args:
        model_name: `general.name`, instead of what the model card and the names say.
        ignore_model_card: whether README.md is left unread; the file then lacks what llama.cpp copies from it.
    """

    model_name: str | None = None
    ignore_model_card: bool = False


@dataclass(frozen=True, slots=True)
class ConversionReport:
    """What was written.

    Args:
        output: the file.
        sha256, size: of it: hex, bytes.
        architecture: `llama`, `qwen2` or `qwen3`.
        name: `general.name`.
        n_tensors, n_keys, n_params: tensors, keys and weights.
        inputs: name, bytes and sha256 of every file of the directory that was read.
    """

    output: Path
    sha256: str
    size: int
    architecture: str
    name: str
    n_tensors: int
    n_keys: int
    n_params: int
    inputs: tuple[tuple[str, int, str], ...]


def convert(
    directory: Path, output: Path, options: ConversionOptions | None = None, *, progress: Progress | None = None
) -> ConversionReport:
    """Converts a directory.

    Args:
        directory: config.json, tokenizer files and `model*.safetensors`; its name is part of the metadata.
        output: the file; replaced when it exists, left as it is when the conversion fails.
        options: what can be chosen.
        progress: told how many bytes are read, then how many are written; what it raises ends the conversion.

    Raises:
        ConversionRefused: the directory is damaged, or llama.cpp would write what is not reproduced; the text says
            which file and what of it.
        ConversionFailed: the output cannot be written.
        ModelFileError: a file of the directory cannot be read.
        ModelFileChanged: one changed while it was read.
    """
    try:
        return _convert(directory, output, options or ConversionOptions(), progress or Silent())
    except RecursionError as error:
        raise ConversionRefused("a file of the model is nested too deep") from error


def _convert(directory: Path, output: Path, options: ConversionOptions, progress: Progress) -> ConversionReport:
    """As `convert`."""
    with SourceDirectory(directory) as source:
        hparams = read_hparams(source)
        _refuse_reranker(source, hparams)
        stored = stored_tensors(source, text_model=hparams.architecture == "llama")
        tensors = output_tensors(stored, hparams)
        n_params = sum(tensor.n_values for tensor in tensors)
        authorship = read_authorship(
            source,
            source.json_of(CONFIG) or {},
            n_params,
            name=options.model_name,
            use_card=not options.ignore_model_card,
        )
        metadata = Metadata()
        metadata.string("general.architecture", hparams.architecture)
        metadata.string("general.type", "model")
        add_authorship(metadata, authorship)
        add_hparams(metadata, hparams)
        _add_pooling(source, hparams)
        metadata.u32("general.quantization_version", 2)
        _add_vocabulary(metadata, source, hparams)
        inputs = source.inputs(progress)
        source.check_apart(output)
        sha256, size = write_gguf(output, metadata, tensors, progress=progress, check=source.check_unchanged)
    return ConversionReport(
        output,
        sha256,
        size,
        hparams.architecture,
        str(authorship.name),
        len(tensors),
        len(metadata),
        n_params,
        tuple(inputs),
    )


def _refuse_reranker(source: SourceDirectory, hparams: HParams) -> None:
    """Qwen3 rerankers, by the signs llama.cpp knows them by, get another head and another template."""
    if hparams.architecture != "qwen3":
        return
    card = source.text_of(CARD).lower() if source.has(CARD) else ""
    hints = f"{os.fspath(source.path)}\n{hparams.values.get('_name_or_path', '')}".lower()
    named = any(name in hints for name in ("qwen3-reranker", "qwen3-vl-reranker"))
    if named or "# qwen3-reranker" in card or "# qwen3-vl-reranker" in card:
        raise ConversionRefused("a Qwen3 reranker is not converted")


def _add_pooling(source: SourceDirectory, hparams: HParams) -> None:
    if hparams.architecture != "llama" and source.has("modules.json"):
        raise ConversionRefused("modules.json: a model for embeddings (sentence-transformers) is not converted")


def _add_vocabulary(metadata: Metadata, source: SourceDirectory, hparams: HParams) -> None:
    """The tokenizer's keys: SentencePiece's where there is a tokenizer.model, else byte pairs'."""
    llama = hparams.architecture == "llama"
    tokenizer: dict[str, Any] | None = source.json_of(TOKENIZER)
    if llama:
        if source.has("tekken.json") and tokenizer is None:
            raise ConversionRefused("tekken.json: Mistral's own vocabulary is not converted")
        settings = source.json_of(TOKENIZER_CONFIG) or {}
        if settings.get("add_prefix_space") is not None:
            metadata.boolean("tokenizer.ggml.add_space_prefix", settings["add_prefix_space"])
    if source.has(SENTENCEPIECE):
        add_sentencepiece(metadata, source, hparams.vocab_size)
        read_special_tokens(source, tokenizer, n_vocab=hparams.vocab_size).add_to(metadata)
    else:
        add_byte_pairs(metadata, source, tokenizer, hparams.values)
        read_special_tokens(source, tokenizer, merges=True).add_to(metadata)
    if llama and hparams.vocab_size == _CODE_LLAMA_VOCABULARY:
        special = read_special_tokens(source, tokenizer, types=CODE_LLAMA_TYPES)
        special.ids.setdefault("eot", 32010)
        special.add_to(metadata)
    if llama and hparams.vocab_size == _GRANITE_VOCABULARY:
        metadata.boolean("tokenizer.ggml.add_bos_token", False)
