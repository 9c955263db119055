"""The receipt on every answer: what was answered, by what, from which bytes, and what it took.

Field names and order are those Savante and its console read (`bankml_receipt`). After them come `ignored`, the request
fields that were accepted and change nothing, `warnings`, what a schema asks for and its grammar does not hold, and
`settings`, what decides the answer's bits besides the request.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable
from importlib.metadata import version
from typing import Any

from engine.model import ModelOptions
from registry.catalog import Entry

VERSION = version("bankml")
BUILD = f"bankml-{VERSION}"
"""What answers call this build: `system_fingerprint`, `build_info`."""

_SURROGATES = re.compile("[\ud800-\udfff]")


class Receipt:
    """A receipt being written while its answer is.

    Args:
        entry: the verified file that answers.
        body: the request's body as it came.
        options: how the model was opened.
        started_ns: `time.perf_counter_ns()` when the request was read.
        ignored: request fields that were accepted and change nothing.
        warnings: parts of the request that were read, and that the answer need not follow.
    """

    def __init__(
        self,
        entry: Entry,
        body: bytes,
        options: ModelOptions,
        started_ns: int,
        ignored: Iterable[str] = (),
        warnings: Iterable[str] = (),
    ) -> None:
        self._entry = entry
        self._request_sha256 = hashlib.sha256(body).hexdigest()
        self._options = options
        self._started_ns = started_ns
        self._first_ns: int | None = None
        self._text = hashlib.sha256()
        self.ignored = list(ignored)
        self.warnings = list(warnings)

    def token(self) -> None:
        """A token is there; the first call fixes `ttft_ms`."""
        if self._first_ns is None:
            self._first_ns = time.perf_counter_ns()

    def text(self, piece: str) -> None:
        """Text that goes to the client, in order: `response_sha256` is over all of it, a lone surrogate as U+FFFD."""
        try:
            self._text.update(piece.encode())
        except UnicodeEncodeError:
            self._text.update(_SURROGATES.sub("\ufffd", piece).encode())

    def data(self, answer: bytes) -> None:
        """The answer of an API that gives no text: the JSON, as sent, of the list of its embeddings or of its results,
        receipts left out."""
        self._text.update(answer)

    def finish(self, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
        """The finished receipt.

        Args:
            prompt_tokens: tokens of the prompt, cached ones included.
            completion_tokens: tokens sampled, the end token included.
        """
        options = self._options
        return {
            "bankml": VERSION,
            "engine": "native",
            "model_sha256": self._entry.sha256,
            "guard": "play",
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "ttft_ms": None if self._first_ns is None else _ms(self._first_ns - self._started_ns),
            "wall_ms": _ms(time.perf_counter_ns() - self._started_ns),
            "response_sha256": self._text.hexdigest(),
            "request_sha256": self._request_sha256,
            "signed": False,
            "ignored": self.ignored,
            "warnings": self.warnings,
            "settings": {
                "threads": options.n_threads,
                "batch": options.n_batch,
                "ubatch": options.n_ubatch,
                "cache_type_k": options.cache_type_k,
                "cache_type_v": options.cache_type_v,
                "build": BUILD,
            },
        }


def _ms(nanoseconds: int) -> float:
    return nanoseconds // 1000 / 1000
