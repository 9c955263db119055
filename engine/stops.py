"""Stop strings and cut characters: bytes of sampled tokens in, text fit to be sent out.

Pure objects, no model and no I/O. The rules are llama-server b11192's (`process_token`): text is held back while its
last character is cut, then while its end could still become a stop string; a stop string is cut off with everything
after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LONGEST_CHARACTER = 4


def cut_bytes(data: bytes | bytearray) -> int:
    """How many bytes at the end of `data` belong to a UTF-8 character whose rest has not come yet (0 to 3).

    As llama-server's `validate_utf8` judges it: it looks for a leading byte among the last four only, so bytes that
    can never become a character (a lone continuation byte, say) count as whole and do not hold text back.
    """
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte & 0xE0 == 0xC0:
            needed = 2
        elif byte & 0xF0 == 0xE0:
            needed = 3
        elif byte & 0xF8 == 0xF0:
            needed = 4
        else:
            continue
        if back < needed:
            return back
    return 0


def as_text(data: bytes | bytearray) -> str:
    """The text of `data`; each run that is not UTF-8 becomes one U+FFFD, as llama-server's JSON writer does it."""
    return data.decode("utf-8", "replace")


def find_stop(text: bytes, words: Sequence[bytes], n_last: int) -> tuple[int, bytes] | None:
    """The first whole stop string in `text` and where it starts, or None.

    Args:
        text: the bytes not yet sent.
        words: the stop strings, in the request's order; of two that start together the earlier one wins.
        n_last: bytes of the newest token. Only what it could have completed is searched, as llama-server does: the
            last `n_last` bytes and as many before them as the word is long.
    """
    found: tuple[int, bytes] | None = None
    for word in words:
        position = text.find(word, max(0, len(text) - len(word) - n_last))
        if position >= 0 and (found is None or position < found[0]):
            found = (position, word)
    return found


def ends_in_partial_stop(text: bytes, words: Sequence[bytes]) -> bool:
    """Whether `text` ends with the beginning of a stop string, so that the next token may complete it."""
    return any(text.endswith(word[:length]) for word in words for length in range(min(len(text), len(word)), 0, -1))


@dataclass(frozen=True, slots=True)
class Release:
    """What one token did to the answer's text.

    Attributes:
        data: bytes released now; empty while text is held back.
        whole: False while the last character is cut. llama-server sends a partial event only for a token that leaves
            the text whole, be it an empty one.
        word: the stop string that ended the answer, or None.
    """

    data: bytes
    whole: bool
    word: str | None = None


class AnswerText:
    """The text of one answer, grown token by token.

    Args:
        stop: the stop strings. An empty one matches at once, where the newest token begins, as in llama-server.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._words = [word.encode("utf-8", "surrogatepass") for word in stop]
        self._names = dict(zip(self._words, stop, strict=True))
        self._data = bytearray()
        self._sent = 0

    @property
    def data(self) -> bytes:
        """Every byte of the answer so far, held ones included, a stop string and what follows it excluded."""
        return bytes(self._data)

    @property
    def held(self) -> bytes:
        """The bytes not released yet: a cut character, or the possible start of a stop string."""
        return bytes(self._data[self._sent :])

    def push(self, piece: bytes, *, ends: bool = False) -> Release:
        """Adds a token's bytes.

        Args:
            piece: the token's text; empty for a control token.
            ends: the token is an end-of-generation one: what a possible stop string held back is released.
        """
        self._data += piece
        if cut_bytes(self._data):
            return Release(b"", whole=False)
        unsent = bytes(self._data[self._sent :])
        stop = find_stop(unsent, self._words, len(piece)) if self._words else None
        if stop is not None:
            position, word = stop
            del self._data[self._sent + position :]
            self._sent = len(self._data)
            return Release(unsent[:position], whole=True, word=self._names[word])
        if self._words and not ends and ends_in_partial_stop(unsent, self._words):
            return Release(b"", whole=True)
        self._sent = len(self._data)
        return Release(unsent, whole=True)

    def cut_at(self, position: int) -> None:
        """Drops the answer's bytes from `position` on, sent or not (the indentation limit does this)."""
        del self._data[position:]
        self._sent = min(self._sent, position)
