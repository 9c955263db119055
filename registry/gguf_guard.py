"""Play, refuse or need more: what becomes of a model file, from its header alone. No weight is read.

By the rules of llama.cpp (`mainline`) a file is played when this engine plays it: the rules are the loader's own
(`engine.model.check_header`), so that what is said here is what loading does. By the rules of PrismML's fork (`prism`)
only the header is judged, and the report says apart whether this engine plays the file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from math import prod
from pathlib import Path
from typing import Any, Final, Literal

from engine.errors import EngineError, InvalidModelFile, ModelFileLost, TruncatedModelFile, UnplayableModel, one_line
from engine.ggml_types import GGMLType
from engine.gguf import VERSION, GGUFHeader, HeaderScan, TensorRecord, read_header, scan
from engine.gguf_header import FORK_TYPES
from engine.model import ModelOptions, check_header, foreign
from registry.errors import ModelFileError
from registry.pins import FileIdentity, open_to_read

_LONGEST_NAME: Final = 1000  # characters of a name that is told as it stands
Verdict = Literal["play", "refuse", "need_more"]
Engine = Literal["mainline", "prism"]

_NAMES: Final = {**{int(kind): kind.name for kind in GGMLType}, **FORK_TYPES}
_LEGACY_BLOCK: Final = (128, 34)  # elements and bytes of the older Q2_0


@dataclass(frozen=True, slots=True)
class Report:
    """What a header says, and the verdict on it.

    Args:
        verdict: `refuse` beats `need_more`: what is not played is not played when it is whole either. Only the chat
            template is looked at when the file is whole.
        reasons: why it is not `play`; each names a tensor or key.
        size: bytes of the file.
        bytes_needed: bytes the file must have at the least; None when they are all there, or not known.
        header: what could be read of it; None when that contradicts itself.
        engine: whose rules.
        native_reasons: why this engine does not play it; none when it does.
        values, records: keys and tensors, where a header could be followed to its end.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    size: int
    bytes_needed: int | None = None
    header: GGUFHeader | None = None
    engine: Engine = "mainline"
    native_reasons: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    records: Sequence[TensorRecord] | None = None

    @property
    def native(self) -> bool:
        """Whether this engine plays the file."""
        return not self.native_reasons

    @property
    def arch(self) -> str | None:
        """`general.architecture`."""
        return self._text("general.architecture")

    @property
    def name(self) -> str | None:
        """`general.name`."""
        return self._text("general.name")

    @property
    def types(self) -> dict[str, int]:
        """How many tensors have each type, by the types' numbers; a type that nobody knows is its number."""
        counted = Counter(record.type for record in self.records or ())
        return {_NAMES.get(kind, str(kind)): counted[kind] for kind in sorted(counted)}

    @property
    def kv_f16_bytes_per_token(self) -> int | None:
        """Bytes that a token takes in an f16 KV cache; None when the header does not say."""
        return _kv_bytes(self.values)

    def _text(self, key: str) -> str | None:
        value = self.values.get(key)
        if not isinstance(value, str):
            return None
        return value if len(value) <= _LONGEST_NAME else one_line(value)

    def as_json(self) -> dict[str, Any]:
        """The report under the names that clients of `bankml guard --json` read; `native` and `bytes` are ours."""
        report: dict[str, Any] = {
            "gguf_version": None if self.records is None else VERSION,
            "arch": self.arch,
            "name": self.name,
            "tensors": None if self.records is None else len(self.records),
            "types": self.types,
            "engine": self.engine,
            "reasons": list(self.reasons),
            "kv_f16_bytes_per_token": self.kv_f16_bytes_per_token,
            "native": self.native,
            "native_reasons": list(self.native_reasons) if self.engine != "mainline" else None,
            "bytes": self.size,
            "bytes_needed": self.bytes_needed,
            "verdict": self.verdict,
        }
        return {key: value for key, value in report.items() if value is not None}


def check(path: Path, options: ModelOptions) -> None:
    """What loading a file would refuse it for, before the file is hashed.

    Raises:
        EngineError: what loading raises.
    """
    check_header(read_header(path), options)


def judge(path: Path, options: ModelOptions | None = None, engine: Engine = "mainline") -> Report:
    """Whether a file would be loaded with these options, or what PrismML's fork would say of its header.

    Raises:
        ModelFileError: it cannot be read.
    """
    size = _size(path)
    try:
        said = scan(path)
        native = _native(path, said, options or ModelOptions())
    except TruncatedModelFile as error:
        reasons = (_unnamed(path, error),)
        return Report("need_more", reasons, size, error.needed, engine=engine, native_reasons=reasons)
    except InvalidModelFile as error:
        reasons = (_unnamed(path, error),)
        return Report("refuse", reasons, size, engine=engine, native_reasons=reasons)
    except ModelFileLost as error:
        raise ModelFileError(path, "it changed meanwhile") from error
    return native if engine == "mainline" else _prism(said, native)


