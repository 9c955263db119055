"""JSON as it comes in and as it goes out."""

from __future__ import annotations

import gc
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson


class _Collection:
    """Python's search for garbage, which several threads may want paused at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_pauses = 0
        self._was_on = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is searched for; afterwards it is as before the first of the pauses."""
        with self._lock:
            if self._n_pauses == 0:
                self._was_on = gc.isenabled()
                gc.disable()
            self._n_pauses += 1
        try:
            yield
        finally:
            with self._lock:
                self._n_pauses -= 1
                if self._n_pauses == 0 and self._was_on:
                    gc.enable()


_COLLECTION: Final = _Collection()


def json_loads(raw: bytes) -> Any:
    """The value of a JSON text. Of its many objects none is garbage yet: looking for some takes twice the time of
    reading it, in which no other thread runs.

    Raises:
        orjson.JSONDecodeError: it is none.
    """
    with _COLLECTION.paused():
        return orjson.loads(raw)


def json_bytes(value: object) -> bytes:
    """`value` as JSON in UTF-8; what is no Unicode in a text (a file's name may have any bytes) becomes U+FFFD."""
    try:
        return orjson.dumps(value)
    except TypeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return re.sub("[\ud800-\udfff]", "\ufffd", text).encode()
