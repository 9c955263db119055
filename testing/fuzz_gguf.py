"""Model files with headers of bad faith, judged and opened: everything must be played, refused or waited for.

`python -m testing.fuzz_gguf --cpu-seconds 3600` goes on for an hour of its own processor time; `--model FILE` adds a
real header to the small ones. Headers are changed where their fields stand: lengths and counts at their extremes, types
exchanged, keys and tensors twice or overlapping, arrays nested, files cut, bytes and texts replaced. What fails stays
in the folder, with the seed that makes it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import random
import resource
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import EngineError, InvalidRequest
from engine.model import Model, ModelOptions
from registry.gguf_guard import Engine, Report, judge
from testing import gguf_writer as writer
from testing.oracles import sentencepiece_shapes
from testing.oracles.small_models import BY_NAME

_SMALL: Final = ("llama-heads-8", "llama-yarn", "qwen2-f16", "qwen3-q8_0")
_WEIGHTS: Final = 1 << 16  # bytes after the header that a changed real file keeps; the rest is a hole
_OPTIONS: Final = ModelOptions(n_ctx=256, n_batch=32, n_ubatch=32, n_threads=1)
_ENGINES: Final[tuple[Engine, Engine]] = ("mainline", "prism")


class Failure(Exception):
    """A case was neither played, refused nor waited for; the text says what happened."""


# --- where the fields of a header stand -------------------------------------------------------------------------------


class Field(NamedTuple):
    """A number of a header.

    Attributes:
        at: where it stands.
        size: its bytes, 1 to 8.
        kind: what it is: `count`, `length`, `type`, `extent`, `offset` or `value`.
    """

    at: int
    size: int
    kind: str


@dataclass(slots=True)
class Base:
    """A good file to change.

    Attributes:
        header: its bytes before the data.
        data: the data, or its beginning.
        size: bytes of the file.
        fields: the header's numbers; of long arrays only some.
        keys, tensors: where each key and each tensor's description begins and ends.
        texts: where texts stand.
        small: whether it is to be opened when it is played.
    """

    header: bytes
    data: bytes
    size: int
    fields: list[Field] = field(default_factory=list)
    keys: list[tuple[int, int]] = field(default_factory=list)
    tensors: list[tuple[int, int]] = field(default_factory=list)
    texts: list[tuple[int, int]] = field(default_factory=list)
    small: bool = True


_SIZES: Final = {kind: struct.calcsize("<" + code) for kind, code in writer.FORMATS.items()}
_SHOWN: Final = 4  # entries of an array whose lengths are fields, at each end


class _Walk:
    """Finds the fields of a file that is good; it is no reader of files that may not be."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 4
        self.fields: list[Field] = []
        self.texts: list[tuple[int, int]] = []
        self.keys: list[tuple[int, int]] = []
        self.tensors: list[tuple[int, int]] = []
        self._number(4, "value")
        n_tensors, n_keys = self._number(8, "count"), self._number(8, "count")
        for _ in range(n_keys):
            start = self.at
            self._text()
            self._value(self._number(4, "type"))
            self.keys.append((start, self.at))
        for _ in range(n_tensors):
            start = self.at
            self._text()
            for _ in range(self._number(4, "count")):
                self._number(8, "extent")
            self._number(4, "type")
            self._number(8, "offset")
            self.tensors.append((start, self.at))

    def _number(self, size: int, kind: str, shown: bool = True) -> int:
        if shown:
            self.fields.append(Field(self.at, size, kind))
        value = int.from_bytes(self.data[self.at : self.at + size], "little")
        self.at += size
        return value

    def _text(self, shown: bool = True) -> None:
        n_bytes = self._number(8, "length", shown)
        if shown:
            self.texts.append((self.at, self.at + n_bytes))
        self.at += n_bytes

    def _value(self, kind: int) -> None:
        if kind == writer.STRING:
            self._text()
        elif kind != writer.ARRAY:
            self._number(_SIZES[kind], "value")
        else:
            kind, count = self._number(4, "type"), self._number(8, "count")
            for i in range(count):
                shown = i < _SHOWN or i >= count - _SHOWN
                if kind == writer.STRING:
                    self._text(shown)
                else:
                    self._number(_SIZES[kind], "value", shown)


def base_of(path: Path, *, small: bool) -> Base:
    """A good file, ready to be changed."""
    data = path.read_bytes()
    walk = _Walk(data)
    n_header = walk.at + -walk.at % 32
    weights = data[n_header:] if small else data[n_header : n_header + _WEIGHTS]
    return Base(data[:n_header], weights, len(data), walk.fields, walk.keys, walk.tensors, walk.texts, small)