def _native(path: Path, said: HeaderScan, options: ModelOptions) -> Report:
    """What this engine makes of a header that could be followed to its end."""

    def report(verdict: Verdict, reasons: tuple[str, ...], header: GGUFHeader | None) -> Report:
        needed = header.needed if header is not None and header.needed > said.size else None
        return Report(verdict, reasons, said.size, needed, header, "mainline", reasons, said.values, said.records)

    header = None
    if problems := [*_unknown_types(said), *_fork_types(said), *_legacy_groups(said)]:
        return report("refuse", tuple(map(one_line, [*problems, *foreign(said.values, path.name)])), None)
    try:
        header = said.header()
        check_header(header, options)
    except TruncatedModelFile as error:
        return report("need_more", (_unnamed(path, error),), header)
    except UnplayableModel as error:
        return report("refuse", error.reasons, header)
    except InvalidModelFile as error:
        return report("refuse", (_unnamed(path, error),), header)
    return report("play", (), header)


# --- the rules of the types and of PrismML's fork -------------------------------------------------------------------


def _prism(said: HeaderScan, native: Report) -> Report:
    """What PrismML's fork would say of the header; what its types hold is not known here beyond their names."""
    reasons = [*_unknown_types(said), *_legacy_groups(said)]
    reasons += [] if reasons else _overlaps(said)
    if (_kv_bytes(said.values) or 0) >= 1 << 63:
        reasons.append("the KV cache's bytes per token are more than 63 bits hold")
    needed = max((said.data_start + record.offset + (_nbytes(record) or 0) for record in said.records), default=0)
    missing = needed if needed > said.size else None
    verdict: Verdict = "refuse" if reasons else "play" if missing is None else "need_more"
    if verdict == "need_more":
        reasons = [f"the last tensor ends at byte {needed} of {said.size}: the file is cut short"]
    return Report(
        verdict,
        tuple(map(one_line, reasons)),
        said.size,
        missing,
        native.header,
        "prism",
        native.native_reasons,
        said.values,
        said.records,
    )


def _unknown_types(said: HeaderScan) -> Iterator[str]:
    unknown = sorted({record.type for record in said.records} - _NAMES.keys())
    if unknown:
        n_tensors = sum(record.type in unknown for record in said.records)
        shown = ", ".join(map(str, unknown[:8])) + (", ..." if len(unknown) > 8 else "")
        yield f"{n_tensors} tensors have types that nobody knows: {shown}"


def _fork_types(said: HeaderScan) -> Iterator[str]:
    for kind, name in FORK_TYPES.items():
        if n_tensors := sum(record.type == kind for record in said.records):
            yield f"{n_tensors} tensors have the type {kind}, {name} of PrismML's fork, which llama.cpp does not have"


def _in_order(said: HeaderScan) -> Iterator[tuple[TensorRecord, TensorRecord | None]]:
    """The tensors as they lie in the file, each with the one after it; of the last with None."""
    ordered = sorted(said.records, key=lambda record: record.offset)
    return zip_longest(ordered, ordered[1:])


def _legacy_groups(said: HeaderScan) -> Iterator[str]:
    """Q2_0 tensors with less room than groups of 64 take: PrismML's older files have groups of 128."""
    n_short = 0
    for record, after in _in_order(said):
        wanted = _nbytes(record)
        if record.type != GGMLType.Q2_0 or wanted is None:
            continue
        if after is not None:
            n_short += after.offset - record.offset < wanted
        else:  # a file that was cut ends anywhere
            groups, nbytes = _LEGACY_BLOCK
            legacy = -(-prod(record.shape) // groups) * nbytes
            n_short += legacy <= said.size - said.data_start - record.offset < min(wanted, legacy + said.alignment)
    if n_short:
        yield (
            f"{n_short} Q2_0 tensors are smaller than groups of 64 make them: an older file of PrismML's, with groups "
            "of 128"
        )


def _overlaps(said: HeaderScan) -> Iterator[str]:
    """The first tensor that reaches into the next one, or does not begin where one may."""
    for record, after in _in_order(said):
        if record.offset % said.alignment:
            yield f"the tensor {record.name!r} has the offset {record.offset}, no multiple of {said.alignment}"
            return
        if after is not None and record.offset + max(_nbytes(record) or 0, 1) > after.offset:
            yield f"the tensor {record.name!r} reaches into the tensor {after.name!r}"
            return


def _nbytes(record: TensorRecord) -> int | None:
    """Bytes of a tensor of a type that llama.cpp has; None for any other."""
    if record.type not in GGMLType.__members__.values():
        return None
    kind = GGMLType(record.type)
    return prod(record.shape) // kind.block_size * kind.block_bytes


# --- the rest -------------------------------------------------------------------------------------------------------


def _size(path: Path) -> int:
    """The bytes of a file that can be read."""
    try:
        descriptor = open_to_read(path)
        try:
            return FileIdentity.of_stat(path, os.fstat(descriptor)).size
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ModelFileError(path, error.strerror or str(error)) from error


def _unnamed(path: Path, error: EngineError) -> str:
    return str(error).removeprefix(f"{path}: ")


def _kv_bytes(metadata: Mapping[str, Any]) -> int | None:
    prefix = metadata.get("general.architecture")

    def count(key: str, default: int = 0) -> int:
        value = metadata.get(f"{prefix}.{key}", default)
        return value if type(value) is int and value > 0 else 0

    n_head = count("attention.head_count")
    usual = count("embedding_length") // n_head if n_head else 0
    sizes = count("attention.key_length", usual), count("attention.value_length", usual)
    n_rows = count("block_count") * count("attention.head_count_kv", n_head)
    return n_rows * sum(sizes) * 2 if n_rows and all(sizes) else None
