"""What embedding and reranking are compared on: texts for every small model, rerankers, and sessions over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from engine.gguf import GGMLType
from engine.pooling import Pooling
from testing.gguf_writer import ModelFile
from testing.oracles.draws import Draws
from testing.oracles.operation_cases import digest
from testing.oracles.small_models import BY_NAME, matrix

# --- the small models ---------------------------------------------------------------------------------------------

LENGTHS: Final = (1, 2, 31, 40, 77, 128, 300)
"""Tokens of the texts: products by one row and by several, sums with and without a rest."""

POOLED: Final = ("llama-mixed", "qwen2-f16", "qwen3-q8_0")
"""The models that are asked in every pooling; the others give every row, of which the poolings are made."""


def texts(n_vocab: int) -> list[list[int]]:
    """A text of each length, no two with the same beginning."""
    return [Draws("embedding", n).pick(range(n_vocab), n).tolist() for n in LENGTHS]


def poolings(name: str) -> tuple[Pooling, ...]:
    """How the rows of a small model are pooled."""
    return tuple(Pooling) if name in POOLED else (Pooling.NONE,)


# --- rerankers ----------------------------------------------------------------------------------------------------

_TEMPLATE: Final = "<|im_start|>Is it so?\n{query}\n{document}<|im_end|>\n"


@dataclass(frozen=True, slots=True)
class Reranker:
    """A small model with a classifier: which model, the classifier's type and labels, and further keys of the file."""

    name: str
    base: str
    type: GGMLType | None
    labels: int
    keys: Mapping[str, Any]

    def file(self) -> ModelFile:
        """The file; the classifier's seed is its name."""
        file = BY_NAME[self.base].file()
        small = BY_NAME[self.base]
        if self.labels > 1:
            file.metadata[f"{small.architecture}.classifier.output_labels"] = [f"label {i}" for i in range(self.labels)]
        file.metadata |= self.keys
        if self.type is not None:
            file.tensors["cls.output.weight"] = matrix(Draws(self.name), self.type, self.labels, small.n_embd)
        return file


_PLAIN: Final[Mapping[str, Any]] = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}
_SEPARATED: Final = {**_PLAIN, "tokenizer.ggml.add_sep_token": True, "tokenizer.ggml.seperator_token_id": 1}
_OWN_FORM: Final = {"tokenizer.chat_template.rerank": _TEMPLATE}

RERANKERS: Final[Sequence[Reranker]] = (
    Reranker("qwen3-yes-no", "qwen3-q8_0", GGMLType.F16, 2, _OWN_FORM),
    Reranker("qwen3-one", "qwen3-f32", GGMLType.F32, 1, _PLAIN),
    Reranker("qwen3-nine", "qwen3-q8_0", GGMLType.Q8_0, 9, _SEPARATED),
    Reranker("qwen3-eight-q4_0", "qwen3-yarn", GGMLType.Q4_0, 8, _PLAIN),
    Reranker("qwen3-none", "qwen3-q8_0", None, 2, _PLAIN),
    Reranker("qwen2-none", "qwen2-f16", None, 1, _PLAIN),
    Reranker("llama-none", "llama-mixed", None, 1, _SEPARATED),
)

QUERY: Final = "What is the other thing that you said?"
DOCUMENTS: Final[Sequence[str]] = (
    "the",
    "It is that the thing was said to the others, and then to you.",
    "",
    "Mentioning <|im_end|> is no end.",
    *(
        f"the ending of the {word}"
        for word in ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    ),
    *["the same"] * 6,
)
"""So many that equal scores are not left in their order."""

RERANK_REQUESTS: Final[Sequence[Mapping[str, Any]]] = (
    {"query": QUERY, "documents": DOCUMENTS},
    {"query": QUERY, "texts": DOCUMENTS, "return_text": True, "top_n": 5},
    {"query": "{document} or {query}", "documents": ["{query}", "{document}"]},
)

# --- SmolLM2 over HTTP --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """A request of a session; a GET without a body."""

    path: str
    body: Mapping[str, Any] | Sequence[Any] | None = None


_LONG: Final = "The cat sat on a mat and looked at what the other one did, and then it went away. "
_TEXT: Final = _LONG * 2
_COMPLETION: Final = {"prompt": _TEXT, "n_predict": 6, "temperature": 0}
_SLOTS: Final = Request("/slots")

_BAD: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"input": ""},
    {"input": []},
    {"input": ["a", ""]},
    {"input": [[]]},
    {"input": None},
    {"input": 7},
    {"input": {"text": "a"}},
    {"input": [99999999]},
    {"input": [-1]},
    {"input": [5] * 513},
    {"input": "a", "encoding_format": "hex"},
    {"input": "a", "encoding_format": 1},
    {"input": "a", "encoding_format": None},
    {"input": "a", "embd_normalize": "2"},
    {"input": "a", "embd_normalize": None},
)

_BAD_RERANK: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"query": 7, "documents": ["a"]},
    {"query": None, "documents": ["a"]},
    {"query": "a"},
    {"query": "a", "documents": []},
    {"query": "a", "documents": "b"},
    {"query": "a", "documents": ["b", 1]},
    {"query": "a", "documents": ["b", "long " * 600]},
    {"query": "a", "documents": ["b"], "top_n": -1},
)

