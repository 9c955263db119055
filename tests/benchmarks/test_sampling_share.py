"""What sampling takes of a token: the table, and which chains are held to the limit."""

from __future__ import annotations

from pathlib import Path

from benchmarks import sampling
from benchmarks.sampling import CHAINS, Share
from engine.sampling import DEFAULT_SAMPLERS, SamplingParams


def test_a_share_is_the_draw_of_draw_and_evaluation() -> None:
    assert Share(3.0, 97.0).percent == 3.0


def test_the_table_warns_of_a_chain_above_the_limit_that_is_held_to_it() -> None:
    held, free = CHAINS[0], next(chain for chain in CHAINS if chain.most_percent is None)
    lines = sampling.table({held.label: Share(40.0, 960.0), free.label: Share(500.0, 500.0)}).splitlines()
    assert [cell.strip() for cell in lines[2].strip("|").split("|")] == [held.label, "40", "960", "4.0 %"]
    assert lines[4:] == [f"Warning: {held.label} takes 4.0 % of a token, more than 3 %."]
    assert len({len(line) for line in lines[:4]}) == 1


def test_the_chain_with_every_sampler_leaves_none_at_its_neutral_value() -> None:
    every = next(chain.params for chain in CHAINS if chain.label == "every sampler on")
    neutral = {"top_p": 1.0, "min_p": 0.0, "typical_p": 1.0, "top_n_sigma": -1.0, "xtc_probability": 0.0, "top_k": 0}
    neutral |= {"repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "dry_multiplier": 0.0}
    neutral |= {"dynatemp_range": 0.0, "temperature": 1.0}
    assert every.samplers == DEFAULT_SAMPLERS
    assert every.logit_bias
    assert all(getattr(every, name) != value for name, value in neutral.items())


def test_every_chain_is_measured(model_path: Path) -> None:
    shares = sampling.measure(model_path, threads=2, n_tokens=3)
    assert list(shares) == [chain.label for chain in CHAINS]
    assert all(share.sample_us > 0 and share.evaluate_us > 0 for share in shares.values())
    assert SamplingParams(seed=1) in [chain.params for chain in CHAINS]
