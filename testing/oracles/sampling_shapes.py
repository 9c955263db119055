"""Requests about sampling, to the endpoints that sample: values that are refused or bent, and probabilities in every
form. `python -m testing.oracles.record_http --sampling MODEL.gguf` asks the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from testing.oracles.http_shapes import EMOJI, Exchange

PROMPT: Final = "Once upon a time"
QUESTION: Final = [{"role": "user", "content": "Say hi."}]
SMILE: Final = [{"role": "user", "content": "Answer with one emoji: 😀 😃 😄 😁"}]
FLOATS: Final = (
    *("temperature", "dynatemp_range", "dynatemp_exponent", "top_p", "min_p", "top_n_sigma", "xtc_probability"),
    *("xtc_threshold", "typical_p", "repeat_penalty", "presence_penalty", "frequency_penalty", "dry_multiplier"),
    *("dry_base", "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay"),
)
INTEGERS: Final = (
    *("top_k", "repeat_last_n", "dry_allowed_length", "dry_penalty_last_n", "mirostat", "seed", "n_probs", "min_keep"),
)


def _native(name: str, **fields: Any) -> Exchange:
    body = {"prompt": PROMPT, "n_predict": 2, "temperature": 0, "seed": 1, **fields}
    return Exchange(f"completion: {name}", "POST", "/completion", body)


def _openai(name: str, **fields: Any) -> Exchange:
    body = {"prompt": PROMPT, "max_tokens": 2, "temperature": 0, "seed": 1, **fields}
    return Exchange(f"v1 completion: {name}", "POST", "/v1/completions", body)


def _chat(name: str, **fields: Any) -> Exchange:
    body = {"messages": QUESTION, "max_tokens": 2, "temperature": 0, "seed": 1, **fields}
    return Exchange(f"chat: {name}", "POST", "/v1/chat/completions", body)


def _of_another_type() -> Iterable[Exchange]:
    for field in (*FLOATS, *INTEGERS):
        yield _native(f"{field} is a text", **{field: "1"})
    for field in ("temperature", "top_k", "seed"):
        for value in ([1], {"value": 1}):
            yield _native(f"{field} is {type(value).__name__}", **{field: value})
    for field in ("ignore_eos", "post_sampling_probs"):
        yield _native(f"{field} is a number", **{field: 1})
        yield _native(f"{field} is a text", **{field: "true"})
    wrong: Mapping[str, Mapping[str, Any]] = {
        "samplers": {"a number": 5, "an object": {"a": 1}, "numbers": [1], "mixed": ["top_k", None]},
        "dry_sequence_breakers": {"a text": "\n", "numbers": [1], "mixed": ["a", 1], "an object": {"a": "b"}},
        "logit_bias": {"a text": "28", "a number": 28, "true": True, "numbers": [28, 1]},
    }
    for field, values in wrong.items():
        for name, value in values.items():
            yield _native(f"{field} is {name}", **{field: value})
    yield _chat("temperature is a text", temperature="1")
    yield _chat("logprobs is a text", logprobs="1")
    yield _chat("logprobs is an object", logprobs={})
    yield _chat("top_logprobs is an array", logprobs=True, top_logprobs=[1])
    yield _chat("seed is a text, streamed", seed="1", stream=True)
    yield _openai("top_p is a text", top_p="1")
    yield _openai("logprobs is a text", logprobs="1")
    yield _openai("logprobs is an array", logprobs=[1])
    yield _openai("presence_penalty is an array, streamed", presence_penalty=[], stream=True)


def _out_of_range() -> Iterable[Exchange]:
    outside: Mapping[str, tuple[float, ...]] = {
        "temperature": (-1, 1e39),
        "dynatemp_range": (-1, 1e39),
        "dynatemp_exponent": (-1e39,),
        "top_k": (-1, 2**31, 2**32 + 3),
        "top_p": (-0.5, 1.5),
        "min_p": (-0.5, 1.5),
        "top_n_sigma": (-3, 1e39),
        "xtc_probability": (-1, 2),
        "xtc_threshold": (-1, 2),
        "typical_p": (-1, 2),
        "repeat_last_n": (-1, -(2**31), 2**31),
        "repeat_penalty": (0, -1, 1e-39, 1e39, -1e39),
        "presence_penalty": (1e39, -1e39),
        "frequency_penalty": (1e39, -1e39),
        "dry_multiplier": (-1, 1e39),
        "dry_base": (0.5, 1e39),
        "dry_allowed_length": (-1, 2**31),
        "dry_penalty_last_n": (-1, 2**31),
        "mirostat": (-1, 3, 2.9),
        "mirostat_tau": (-1, 1e39),
        "mirostat_eta": (-1,),
        "adaptive_target": (2, -7),
        "adaptive_decay": (-0.1, 0.995, 1, 1e39),
        "seed": (-2, 2**32, 1.5),
        "n_probs": (-3, 2**31),
        "min_keep": (-1, 2**31),
    }
    for field, values in outside.items():
        for value in values:
            yield _native(f"{field} is {value!r}", **{field: value})
    for field in ("repeat_last_n", "repeat_penalty", "adaptive_decay"):
        yield _chat(f"{field} is -1", **{field: -1})
        yield _chat(f"{field} is -1, streamed", **{field: -1}, stream=True)
        yield _openai(f"{field} is -1", **{field: -1})
    for value in (-1, 21, 30):
        yield _chat(f"top_logprobs is {value}", logprobs=True, top_logprobs=value, max_tokens=1)


def _contradictory() -> Iterable[Exchange]:
    yield _native("probabilities of the draw, but how many", post_sampling_probs=True)
    yield _native("two names for how many", n_probs=1, logprobs=3)
    yield _native("top_logprobs is not a name here", top_logprobs=2)
    yield _native("Mirostat with an order", mirostat=2, samplers=["top_k"], temperature=0.8, seed=1, n_probs=1)
    yield _native("an order that names nothing", samplers=["nothing", "at", "all"], seed=1)
    yield _native("an order by letters that are none", samplers="?!", seed=1)
    yield _native("every end banned and one raised", ignore_eos=True, logit_bias=[[2, 100.0]])
    yield _native("biases that are no biases", logit_bias=[[1], [1, 2, 3], ["a"], [None, 1], [49152, 1], [-1, 1]])
    yield _native("biases by keys", logit_bias={"28": 2, " the": False, "49152": 1, "x": None})
    yield _native("a bias that forbids what it raises", logit_bias=[[28, 5], [28, False]])
    yield _native("adaptive_target without adaptive-p", adaptive_target=0.5, seed=1)
    yield _native("dry_base below one beside another", dry_base=0.5, dry_multiplier=0.8)
    yield _native("no breakers for DRY that is off", dry_multiplier=0, dry_sequence_breakers=[])
    yield _native("an empty breaker", dry_multiplier=0.8, dry_sequence_breakers=["", "a"])
    yield _native("what the infill sampler leaves", samplers="kit", seed=3, temperature=1, n_probs=2)
    yield _chat("top_logprobs with logprobs off", logprobs=False, top_logprobs=2, stream=True)
    yield _chat("top_logprobs and n_probs", logprobs=True, top_logprobs=2, n_probs=4)
    yield _chat("n_probs without logprobs", n_probs=2)
    yield _openai("n_probs and logprobs", n_probs=1, logprobs=3)
    yield _openai("logprobs is -1", logprobs=-1)


def _probabilities() -> Iterable[Exchange]:
    ways: Mapping[str, Mapping[str, Any]] = {
        "greedy": {},
        "seeded": {"temperature": 1.2, "seed": 11},
        "of the draw, seeded": {"temperature": 1.2, "seed": 12, "post_sampling_probs": True},
        "of the draw from all": {"temperature": 1.2, "seed": 13, "post_sampling_probs": True, "samplers": "t"},
    }
    for stream in (False, True):
        shape = ", streamed" if stream else ""
        for name, fields in ways.items():
            shared = {**fields, "stream": stream}
            smiling = EMOJI | {"n_predict": 10}
            yield _native(f"probabilities {name}{shape}", **shared, n_probs=4, n_predict=8)
            yield _native(f"probabilities {name}, cut characters{shape}", **smiling | shared, n_probs=3)
            stop = {"stop": [" a", "was", " of"], "n_predict": 16}
            yield _native(f"probabilities {name}, a stop{shape}", **stop, **shared, n_probs=2)
            yield _chat(f"probabilities {name}{shape}", **shared, logprobs=True, top_logprobs=4, max_tokens=8)
            yield _chat(
                f"probabilities {name}, cut characters{shape}",
                **{**shared, "messages": SMILE, "logprobs": True, "top_logprobs": 2, "max_tokens": 10},
            )
            yield _chat(
                f"probabilities {name}, a stop{shape}",
                **{**shared, "logprobs": True, "top_logprobs": 1, "max_tokens": 12, "stop": ["hi", " to", "!"]},
            )
            yield _openai(f"probabilities {name}{shape}", **shared, logprobs=2, max_tokens=8)
        yield _native(f"probabilities of one in all{shape}", n_probs=1, n_predict=3, stream=stream)
        yield _native(f"probabilities, fifty{shape}", n_probs=50, n_predict=2, stream=stream)
        yield _native(
            f"probabilities of the draw by adaptive-p{shape}",
            n_probs=3,
            n_predict=4,
            temperature=1,
            seed=5,
            samplers="ma",
            adaptive_target=0.4,
            post_sampling_probs=True,
            stream=stream,
        )
        yield _native(
            f"probabilities of the draw by Mirostat{shape}",
            n_probs=3,
            n_predict=4,
            temperature=1,
            seed=6,
            mirostat=1,
            post_sampling_probs=True,
            stream=stream,
        )
        yield _native(
            f"probabilities of what is biased{shape}",
            n_probs=3,
            n_predict=3,
            logit_bias=[[28, -100], [253, 4]],
            repeat_penalty=1.3,
            post_sampling_probs=True,
            stream=stream,
            temperature=1,
            seed=7,
        )


def _once(exchanges: Iterable[Exchange]) -> tuple[Exchange, ...]:
    return tuple({exchange.name: exchange for exchange in exchanges}.values())


EXCHANGES: Final = _once(
    (*_of_another_type(), *_out_of_range(), *_contradictory(), *_probabilities(), _native("and it still answers"))
)