SESSIONS: Final[Mapping[str, tuple[Sequence[str], Sequence[Request]]]] = {
    "no flag": (
        [],
        [
            *(Request(path, {}) for path in ("/embedding", "/embeddings", "/v1/embeddings")),
            *(Request(path, {}) for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")),
            Request("/lora-adapters"),
            Request("/lora-adapters", {}),
        ],
    ),
    "rows": (
        ["--embeddings"],
        [
            Request("/embedding", {"content": _TEXT}),
            Request("/embeddings", {"input": ["Hello", [1, 2, 3]], "embd_normalize": 1}),
            Request("/v1/embeddings", {"input": "Hello"}),
            Request("/v1/embeddings", {}),
            Request("/embedding", {"content": [5] * 512}),
            Request("/embedding", {"content": [5] * 513}),
            Request("/completion", _COMPLETION),
            Request("/rerank", {}),
            _SLOTS,
        ],
    ),
    "mean": (
        ["--embeddings", "--pooling", "mean"],
        [
            Request("/v1/embeddings", {"input": "Hello"}),
            Request("/v1/embeddings", {"input": [_TEXT, "Hello", _LONG], "model": "mine"}),
            Request("/v1/embeddings", {"input": [1, 2, 3], "model": 7}),
            Request("/v1/embeddings", {"input": [[1, 2, 3], [4], "Hello"]}),
            Request("/v1/embeddings", {"input": [1, "Hello", 2]}),
            Request("/v1/embeddings", {"input": {"prompt_string": "Hello"}}),
            Request("/v1/embeddings", {"input": "<|im_start|>Hello"}),
            Request("/v1/embeddings", {"input": _TEXT, "encoding_format": "base64"}),
            Request("/embedding", {"input": _TEXT, "encoding_format": "base64"}),
            Request("/v1/embeddings", {"content": _TEXT}),
            Request("/v1/embeddings", {"input": "Hello", "content": _TEXT}),
            *(
                Request("/v1/embeddings", {"input": _TEXT, "embd_normalize": norm})
                for norm in (-1, 0, 1, 2, 3, 7, -2, 400, 1.9, True)
            ),
            *(Request("/v1/embeddings", body) for body in _BAD),
            *(Request("/embedding", body) for body in _BAD[:4]),
            _SLOTS,
            Request("/completion", _COMPLETION),
            Request("/v1/embeddings", {"input": _TEXT}),
            Request("/completion", _COMPLETION),
        ],
    ),
    "first": (["--embeddings", "--pooling", "cls", "--embd-normalize", "0"], [Request("/embedding", {"input": _TEXT})]),
    "last, in pieces": (
        ["--embeddings", "--pooling", "last", "-ub", "64", "-c", "512"],
        [
            Request("/v1/embeddings", {"input": _LONG * 6}),
            Request("/v1/embeddings", {"input": _LONG * 6}),
            Request("/v1/embeddings", {"input": [_LONG * 5 + "Then?", _LONG * 9, "Hello"]}),
            _SLOTS,
            Request("/v1/embeddings", {"input": [5] * 511}),
            Request("/v1/embeddings", {"input": [5] * 512}),
            Request("/completion", {**_COMPLETION, "prompt": _LONG * 6}),
            Request("/v1/embeddings", {"input": _LONG * 7}),
            Request("/completion", {**_COMPLETION, "prompt": _LONG * 8}),
        ],
    ),
    "a small context": (
        ["--embeddings", "--pooling", "mean", "-c", "256"],
        [Request("/v1/embeddings", {"input": [5] * n}) for n in (255, 256, 257)],
    ),
    "ranks": (
        ["--reranking"],
        [
            *(Request(path, RERANK_REQUESTS[0]) for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")),
            *(Request("/rerank", body) for body in RERANK_REQUESTS[1:]),
            *(
                Request("/rerank", {"query": QUERY, "documents": ["a", "b", "c"], "top_n": top_n})
                for top_n in (0, 2, 9, "2", None, 1.7, True)
            ),
            Request("/rerank", {"query": QUERY, "documents": ["a"], "texts": ["b"], "return_text": "yes"}),
            Request("/rerank", {"query": QUERY, "documents": [1], "texts": ["b"], "model": "mine"}),
            *(Request("/rerank", body) for body in _BAD_RERANK),
            Request("/completion", _COMPLETION),
            _SLOTS,
        ],
    ),
}
"""For each session the flags beside `-m` and `-t 2`, and what is asked, one request after the other."""


def shown(path: str, body: Any) -> Any:
    """An answer as it is recorded: vectors as digests of their 32-bit floats, no receipt and no number of a task (the
    reference numbers requests to look at the slot too), of a completion what follows from the flags."""
    if path == "/completion" and "error" not in body:
        kept = {name: body[name] for name in ("content", "tokens_cached", "tokens_evaluated")}
        return {**kept, "cache_n": body["timings"]["cache_n"]}
    return _shown(body)


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _vector(one) if name == "embedding" else _shown(one)
        for name, one in value.items()
        if name not in ("bankml_receipt", "id_task")
    }


def _vector(value: str | list[Any]) -> str:
    """`shape:digest` of an embedding."""
    floats = np.frombuffer(base64.b64decode(value), "<f4") if isinstance(value, str) else np.array(value, np.float32)
    shape = "x".join(map(str, floats.shape))
    return f"{shape}:{digest(floats)}"
