"""Ask the reference how it tokenizes the texts of `tokenize_cases` and write `records/tokenize_smollm2.json`:
`python -m testing.oracles.record_tokenize MODEL.gguf`.

Beside the tokens of each text, with special tokens parsed and not, the record has digests of what is too long to
write down: the bytes of every token, and the class of every code point, which the library behind the server tells.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import random
import sys
from pathlib import Path
from typing import Any

from testing.oracles.record import RECORDS, sha256_of
from testing.oracles.reference_server import ReferenceServer, require
from testing.oracles.tokenize_cases import texts
from testing.server_process import ServerError

RECORD = RECORDS / "tokenize_smollm2.json"
CODE_POINTS = 0x110000

# The reference's flags of a code point -> our class (engine/kernels/pretokenizer.h); white space goes first.
_WHITESPACE = 0x100
_CLASSES = {0x02: 2, 0x04: 1, 0x10: 4, 0x20: 8, 0x40: 16}
_SPACE, _OTHER = 32, 64


def char_classes(library: Path) -> bytes:
    """The class of every code point, by the reference's own tables."""
    flags_of = ctypes.CDLL(str(library))["_Z26unicode_cpt_flags_from_cptj"]
    flags_of.restype, flags_of.argtypes = ctypes.c_uint16, [ctypes.c_uint32]
    flags = map(flags_of, range(CODE_POINTS))
    return bytes(_SPACE if flag & _WHITESPACE else _CLASSES.get(flag & 0xFF, _OTHER) for flag in flags)


def pieces_digest(server: ReferenceServer, n_vocab: int) -> str:
    """sha256 over the pieces of all tokens in order, each after its length as 4 bytes, little-endian."""
    body = {"content": list(range(n_vocab)), "with_pieces": True}
    digest = hashlib.sha256()
    for index, token in enumerate(server.post("/tokenize", body)["tokens"]):
        assert token["id"] == index
        piece = token["piece"]
        data = piece.encode() if isinstance(piece, str) else bytes(piece)
        digest.update(len(data).to_bytes(4, "little") + data)
    return digest.hexdigest()


def tokens_of(server: ReferenceServer, text: str, parse_special: bool) -> list[int]:
    """The server's tokens of one text."""
    body = {"content": text, "add_special": True, "parse_special": parse_special}
    tokens: list[int] = server.post("/tokenize", body)["tokens"]
    return tokens


def detokenized(server: ReferenceServer, n_vocab: int) -> list[Any]:
    """[tokens, text] of seeded token lists, special tokens and cut characters among them."""
    chance = random.Random(7)
    lists = [[chance.randrange(n_vocab) for _ in range(chance.randrange(1, 12))] for _ in range(40)]
    lists += [[chance.randrange(300) for _ in range(8)] for _ in range(20)]
    return [[tokens, server.post("/detokenize", {"tokens": tokens})["content"]] for tokens in lists]


def record(model: Path) -> dict[str, Any]:
    """The whole record.

    Raises:
        ServerError: no reference, another build, or it did not start.
    """
    with ReferenceServer(model) as server:
        n_vocab = server.get("/v1/models")["data"][0]["meta"]["n_vocab"]
        cases = []
        for text in texts():
            parsed, plain = tokens_of(server, text, True), tokens_of(server, text, False)
            cases.append([text, parsed] if parsed == plain else [text, parsed, plain])
        return {
            "header": {
                "model": {"file": model.name, "bytes": model.stat().st_size, "sha256": sha256_of(model)},
                "reference": {**server.identity, "flags": server.flags},
            },
            "char_classes_sha256": hashlib.sha256(char_classes(require().folder / "libllama.so")).hexdigest(),
            "pieces_sha256": pieces_digest(server, n_vocab),
            "cases": cases,
            "detokenized": detokenized(server, n_vocab),
        }


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m testing.oracles.record_tokenize", description=__doc__)
    parser.add_argument("model", type=Path, metavar="MODEL.gguf")
    arguments = parser.parse_args()
    try:
        recorded = record(arguments.model)
    except ServerError as error:
        print(f"record_tokenize: {error}", file=sys.stderr)
        return 2
    lines = []
    for key, value in recorded.items():
        if isinstance(value, list):
            entries = ",\n".join(json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in value)
            lines.append(f'"{key}":[\n{entries}\n]')
        else:
            lines.append(f'"{key}":{json.dumps(value)}')
    RECORD.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes, {len(recorded['cases'])} texts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
