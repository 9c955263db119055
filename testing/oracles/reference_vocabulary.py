"""A vocabulary in the reference's libllama: its tokens of a text, its text of tokens, what it takes each token for."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from testing.oracles.reference_library import load
from testing.oracles.reference_server import ReferenceError

_P, _I32, _BOOL, _TEXT = ctypes.c_void_p, ctypes.c_int32, ctypes.c_bool, ctypes.c_char_p
_IDS = ctypes.POINTER(_I32)
ROLES = ("bos", "eos", "eot", "sep", "pad", "mask", "fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep")
"""Those of which the library tells."""
FLAGS = ("add_bos", "add_eos", "add_sep")

_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "llama_tokenize": (_I32, [_P, _TEXT, _I32, _IDS, _I32, _BOOL, _BOOL]),
    "llama_token_to_piece": (_I32, [_P, _I32, _TEXT, _I32, _I32, _BOOL]),
    "llama_detokenize": (_I32, [_P, _IDS, _I32, _TEXT, _I32, _BOOL, _BOOL]),
    "llama_vocab_get_attr": (_I32, [_P, _I32]),
    "llama_vocab_is_eog": (_BOOL, [_P, _I32]),
    **{f"llama_vocab_{role}": (_I32, [_P]) for role in ROLES},
    **{f"llama_vocab_get_{flag}": (_BOOL, [_P]) for flag in FLAGS},
}


class ReferenceVocabulary:
    """The vocabulary of a GGUF file, with or without weights.

    Attributes:
        n_vocab: number of tokens.
        handle: the library's own.

    Raises:
        ReferenceError: the reference is not installed, or refuses the file.
    """

    def __init__(self, path: str | Path) -> None:
        self._lib = load()
        for name, (result, arguments) in _CALLS.items():
            function = getattr(self._lib, name)
            function.restype, function.argtypes = result, arguments
        params = self._lib.llama_model_default_params()
        params.vocab_only = True
        self._model = self._lib.llama_model_load_from_file(bytes(Path(path)), params)
        if not self._model:
            raise ReferenceError(f"the reference cannot load {path}")
        self.handle = self._lib.llama_model_get_vocab(self._model)
        self.n_vocab = int(self._lib.llama_vocab_n_tokens(self.handle))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the vocabulary."""
        if self._model:
            self._lib.llama_model_free(self._model)
        self._model = None

    def encode(self, text: str | bytes, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """The tokens of a text."""
        data = text.encode() if isinstance(text, str) else text
        room = len(data) + 16
        ids = (_I32 * room)()
        count = self._lib.llama_tokenize(self.handle, data, len(data), ids, room, add_special, parse_special)
        if count < 0:
            ids = (_I32 * -count)()
            count = self._lib.llama_tokenize(self.handle, data, len(data), ids, -count, add_special, parse_special)
        return list(ids[:count])

    def count(self, text: str) -> int:
        """How many tokens a text has: the work of `encode` without making a list."""
        data = text.encode()
        ids = (_I32 * (len(data) + 16))()
        return int(self._lib.llama_tokenize(self.handle, data, len(data), ids, len(data) + 16, True, True))

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token."""
        buffer = ctypes.create_string_buffer(64)
        count = self._lib.llama_token_to_piece(self.handle, token, buffer, 64, 0, special)
        if count < 0:
            buffer = ctypes.create_string_buffer(-count)
            count = self._lib.llama_token_to_piece(self.handle, token, buffer, -count, 0, special)
        return buffer.raw[:count]

    def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> bytes:
        """The text of tokens, as the server's `common_detokenize`."""
        ids = (_I32 * len(tokens))(*tokens)
        # The buffer must hold what there was before spaces went.
        room = sum(len(self.piece(token, special=special)) for token in tokens) + 16
        buffer = ctypes.create_string_buffer(room)
        count = self._lib.llama_detokenize(self.handle, ids, len(tokens), buffer, room, False, special)
        return buffer.raw[:count]

    def attribute(self, token: int) -> int:
        """`llama_token_attr` of one token."""
        return int(self._lib.llama_vocab_get_attr(self.handle, token))

    def eog(self) -> list[int]:
        """The tokens that end a generation."""
        return [token for token in range(self.n_vocab) if self._lib.llama_vocab_is_eog(self.handle, token)]

    def roles(self) -> dict[str, int | None]:
        """The token of each of `ROLES`, None where there is none."""
        found = {role: int(getattr(self._lib, f"llama_vocab_{role}")(self.handle)) for role in ROLES}
        return {role: None if token < 0 else token for role, token in found.items()}

    def flags(self) -> dict[str, bool]:
        """Each of `FLAGS`."""
        return {flag: bool(getattr(self._lib, f"llama_vocab_get_{flag}")(self.handle)) for flag in FLAGS}
