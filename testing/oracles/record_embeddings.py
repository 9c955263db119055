"""Write down the reference's embeddings and ranks: `python -m testing.oracles.record_embeddings`.

`records/embeddings.json` gets, for each small model, the file's sha256 and a hash of each text's floats in each
pooling; for each small reranker its scores; and for each session of `embedding_cases.SESSIONS` with SmolLM2 the status
and the body of every answer, vectors as hashes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.gguf import read_header
from engine.pooling import Pooling
from registry.download import ensure
from testing.oracles.embedding_cases import RERANK_REQUESTS, RERANKERS, SESSIONS, Request, poolings, shown, texts
from testing.oracles.operation_cases import digest
from testing.oracles.record import sha256_of
from testing.oracles.reference_server import ReferenceServer, require
from testing.oracles.small_models import MODELS
from testing.server_process import ServerError, ServerProcess

RECORD = Path(__file__).parent / "records" / "embeddings.json"
_WHOLE = ["The", "An answer to keep whole"]


def play(server: ServerProcess, requests: Sequence[Request]) -> list[dict[str, Any]]:
    """The status and the body of each answer."""
    found = []
    for request in requests:
        if request.body is None:
            answer = server.client.get(request.path)
        else:
            answer = server.client.post(request.path, json=request.body)
        found.append({"status": answer.status_code, "body": shown(request.path, answer.json())})
    return found


def _small(path: Path, kinds: Sequence[Pooling]) -> dict[str, Any]:
    n_vocab = len(read_header(path).metadata["tokenizer.ggml.tokens"])
    made: dict[str, Any] = {"sha256": sha256_of(path)}
    for pooling in kinds:
        with ReferenceServer(path, "--embeddings", "--pooling", pooling.value) as server:
            made[pooling.value] = [_digest(server, text, pooling) for text in texts(n_vocab)]
    return made


def _digest(server: ReferenceServer, text: Sequence[int], pooling: Pooling) -> str:
    [answer] = server.post("/embedding", {"content": text, "embd_normalize": -1})
    floats = np.array(answer["embedding"], np.float32)
    return digest(floats[:, :1] if pooling is Pooling.RANK else floats)  # past the score is what memory held


def record() -> dict[str, Any]:
    """The record.

    Raises:
        ReferenceError: the reference is not installed, or is another build.
    """
    small: dict[str, Any] = {}
    rerankers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            path = model.file().write(Path(folder) / f"{model.name}.gguf")
            small[model.name] = _small(path, poolings(model.name))
            print(model.name, flush=True)
        for reranker in RERANKERS:
            path = reranker.file().write(Path(folder) / f"{reranker.name}.gguf")
            with ReferenceServer(path, "--reranking", "--alias", "small") as server:
                found = play(server, [Request("/rerank", body) for body in RERANK_REQUESTS])
            rerankers[reranker.name] = {"sha256": sha256_of(path), "answers": found}
            print(reranker.name, flush=True)
    source, _ = ensure()
    sessions = {}
    for name, (flags, requests) in SESSIONS.items():
        with ReferenceServer(source, *flags, "--alias", "SmolLM2") as server:
            sessions[name] = play(server, requests)
        print(name, flush=True)
    with ReferenceServer(source, "--embeddings", "--pooling", "mean") as server:
        whole = [one["embedding"] for one in server.post("/v1/embeddings", {"input": _WHOLE})["data"]]
    return {
        "reference": require().identity(),
        "small": small,
        "rerankers": rerankers,
        "model": sha256_of(source),
        "sessions": sessions,
        "whole": dict(zip(_WHOLE, whole, strict=True)),
    }


def main() -> int:
    """The command."""
    try:
        made = record()
    except ServerError as error:
        print(f"record_embeddings: {error}", file=sys.stderr)
        return 2
    text = json.dumps(made, separators=(",", ":"))
    RECORD.write_text(text.replace('},"', '},\n"').replace('},{"status"', '},\n{"status"') + "\n", encoding="utf-8")
    print(f"{RECORD}: {RECORD.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
