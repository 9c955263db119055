"""Requests to `/infill`, and the servers that are asked: vocabularies with and without the tokens that stand between
files, flags that say how much of a text is kept. `python -m testing.oracles.record_infill` asks the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from engine.gguf import GGMLType
from testing.gguf_writer import ModelFile
from testing.oracles import vocabularies
from testing.oracles.http_shapes import Exchange
from testing.oracles.small_models import SmallModel

GAP: Final = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
FILES: Final = ("<|repo_name|>", "<|file_sep|>")


@dataclass(frozen=True, slots=True)
class Setup:
    """A server: tokens that its vocabulary has besides the usual ones, whether texts begin with a token, its flags."""

    name: str
    markers: Sequence[str]
    add_bos: bool
    flags: tuple[str, ...]

    def model(self) -> ModelFile:
        """A seeded model with that vocabulary."""
        words = vocabularies.byte_level("smollm", bos_token_id=1, add_bos_token=self.add_bos, eos_token_id=4)
        words["tokenizer.ggml.tokens"] = [*words["tokenizer.ggml.tokens"], *self.markers]
        control = np.array([vocabularies.CONTROL] * len(self.markers), np.int32)
        words["tokenizer.ggml.token_type"] = np.concatenate([words["tokenizer.ggml.token_type"], control])
        shape = SmallModel(f"infill {self.name}", "llama", (2, 1, 32), (GGMLType.Q8_0,), n_ctx_train=512)
        return shape.file(words)


SETUPS: Final = (
    Setup("files", (*GAP, *FILES), False, ("-c", "256", "-b", "64")),
    Setup("suffix first", (*GAP, *FILES), False, ("-c", "256", "-b", "64", "--spm-infill")),
    Setup("a limit of the answer", (*GAP, *FILES), False, ("-c", "256", "-b", "64", "-n", "8")),
    Setup("no file tokens", GAP, True, ("-c", "256", "-b", "64")),
    Setup("a repository without files", (*GAP, FILES[0]), True, ("-c", "512")),
    Setup("no middle", GAP[:2], False, ("-c", "256")),
)

_LONG: Final = "".join(f"line {number}\n" for number in range(40))
_FILE: Final = {"filename": "a.py", "text": "import os\n"}


def _ask(name: str, **fields: Any) -> Exchange:
    body = {"input_prefix": "def f(x):\n    ", "input_suffix": "\n    return y\n", "n_predict": 3, "seed": 1, **fields}
    return Exchange(name, "POST", "/infill", {key: value for key, value in body.items() if value is not ...})


EXCHANGES: Final = (
    _ask("two sides"),
    _ask("two sides, streamed", stream=True),
    _ask("a beginning", prompt="y = "),
    _ask("special tokens in the beginning", prompt="<|im_start|>y"),
    _ask("special tokens in the sides", input_prefix="<|im_start|>", input_suffix="<|fim_middle|>"),
    _ask("empty sides", input_prefix="", input_suffix=""),
    _ask("long sides", input_prefix=_LONG, input_suffix=_LONG),
    _ask("long sides and a long beginning", input_prefix=_LONG, input_suffix=_LONG, prompt="word " * 30),
    _ask("a file", input_extra=[_FILE]),
    _ask("two files", input_extra=[_FILE, {"text": "x = 1\n"}]),
    _ask("a long file", input_extra=[{"filename": "b.py", "text": _LONG}]),
    _ask("a long file and long sides", input_prefix=_LONG, input_suffix=_LONG, input_extra=[{"text": _LONG}]),
    _ask("sides of tokens", input_prefix=[40, 41, "a"], input_suffix=["b", 42]),
    _ask("no prefix", input_prefix=...),
    _ask("no suffix", input_suffix=...),
    _ask("a prefix that is a number", input_prefix=5),
    _ask("a suffix that is null", input_suffix=None),
    _ask("a beginning that is a list", prompt=[40]),
    _ask("a beginning that is null", prompt=None),
    _ask("files that are an object", input_extra={}),
    _ask("files that are null", input_extra=None),
    _ask("a file that is a text", input_extra=["a"]),
    _ask("a file without a text", input_extra=[{"filename": "a"}]),
    _ask("a file whose text is a number", input_extra=[{"text": 1}]),
    _ask("a file whose name is a number", input_extra=[{"text": "a", "filename": 1}]),
    _ask("a file whose name is null", input_extra=[{"text": "a", "filename": None}]),
    _ask("no files and no prefix", input_extra=[{}], input_prefix=...),
    _ask("some fields", response_fields=["prompt", "content"]),
    Exchange("no JSON", "POST", "/infill", raw="nope"),
)
