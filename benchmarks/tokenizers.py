"""The tokenizers beside the reference's: `python -m benchmarks.tokenizers VOCABULARY.gguf ...`.

A megabyte of the project's own text and code and one of many languages are tokenized in turn by both, in one process
and one thread; counted is processor time, the best of the rounds. With `--slow`, texts made to be slow instead: what
ours takes for a megabyte of each, how much longer that is than four times a quarter of it, and what the reference
takes, in a process of its own, as it does not come back from all of them.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Final

from engine.gguf import GGUFFile
from engine.tokenizer import Tokenizer
from testing.oracles.reference_vocabulary import ReferenceVocabulary
from testing.oracles.tokenize_cases import LANGUAGES

MEGABYTE: Final = 1_000_000
ROUNDS: Final = 5
PATIENCE: Final = 60.0
"""Seconds the reference has for a text made to be slow."""


def own_text() -> str:
    """A megabyte of this project's prose and code."""
    root = Path(__file__).parent.parent
    files = sorted(path for ending in ("md", "py", "cpp", "h") for path in root.glob(f"[a-z]*/**/*.{ending}"))
    text = "".join(path.read_text(encoding="utf-8") for path in files if "build" not in path.parts)
    return (text * (MEGABYTE // len(text) + 1))[:MEGABYTE]


def languages() -> str:
    """A megabyte of UTF-8 in many languages."""
    text = "\n".join(LANGUAGES)
    return text * (MEGABYTE // len(text.encode()))


def hostile() -> Iterator[tuple[str, str]]:
    """(name, about a megabyte) of texts made to be slow."""
    chance = Random(1)
    yield "a million spaces", " " * MEGABYTE
    yield "spaces, then a letter", " " * MEGABYTE + "x"
    yield "one letter", "a" * MEGABYTE
    yield "random letters", "".join(chr(97 + chance.randrange(26)) for _ in range(MEGABYTE))
    yield "random capitals and digits", "".join(chr(48 + chance.randrange(43)) for _ in range(MEGABYTE))
    yield "digits", "1234567890" * (MEGABYTE // 10)
    yield "line breaks", "\r\n" * (MEGABYTE // 2)
    yield "spaces and line breaks", " \n" * (MEGABYTE // 2)
    yield "punctuation", "?!" * (MEGABYTE // 2)
    yield "Han", "漢字" * (MEGABYTE // 6)
    yield "emoji", "😀👍🏽" * (MEGABYTE // 12)
    yield "combining marks", "a" + "\u0301" * (MEGABYTE // 2)
    yield "beginnings of special tokens", "<|im_" * (MEGABYTE // 5)
    yield "special tokens", "<|im_start|></s>" * (MEGABYTE // 16)
    yield "'ll 'll", "'ll " * (MEGABYTE // 4)


def seconds(encode: Callable[[], object]) -> float:
    """Processor time of one call."""
    start = time.thread_time()
    encode()
    return time.thread_time() - start


def compare(ours: Tokenizer, reference: ReferenceVocabulary, text: str) -> tuple[float, float]:
    """Best seconds of both for one text, in turn.

    Raises:
        AssertionError: they do not agree.
    """
    assert ours.encode(text) == reference.encode(text), "the tokens differ"
    rounds = [(seconds(partial(ours.encode, text)), seconds(partial(reference.count, text))) for _ in range(ROUNDS)]
    return min(mine for mine, _ in rounds), min(theirs for _, theirs in rounds)


def _encode_alone(path: Path, text: str, answer: Connection) -> None:
    with ReferenceVocabulary(path) as reference:
        taken = seconds(partial(reference.count, text))
        answer.send((taken, reference.encode(text)))


def reference_alone(path: Path, text: str, expected: list[int]) -> str:
    """What the reference takes for a text, in a process that may end or be ended."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_encode_alone, args=(path, text, theirs))
    process.start()
    theirs.close()
    try:
        if not mine.poll(PATIENCE):
            return f"over {PATIENCE:.0f} s"
        taken, tokens = mine.recv()
    except EOFError:
        process.join()
        return f"ends with signal {-(process.exitcode or 0)}"
    finally:
        process.kill()
        process.join()
    return f"{taken:.3f} s" + ("" if tokens == expected else ", OTHER TOKENS")


def opened(path: Path) -> Tokenizer:
    """Our tokenizer of a file."""
    with GGUFFile.open(path) as file:
        return Tokenizer.from_gguf(file.metadata)


def show_speed(paths: list[Path]) -> None:
    """A row for each vocabulary and text."""
    print("| vocabulary | a megabyte of | bankml, MB/s | reference, MB/s | ratio |\n|---|---|---:|---:|---:|")
    for path in paths:
        ours = opened(path)
        with ReferenceVocabulary(path) as reference:
            for name, text in (("own text and code", own_text()), ("many languages", languages())):
                mine, theirs = compare(ours, reference, text)
                size = len(text.encode()) / 1e6
                shown = f"{size / mine:.1f} | {size / theirs:.2f} | {theirs / mine:.1f}"
                print(f"| {path.stem} | {name} | {shown} |", flush=True)


def show_slow(path: Path) -> None:
    """A row for each text made to be slow."""
    ours = opened(path)
    print(f"\n| {path.stem}: text made to be slow | bankml | of four quarters | reference |\n|---|---:|---:|---:|")
    for name, text in hostile():
        quarter = min(seconds(partial(ours.encode, text[: len(text) // 4])) for _ in range(3))
        whole = min(seconds(partial(ours.encode, text)) for _ in range(3))
        theirs = reference_alone(path, text, ours.encode(text))
        print(f"| {name} | {whole:.3f} s | {whole / quarter / 4:.2f} | {theirs} |", flush=True)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokenizers", description=__doc__)
    parser.add_argument("vocabularies", nargs="+", type=Path, metavar="VOCABULARY.gguf")
    parser.add_argument("--slow", action="store_true", help="only the texts made to be slow")
    options = parser.parse_args()
    if options.slow:
        for path in options.vocabularies:
            show_slow(path)
    else:
        show_speed(options.vocabularies)
    return 0


if __name__ == "__main__":
    sys.exit(main())