def bases(folder: Path, model: Path | None = None) -> list[Base]:
    """Small files of each family and kind of vocabulary, and a real one."""
    found = [base_of(BY_NAME[name].file().write(folder / f"{name}.gguf"), small=True) for name in _SMALL]
    found.append(base_of(sentencepiece_shapes.model().write(folder / "llama.gguf"), small=True))
    return found if model is None else [*found, base_of(model, small=False)]


# --- changes ----------------------------------------------------------------------------------------------------------

EXTREMES: Final = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 12, 13, 31, 32, 63, 64, 255, 256, 2**12, 2**13, 2**15, 2**16, 2**18, 2**20, 2**24),
    *(2**26, 2**30, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**56, 2**61, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
    *(142, 143, 0x7F80_0000, 0x7FC0_0000, 0xFF80_0000, 0x0080_0000, 1 << 52, 0x7FF0 << 48),
)
"""What a number is set to: bounds, types that exist or do not, floats that are infinite or none."""

_PIECES: Final = (
    *("{{", "}}", "{%", "%}", "{#", "#}", "(", ")", "[", "]", "{", "}", "'", '"', "\\", "{{ (", "{% if x %}", "not "),
    *("-", "a.", "a[", "a|", "{% for x in y %}", "{% endfor %}", "{% macro m() %}", "{% set x = [", "1 + ", "2 ** "),
    *("9" * 50, "{{ 9**9**9 }}", "{{ 'a' * 10**9 }}", "{% raw %}", "\0", "\ufeff", "\u202e", "é", "\n", " ", "a,"),
    *("<|im_start|>", "{% generation %}", "{% filter upper %}", "{% include 'x' %}", "{{ x.__class__ }}", "~", "is "),
)


