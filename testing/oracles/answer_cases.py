"""What every weight type is asked: drawn, constrained and explained answers, and how they are recorded."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping
from typing import Any
from typing import Final as Constant

from engine.errors import InvalidRequest
from engine.generation import Final, generate
from engine.model import Model
from server.wire.fields import parse_fields
from server.wire.llama import Defaults, build_job
from server.wire.openai_completions import COMPLETION_KNOWN
from testing.oracles.constrained_cases import JSON, PERSON

_PROMPT: Constant = "What is it that you said the other day, and to whom?"
REQUESTS: Constant[Mapping[str, Mapping[str, Any]]] = {
    "greedy": {"temperature": 0},
    "default": {"seed": 1},
    "whole row": {"seed": 2, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "temperature": 1.3},
    "every sampler": {
        "seed": 3,
        "repeat_penalty": 1.2,
        "presence_penalty": 0.3,
        "dry_multiplier": 0.8,
        "dry_allowed_length": 1,
        "top_n_sigma": 2.0,
        "top_k": 50,
        "typical_p": 0.9,
        "top_p": 0.9,
        "min_p": 0.02,
        "xtc_probability": 0.4,
        "xtc_threshold": 0.05,
        "dynatemp_range": 0.4,
        "temperature": 1.2,
        "min_keep": 2,
    },
    "order": {"seed": 4, "samplers": ["temperature", "top_p", "min_p"], "temperature": 1.5},
    "mirostat": {"seed": 5, "mirostat": 1},
    "mirostat 2": {"seed": 6, "mirostat": 2},
    "adaptive-p": {"seed": 7, "samplers": "kma", "adaptive_target": 0.5},
    "bias": {"seed": 8, "logit_bias": [[100, 3.0], ["e", False]], "ignore_eos": True},
    "probabilities": {"seed": 9, "n_probs": 5},
    "probabilities after": {"seed": 10, "n_probs": 5, "post_sampling_probs": True},
    "grammar": {"grammar": JSON, "temperature": 0},
    "grammar, drawn": {"grammar": JSON, "seed": 11, "temperature": 1.1},
    "grammar, characters": {"grammar": "root ::= [\u00e0-\u04ff]+ [^\\x00-\\x7f]+", "seed": 12, "n_probs": 3},
    "schema": {"json_schema": PERSON, "seed": 13},
    "lazy": {
        "grammar": 'root ::= [a-z] [a-z ]+ "."',
        "grammar_lazy": True,
        "seed": 14,
        "temperature": 1.2,
        "grammar_triggers": [{"type": 2, "value": "[a-z]"}],
    },
}


def request(options: Mapping[str, Any]) -> dict[str, Any]:
    """The whole request."""
    return {"prompt": _PROMPT, "n_predict": 24, "cache_prompt": False, **options}


def float_hash(best: Iterable[Iterable[tuple[int, float]]]) -> str:
    """A hash of the most likely tokens of each step with their 32-bit floats."""
    data = b"".join(struct.pack("<if", token, value) for step in best for token, value in step)
    return hashlib.sha256(data).hexdigest()[:16]


def answer(model: Model, name: str) -> dict[str, Any]:
    """The record of one of `REQUESTS`, by our own engine from an empty slot."""
    body = request(REQUESTS[name])
    prompt = model.tokenizer.encode(body["prompt"])
    asked = build_job(prompt, parse_fields(body, COMPLETION_KNOWN), model, Defaults({})).request
    try:
        final = [step.final for step in generate(model, asked, tokens=[], n_past=0)][-1]
    except InvalidRequest as error:
        return {"error": str(error)}
    assert isinstance(final, Final)
    found: dict[str, Any] = {"tokens": final.tokens, "stop_type": final.stop_type}
    if asked.sampling.n_probs:
        after = asked.post_sampling_probs
        found["best"] = float_hash(
            [(one.token, one.prob if after else one.logprob) for one in step.best] for step in final.shown
        )
    return found
