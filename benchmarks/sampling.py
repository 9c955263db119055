"""What sampling takes of the time of a token: the engine alone, in this process, each chain over the same text.

Of each token the clock is read before the draw, after it was accepted, and after the token was evaluated; the share is
that of the draws in the sum of both: by medians, and by means where a grammar makes few draws dear.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import fmean, median

from engine.grammar import GrammarParams
from engine.model import Model, ModelOptions
from engine.sampling import DEFAULT_SAMPLERS, Sampler, SamplingParams
from testing.oracles import prompts
from testing.oracles.constrained_cases import JSON

MOST_PERCENT, MOST_PERCENT_WITH_GRAMMAR = 3.0, 10.0
"""What sampling may take of a token, but with the chains that `CHAINS` does not hold to it."""
N_PROMPT = 128
_EVERY = SamplingParams(
    seed=1,
    temperature=0.9,
    dynatemp_range=0.2,
    top_k=60,
    top_p=0.97,
    min_p=0.01,
    typical_p=0.98,
    top_n_sigma=3.0,
    xtc_probability=0.3,
    xtc_threshold=0.1,
    repeat_penalty=1.1,
    presence_penalty=0.1,
    frequency_penalty=0.1,
    dry_multiplier=0.8,
    dry_allowed_length=1,
    logit_bias=((28, -1.0),),
)


@dataclass(frozen=True, slots=True)
class Chain:
    """A row of the table.

    Attributes:
        label: what it is called.
        params: the sampling parameters.
        most_percent: what it may take of a token; None for what it takes.
    """

    label: str
    params: SamplingParams
    most_percent: float | None = MOST_PERCENT


CHAINS = (
    Chain("greedy", SamplingParams(temperature=0.0)),
    Chain("default chain", SamplingParams(seed=1)),
    Chain("every sampler on", _EVERY),
    Chain(
        "every sampler on, infill and adaptive-p too",
        replace(_EVERY, samplers=(*DEFAULT_SAMPLERS, "infill", "adaptive_p"), adaptive_target=0.5),
    ),
    Chain("Mirostat 2, which sorts the whole vocabulary", SamplingParams(seed=1, mirostat=2), most_percent=None),
    Chain(
        "default chain, JSON by a grammar",
        SamplingParams(seed=1, grammar=GrammarParams(JSON)),
        most_percent=MOST_PERCENT_WITH_GRAMMAR,
    ),
)


@dataclass(frozen=True, slots=True)
class Share:
    """Microseconds a token: its draw, its evaluation."""

    sample_us: float
    evaluate_us: float

    @property
    def percent(self) -> float:
        return 100 * self.sample_us / (self.sample_us + self.evaluate_us)


def measure(path: Path, *, threads: int, n_tokens: int) -> dict[str, Share]:
    """Each chain's share.

    Args:
        path: the model file.
        threads: `-t`.
        n_tokens: drawn with each chain after a prompt of 128.
    """
    options = ModelOptions(n_ctx=N_PROMPT + n_tokens + 1, n_threads=threads)
    with closing(Model.open(path, options)) as model:
        prompt = model.tokenizer.encode(" ".join(islice(prompts.passage(), 40)))[:N_PROMPT]
        return {chain.label: _share(model, chain.params, prompt, n_tokens) for chain in CHAINS}


def _share(model: Model, params: SamplingParams, prompt: list[int], n_tokens: int) -> Share:
    sampler = Sampler(params, model.tokenizer)
    sampler.accept_many(prompt)
    model.evaluate(prompt, 0, output=True)
    average = fmean if params.grammar.text else median
    drawn, evaluated = [], []
    for position in range(len(prompt), len(prompt) + n_tokens):
        started = time.perf_counter_ns()
        token = sampler.sample(model.logits)
        sampler.accept(token)
        between = time.perf_counter_ns()
        model.evaluate((token,), position, output=True)
        drawn.append(between - started)
        evaluated.append(time.perf_counter_ns() - between)
        if params.grammar.text and model.tokenizer.is_eog(token):
            sampler = Sampler(params, model.tokenizer)  # and on with another value
    return Share(average(drawn) / 1e3, average(evaluated) / 1e3)


def table(shares: Mapping[str, Share]) -> str:
    """The shares as a Markdown table, and a line for each chain that takes more than it may."""
    rows = [["sampling's share of a token", "draw, us", "evaluation, us", "share"]]
    rows += [
        [label, f"{share.sample_us:.0f}", f"{share.evaluate_us:.0f}", f"{share.percent:.1f} %"]
        for label, share in shares.items()
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    rows.insert(1, ["-" * width for width in widths])
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    most = {chain.label: chain.most_percent for chain in CHAINS}
    lines += [
        f"Warning: {label} takes {share.percent:.1f} % of a token, more than {most[label]:g} %."
        for label, share in shares.items()
        if (limit := most[label]) is not None and share.percent > limit
    ]
    return "\n".join(lines)
