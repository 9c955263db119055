"""The reference's own `json_schema_to_grammar`, called in its libllama-common: the grammar of a schema, or its refusal.

A C++ exception cannot be caught from here: it ends the process and leaves its text on stderr. So a forked process
answers one schema after another, and when one ends it, the next process goes on behind that one.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from testing.oracles.reference_server import PASSIVE, require

ENDED = "the process ended"
"""How the error of an answer begins when no exception was thrown."""
_SECONDS = 10  # for one schema
_MEMORY = 4 << 30
_WHAT = "  what():  "
_WARNING = "WARNING: JSON schema conversion was incomplete: "
_PARSE = "_ZN11common_json5parseERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
_DESTROY = "_ZN11common_jsonD1Ev"
_CONVERT = "_Z22json_schema_to_grammarB5cxx11RK11common_jsonb"
_FRAME = struct.Struct("<qq")  # bytes of the grammar, bytes on stderr so far


class _String(ctypes.Structure):
    """A `std::string` of libstdc++."""

    _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("capacity", ctypes.c_size_t * 2)]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the reference makes of a schema.

    Attributes:
        grammar: the grammar's bytes; None when there is none.
        error: the exception's text, or how the process ended; empty when there is a grammar.
        warning: what it says on stderr of patterns it drops.
    """

    grammar: bytes | None
    error: str = ""
    warning: str = ""


class ReferenceSchemas:
    """The converter of the installed reference.

    Raises:
        ReferenceError: it is not installed, or is another build.
    """

    def __init__(self) -> None:
        os.environ.update(PASSIVE, GGML_NO_BACKTRACE="1")  # no debugger for each refusal
        reference = require()
        self.identity = reference.identity()
        self._library = ctypes.CDLL(str(reference.folder / "libllama-common.so"))
        for name in (_PARSE, _DESTROY, _CONVERT):
            getattr(self._library, name).restype = None

    def answers(self, schemas: Sequence[bytes]) -> Iterator[Answer]:
        """The answers to schemas, which are JSON, in their order."""
        done = 0
        while done < len(schemas):
            reader, writer = os.pipe()
            with tempfile.TemporaryFile() as errors, os.fdopen(reader, "rb") as pipe:
                child = os.fork()
                if child == 0:
                    self._answer(schemas[done:], writer, errors.fileno())
                os.close(writer)
                seen = 0
                while head := pipe.read(_FRAME.size):
                    size, said = _FRAME.unpack(head)
                    yield Answer(pipe.read(size), warning=_warning(_text(errors, seen, said)))
                    seen = said
                    done += 1
                _, status = os.waitpid(child, 0)
                if status and done < len(schemas):
                    yield _ended(status, _text(errors, seen, None))
                    done += 1

    def _answer(self, schemas: Sequence[bytes], pipe: int, errors: int) -> None:
        """What the forked process does; it does not return."""
        status = 1
        try:
            os.dup2(errors, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            for schema in schemas:
                signal.alarm(_SECONDS)
                grammar = self._convert(schema)
                frame = _FRAME.pack(len(grammar), os.lseek(2, 0, os.SEEK_CUR)) + grammar
                while frame:
                    frame = frame[os.write(pipe, frame) :]
            status = 0
        finally:
            os._exit(status)

    def _convert(self, schema: bytes) -> bytes:
        json = (ctypes.c_ubyte * 32)()
        text, grammar = _string(schema), _String()
        getattr(self._library, _PARSE)(ctypes.byref(json), ctypes.byref(text))
        getattr(self._library, _CONVERT)(ctypes.byref(grammar), ctypes.byref(json), ctypes.c_bool(True))
        getattr(self._library, _DESTROY)(ctypes.byref(json))
        return ctypes.string_at(grammar.data or 0, grammar.size)  # its buffer is not freed: the process is a short one


def _string(data: bytes) -> Any:
    """A `std::string` to read from; `data` must live as long as it."""
    return _String(ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p), len(data), (len(data), 0))


def _text(errors: IO[bytes], start: int, end: int | None) -> str:
    size = os.fstat(errors.fileno()).st_size if end is None else end
    return os.pread(errors.fileno(), size - start, start).decode("utf-8", "replace")


def _warning(text: str) -> str:
    return text.partition(_WARNING)[2].rstrip("\n")


def _ended(status: int, text: str) -> Answer:
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT and _WHAT in text:
        return Answer(None, text.partition(_WHAT)[2].removesuffix("\n"))
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"exit {status}"
    return Answer(None, f"{ENDED}: {ended} {text}")
