"""Requests to a server with a SentencePiece model, and the model: how spaces, bytes and special tokens of such a
vocabulary come through the endpoints.

`python -m testing.oracles.record_http --sentencepiece` asks the reference. The model has seeded weights, so its texts
are nonsense with everything in them: pieces that begin with a space, bytes of characters that never become whole,
tokens that are not shown.
"""

from __future__ import annotations

from typing import Any, Final

from engine.gguf import GGMLType
from testing.gguf_writer import ModelFile
from testing.oracles import vocabularies
from testing.oracles.http_shapes import Exchange
from testing.oracles.small_models import SmallModel

TEMPLATE: Final = (
    "{{ bos_token }}{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] }}"
    "{{ '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant' }}{% endif %}"
)
TEXTS: Final = (
    "",
    " ",
    "Hello world",
    " two  spaces   before",
    "line\nbreak\ttab",
    "naïve 漢字 👍🏽 \u0301 \x00",
    "<s>a</s> b<|im_start|> c<tool> d    e\n\n\nf",
    "▁a ▁ b",
    "<0x0A> <unk> <pad> <mask>|>",
)


def byte(value: int) -> int:
    """The token of a byte."""
    return len(vocabularies.SPECIALS) + value


def model() -> ModelFile:
    """A seeded Llama with the SentencePiece vocabulary of `vocabularies`."""
    words = vocabularies.sentencepiece() | {"tokenizer.chat_template": TEMPLATE, "general.file_type": 7}
    shape = SmallModel("llama-sentencepiece", "llama", (4, 2, 32), (GGMLType.Q8_0,), n_embd=128, n_ctx_train=512)
    return shape.file(words)


def _post(path: str, name: str, **body: Any) -> Exchange:
    return Exchange(f"{path}: {name}", "POST", path, body)


def _tokenize() -> list[Exchange]:
    ways = {"as it is": {}, "with its ends": {"add_special": True}, "as plain text": {"parse_special": False}}
    return [
        _post("/tokenize", f"{text!r} {name}", content=text, with_pieces=True, **way)
        for text in TEXTS
        for name, way in ways.items()
    ] + [_post("/tokenize", "mixed", content=["a", 1, " b", 2, "c"], add_special=True)]


def _detokenize() -> list[Exchange]:
    lists = {
        "nothing": [],
        "every special token": list(range(len(vocabularies.SPECIALS))),
        "bytes of a character": [byte(value) for value in "é👍".encode()],
        "bytes of none": [byte(value) for value in b"a\xc3b\xf0\x9f\xff"],
        "pieces": list(range(400, 440)),
        "a space first": [1, 300, 268 + 1, 268],
    }
    return [_post("/detokenize", name, tokens=tokens) for name, tokens in lists.items()]


def _completions() -> list[Exchange]:
    hot = {"temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "n_predict": 32}
    emoji = [[byte(value), 9.0] for value in "👍".encode()]
    exchanges = []
    for seed in range(4):
        for stream in (False, True):
            name = f"seed {seed}" + (", streamed" if stream else "")
            fields = {**hot, "seed": seed, "stream": stream, "return_tokens": True}
            exchanges.append(_post("/completion", name, prompt="Once upon a time", **fields))
            exchanges.append(_post("/completion", f"bytes, {name}", prompt=" é", logit_bias=emoji, **fields))
    greedy = {"temperature": 0, "n_predict": 12}
    return [
        *exchanges,
        _post("/completion", "special tokens in the prompt", prompt="<s>a<|im_start|>b </s>", **greedy),
        _post("/completion", "tokens and text", prompt=[1, "a", 300, " b"], **greedy),
        _post("/completion", "no prompt", prompt="", **greedy),
        _post("/completion", "space", prompt=" ", **greedy),
        _post("/completion", "bias by text", prompt="a", logit_bias=[[" the", 4.5], ["\n", 3]], **hot, seed=3),
        _post("/completion", "the end ignored", prompt="a", ignore_eos=True, **hot, seed=4),
        _post("/completion", "stop", prompt="a", stop=["e", "é"], **hot, seed=5),
        _post("/completion", "dry", prompt="a b a b a b", dry_multiplier=2.0, dry_base=3.0, **hot, seed=6),
        _post("/v1/completions", "whole", prompt="a b", temperature=0, max_tokens=8),
        _post("/v1/completions", "streamed", prompt="a b", temperature=0, max_tokens=8, stream=True),
    ]


def _chats() -> list[Exchange]:
    messages = [{"role": "user", "content": "Say hi <s>"}]
    chat = {"messages": messages, "temperature": 1.5, "top_k": 0, "min_p": 0.0, "seed": 7, "max_tokens": 24}
    return [
        _post("/apply-template", "one message", messages=messages),
        _post("/v1/chat/completions", "whole", **chat),
        _post("/v1/chat/completions", "streamed", **chat, stream=True),
    ]


EXCHANGES: Final = (
    Exchange("GET /props", "GET", "/props"),
    Exchange("GET /v1/models", "GET", "/v1/models"),
    *_tokenize(),
    *_detokenize(),
    *_completions(),
    *_chats(),
)