def _numbers(rng: random.Random, base: Base, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at, size, kind = rng.choice(base.fields)
        old = int.from_bytes(data[at : at + size], "little")
        near = rng.choice((old + 1, old - 1, old + 32, old * 2, old // 2, old ^ (1 << rng.randrange(8 * size))))
        new = rng.choice((rng.choice(EXTREMES), near, rng.randrange(16) if kind == "type" else len(data)))
        data[at : at + size] = (new % (1 << 8 * size)).to_bytes(size, "little")


def _bytes(rng: random.Random, base: Base, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, n_gone = rng.randrange(24, len(base.header)), rng.choice((0, 1, 4, 8, 12, 40))
        data[at : at + n_gone] = rng.randbytes(rng.choice((0, n_gone, n_gone, 1, 8)))


def _parts(rng: random.Random, base: Base, data: bytearray) -> None:
    """A key or a tensor twice, gone, or in another's place."""
    parts = rng.choice((base.keys, base.tensors))
    (start, end), (other, other_end) = rng.choice(parts), rng.choice(parts)
    new = rng.choice((bytes(base.header[other:other_end]), b"", base.header[start:end] * 2))
    data[start:end] = new
    if rng.random() < 0.5 and len(new) != end - start:  # the counts stay true
        at = 16 if parts is base.keys else 8
        count = int.from_bytes(data[at : at + 8], "little") + (1 if len(new) == 2 * (end - start) else -(not new))
        data[at : at + 8] = count.to_bytes(8, "little")


def _overlap(rng: random.Random, base: Base, data: bytearray) -> None:
    offsets = [at for at, _, kind in base.fields if kind == "offset"]
    at, other = rng.choice(offsets), rng.choice(offsets)
    data[at : at + 8] = base.header[other : other + 8]


def _nested(rng: random.Random, base: Base, data: bytearray) -> None:
    """An array of arrays of arrays in the place of a value."""
    at = rng.choice([at for at, _, kind in base.fields if kind == "type" and at < base.tensors[0][0]])
    levels = struct.pack("<IQ", writer.ARRAY, rng.choice((0, 1, 2, 2**32))) * rng.choice((1, 2, 63, 64, 65, 10_000))
    data[at : at + 4] = struct.pack("<I", writer.ARRAY) + levels + struct.pack("<IQ", rng.randrange(14), 0)


def _array(rng: random.Random, base: Base, data: bytearray) -> None:
    """A long array of strange strings, or of numbers, in a key of its own or another's place."""
    strings = [b"", b"\0", b"a", b"\xff", "é".encode(), b"x" * 255, b"x" * 256, b" " * 3000, rng.randbytes(9)]
    if rng.random() < 0.7:
        some = [rng.choice(strings) for _ in range(rng.choice((1, 3, 100, 5000)))]
        head = struct.pack("<IIQ", writer.ARRAY, writer.STRING, len(some) + rng.choice((0, 0, 0, 1, -1)))
        value = head + b"".join(map(writer.text, some))
    else:
        kind = rng.choice(sorted(_SIZES))
        n = rng.choice((0, 1, 2, 1000, 100_000))
        value = struct.pack("<IIQ", writer.ARRAY, kind, n) + bytes(n * _SIZES[kind])
    start, end = rng.choice(base.keys)
    n_name = int.from_bytes(base.header[start : start + 8], "little")
    data[start + 8 + n_name : end] = value


def _text(rng: random.Random, base: Base, data: bytearray) -> None:
    """Another text in the place of one, its length true: names, templates, tokens."""
    start, end = rng.choice(base.texts)
    old = base.header[start:end]
    pieces = [piece.encode() for piece in _PIECES]
    new = rng.choice(
        (
            lambda: b"".join(rng.choice(pieces) for _ in range(rng.choice((1, 5, 50)))),
            lambda: rng.choice(pieces) * rng.choice((1, 30, 300, 3000, 30_000)),
            lambda: base.header[slice(*rng.choice(base.texts))],
            lambda: old[: len(old) // 2] + rng.choice(pieces) + old[len(old) // 2 :],
            lambda: rng.randbytes(rng.choice((0, 1, 63, 64, 300))),
        )
    )()
    data[start - 8 : end] = writer.text(new)


def _cut(rng: random.Random, base: Base, data: bytearray) -> None:
    del data[rng.randrange(1, len(data)) :]


Change = Callable[[random.Random, Base, bytearray], None]
_CHANGES: Final[Sequence[Change]] = (_numbers, _numbers, _bytes, _parts, _overlap, _nested, _array, _text, _text, _cut)


def changed(rng: random.Random, base: Base) -> tuple[str, bytes, int]:
    """A file made bad, or good in another way: what was done, its bytes, and its size with the hole after them."""
    data = bytearray(base.header + base.data)
    hole = base.size - len(data)
    done = [rng.choice(_CHANGES)]
    if rng.random() < 0.2:
        done.append(rng.choice(_CHANGES))
    for change in done:
        with suppress(ValueError, IndexError):  # the second found less than it wanted
            change(rng, base, data)
    names = "+".join(change.__name__.strip("_") for change in done)
    return names, bytes(data), len(data) + (0 if _cut in done else hole)


# --- judging ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What a run found.

    Attributes:
        n_cases: files judged.
        verdicts: how many of each.
        slowest_ms: processor milliseconds of the slowest judgement that was no `play`, and what it was of.
        slowest: the seed and change of that one.
        grown_mb: by how much the process's peak memory grew after the first files, in MiB.
        cpu_s: processor seconds of the run.
    """

    n_cases: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    slowest_ms: float = 0.0
    slowest: str = ""
    grown_mb: float = 0.0
    cpu_s: float = 0.0

    def __str__(self) -> str:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self.verdicts.items()))
        return (
            f"{self.n_cases} files in {self.cpu_s:.0f} s of processor time: {verdicts}; slowest refusal "
            f"{self.slowest_ms:.1f} ms ({self.slowest}); peak memory grew by {self.grown_mb:.0f} MiB"
        )


def check(path: Path, *, opens: bool) -> tuple[str, float]:
    """Judges a file by both engines' rules, and opens it when it is small and played.

    Returns:
        the verdict and the processor milliseconds of the slower judgement.

    Raises:
        Failure: it was neither played, refused nor waited for, or what is said of it is not what loading does.
    """
    slowest, reports = 0.0, []
    for engine in _ENGINES:
        started = time.process_time()
        try:
            report = judge(path, _OPTIONS, engine)
        except Exception as error:
            raise Failure(f"judge raised {error!r} ({engine})") from error
        slowest = max(slowest, time.process_time() - started)
        _check_report(report)
        reports.append(report)
    ours, fork = reports
    if ours.native != fork.native or ours.native != (ours.verdict == "play"):
        raise Failure("the engines do not agree on what is played here")
    if ours.verdict == "play" and fork.verdict != "play":
        raise Failure(f"played here, but not by the fork's rules: {fork.reasons}")
    if opens:
        _open(path, ours)
    return ours.verdict, slowest * 1000


def _check_report(report: Report) -> None:
    text = json.dumps(report.as_json(), ensure_ascii=False, allow_nan=False)
    if len(text) > 1 << 20:
        raise Failure(f"the report has {len(text)} characters")
    if bool(report.reasons) == (report.verdict == "play"):
        raise Failure(f"{report.verdict} with the reasons {report.reasons}")
    for reason in report.reasons:
        if not reason or not reason.isprintable() or len(reason) > 1200:
            raise Failure(f"a reason that is no line: {reason[:200]!r}")
    needed = report.bytes_needed
    if report.verdict == "need_more" and not (needed is not None and report.size < needed):
        raise Failure(f"waits for {needed} bytes of {report.size}")


def _open(path: Path, report: Report) -> None:
    """Loading does what the guard says; and what is loaded answers."""
    try:
        model = Model.open(path, _OPTIONS)
    except EngineError as error:
        if report.verdict == "play":
            raise Failure(f"played, but not opened: {error}") from error
        return
    except Exception as error:
        raise Failure(f"opening raised {error!r}") from error
    try:
        if report.verdict != "play":
            raise Failure(f"{report.verdict} ({report.reasons}), but opened")
        model.evaluate([1, 2, 3], 0, output=True)
        with suppress(InvalidRequest):  # the vocabulary may have lost letters
            model.tokenizer.encode("abc <|im_end|> b")
    except Failure:
        raise
    except Exception as error:
        raise Failure(f"playing raised {error!r}") from error
    finally:
        model.close()


def run(
    folder: Path,
    *,
    seed: int = 0,
    model: Path | None = None,
    n_cases: int = sys.maxsize,
    cpu_s: float = 60.0,
    say: Callable[[str], object] = lambda _: None,
) -> Outcome:
    """Judges changed files until there were `n_cases`, or `cpu_s` seconds of processor time went by.

    Args:
        folder: where the files are written; the one of a failure stays there.
        seed: of the first case; each later one has the next.
        model: a real file to change, too; its weights are not written.
        say: told how it goes, each minute of processor time.

    Raises:
        Failure: with the seed of the case.
    """
    known = bases(folder, model)
    weights = [10 if base.small else 1 for base in known]
    outcome, path = Outcome(), folder / "case.gguf"
    started, minute, settled = time.process_time(), 1, 0
    while outcome.n_cases < n_cases and outcome.cpu_s < cpu_s:
        case = seed + outcome.n_cases
        rng = random.Random(case)
        base = rng.choices(known, weights)[0]
        names, data, size = changed(rng, base)
        path.unlink(missing_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.truncate(size)
        try:
            verdict, ms = check(path, opens=base.small)
        except Failure as error:
            raise Failure(f"seed {case} ({names}): {error}; the file is {path}") from error
        outcome.n_cases += 1
        outcome.verdicts[verdict] += 1
        if verdict != "play" and ms > outcome.slowest_ms:
            outcome.slowest_ms, outcome.slowest = ms, f"seed {case}, {names}, {'small' if base.small else 'real'}"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        settled = settled or (round(peak) if outcome.n_cases == 200 else 0)
        outcome.grown_mb = peak - settled if settled else 0.0
        outcome.cpu_s = time.process_time() - started
        if outcome.cpu_s > 60 * minute:
            minute += 1
            say(str(outcome))
    path.unlink(missing_ok=True)
    return outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs from the command line; 1 when a case failed."""
    parser = argparse.ArgumentParser(prog="python -m testing.fuzz_gguf", description=__doc__)
    parser.add_argument("--cpu-seconds", type=float, default=60.0, help="how long, in processor time")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="how many files at most")
    parser.add_argument("--seed", type=int, default=0, help="of the first file")
    parser.add_argument("--model", type=Path, help="a real model whose header is changed, too")
    parser.add_argument("--folder", type=Path, help="where the files are written (default: a temporary folder)")
    given = parser.parse_args(arguments)
    faulthandler.enable()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="fuzz-gguf-"))
    folder.mkdir(parents=True, exist_ok=True)

    def say(text: str) -> None:
        print(text, flush=True)

    try:
        limits = {"n_cases": given.cases, "cpu_s": given.cpu_seconds}
        say(f"done: {run(folder, seed=given.seed, model=given.model, say=say, **limits)}")
    except Failure as error:
        say(f"failed: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
