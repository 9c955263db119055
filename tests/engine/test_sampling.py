"""The sampler chain draws what the reference's compiled chain drew; parameters resolve and are refused as it does."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.dry import dry_breakers
from engine.errors import InvalidRequest
from engine.gguf import GGUFFile
from engine.infill import infill_vocabulary
from engine.kernels import _kernels
from engine.sampling import DEFAULT_SAMPLERS, RANDOM_SEED, Sampler, SamplingParams, f32, native_params
from engine.tokenizer import Tokenizer
from testing.oracles.record_sampler import RECORD, dry_case
from testing.oracles.sampler_cases import CASES, SamplerCase, digest, logits

ORACLE = json.loads(RECORD.read_text(encoding="utf-8"))
GREEDY = [case for case in CASES if case.params.get("temperature") == 0.0]
SEED = 42


class Words:
    """A vocabulary of `n_vocab` one-word tokens, 0 and 2 of which end an answer."""

    def __init__(self, n_vocab: int = 100) -> None:
        self.n_vocab = n_vocab
        self.eog = frozenset({0, 2})
        self.eos: int | None = 2
        self.eot: int | None = None

    def is_eog(self, token: int) -> bool:
        return token in self.eog

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return f" {token}".encode()

    def detokenize(self, tokens: Sequence[int], *, special: bool = True) -> bytes:
        return b"".join(self.piece(token) for token in tokens)

    def encode(self, text: str, *, add_special: bool = True, parse_special: bool = True) -> list[int]:
        return [int(word) for word in text.split()]


class FirstTokens:
    """The first `n_vocab` tokens of a vocabulary."""

    def __init__(self, whole: Tokenizer, n_vocab: int) -> None:
        self.n_vocab, self.piece = n_vocab, whole.piece
        self.eos, self.eot, self.eog = whole.eos, whole.eot, whole.eog


def chain_of(
    case: SamplerCase,
    tokenizer: Tokenizer,
    *,
    keep_candidates: bool,
    breakers: list[tuple[int, list[int]]] | None = None,
) -> _kernels.SamplerChain:
    params = SamplingParams(**{"seed": SEED, **case.params})
    if breakers is None:
        breakers = [(head, list(tail)) for head, *tail in case.breakers]
    infill = infill_vocabulary(FirstTokens(tokenizer, case.n_vocab)) if "infill" in params.samplers else None
    return _kernels.SamplerChain(
        native_params(params, params.seed), case.n_vocab, list(case.bias), breakers, keep_candidates, infill
    )


def draws(case: SamplerCase, chain: _kernels.SamplerChain, n_steps: int, *, candidates: bool = True) -> list[list[Any]]:
    found: list[list[Any]] = []
    chain.accept_many(case.prompt)
    for step in range(n_steps):
        token = chain.sample(logits(case.rows, case.n_vocab, case.row_seed, step))
        chain.accept(token)
        left = chain.candidates() if candidates else []
        found.append([token, len(left), digest(left)])
    return found


@pytest.fixture(scope="module")
def tokenizer(model_path: Path) -> Tokenizer:
    return Tokenizer.from_gguf(GGUFFile.open(model_path).metadata)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_draw_and_candidates_are_the_references_bit_for_bit(case: SamplerCase, tokenizer: Tokenizer) -> None:
    expected = ORACLE["cases"][case.name]
    assert draws(case, chain_of(case, tokenizer, keep_candidates=True), len(expected)) == expected


@pytest.mark.parametrize("case", GREEDY, ids=[case.name for case in GREEDY])
def test_shortcut_for_greedy_changes_no_token(case: SamplerCase, tokenizer: Tokenizer) -> None:
    expected = ORACLE["cases"][case.name]
    found = draws(case, chain_of(case, tokenizer, keep_candidates=False), len(expected), candidates=False)
    assert [token for token, _, _ in found] == [token for token, _, _ in expected]


@pytest.mark.parametrize("number", range(len(ORACLE["words"])))
def test_dry_reads_its_breakers_out_of_the_real_vocabulary(number: int, tokenizer: Tokenizer) -> None:
    record = ORACLE["words"][number]
    case = dry_case(number, record["prompt"])
    breakers = dry_breakers(tokenizer, tuple(record["words"]))
    chain = chain_of(case, tokenizer, keep_candidates=True, breakers=breakers)
    assert draws(case, chain, len(record["draws"])) == record["draws"]


def test_same_seed_draws_the_same_tokens() -> None:
    row = logits("fine", 100, 1, 0)
    params = SamplingParams(seed=7, temperature=2.0)
    first, second = Sampler(params, Words()), Sampler(params, Words())
    assert [first.sample(row) for _ in range(50)] == [second.sample(row) for _ in range(50)]
    assert first.seed == 7


def test_seed_minus_one_draws_a_seed_and_tells_it() -> None:
    params = SamplingParams.from_request({"seed": -1, "temperature": 2.0}, SamplingParams(), Words())
    sampler = Sampler(params, Words())
    assert params.seed == RANDOM_SEED
    assert sampler.seed != Sampler(params, Words()).seed
    row = logits("fine", 100, 1, 0)
    again = Sampler(SamplingParams(seed=sampler.seed, temperature=2.0), Words())
    assert [sampler.sample(row) for _ in range(20)] == [again.sample(row) for _ in range(20)]


def test_logits_are_left_alone() -> None:
    row = logits("fine", 100, 1, 0)
    before = row.copy()
    sampler = Sampler(SamplingParams(top_n_sigma=1.0, repeat_penalty=1.5, logit_bias=((3, 5.0),)), Words())
    sampler.accept_many([1, 2, 3])
    sampler.sample(row)
    assert np.array_equal(row, before)


def test_suppressed_tokens_are_never_drawn() -> None:
    row = logits("peaked", 100, 1, 0)
    best = int(np.argmax(row))
    assert Sampler(SamplingParams(temperature=0.0), Words()).sample(row) == best
    assert Sampler(SamplingParams(temperature=0.0, suppress_tokens=(best,)), Words()).sample(row) != best


def test_row_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="n_vocab"):
        Sampler(SamplingParams(), Words(100)).sample(logits("fine", 99, 1, 0))


@pytest.mark.parametrize("token", [-1, 100])
def test_token_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(IndexError):
        Sampler(SamplingParams(), Words(100)).accept(token)
    with pytest.raises(IndexError):
        _kernels.SamplerChain(_kernels.SamplerParams(), 100, [(token, 1.0)], [], False)


@pytest.mark.parametrize("token", [-1, 100])
def test_a_bias_of_a_token_outside_the_vocabulary_changes_nothing(token: int) -> None:
    row = logits("fine", 100, 1, 0)
    with_bias = Sampler(SamplingParams(logit_bias=((token, 50.0),), seed=1), Words(100), keep_candidates=True)
    without = Sampler(SamplingParams(seed=1), Words(100), keep_candidates=True)
    assert with_bias.sample(row) == without.sample(row)
    assert with_bias.candidates() == without.candidates()


# --- infill -------------------------------------------------------------------------------------------------------

INFILL = SamplingParams(samplers=("infill",), seed=1)


@pytest.mark.parametrize(("eot", "end"), [(None, 2), (7, 7)])
def test_infill_ends_with_the_end_of_a_turn_or_else_of_a_text(eot: int | None, end: int) -> None:
    words = Words()
    words.eot = eot
    assert Sampler(INFILL, words).sample(np.zeros(100, np.float32) - np.array([9, 0, 9] + [0] * 97, np.float32)) == end


def test_infill_without_a_token_that_ends_an_answer_is_refused() -> None:
    words = Words()
    words.eos = None
    with pytest.raises(InvalidRequest, match="infill"):
        Sampler(INFILL, words)
    assert Sampler(SamplingParams(mirostat=1, samplers=("infill",)), words).sample(logits("fine", 100, 1, 0)) >= 0


def test_infill_needs_the_whole_vocabulary_it_draws_from() -> None:
    native = native_params(INFILL, 1)
    with pytest.raises(ValueError, match="vocabulary"):
        _kernels.SamplerChain(native, 100, [], [], False)
    with pytest.raises(ValueError, match="vocabulary"):
        _kernels.SamplerChain(native, 100, [], [], False, infill_vocabulary(Words(99)))
    with pytest.raises(IndexError):
        _kernels.InfillVocabulary([b"a"], [1], 0)
    with pytest.raises(IndexError):
        _kernels.InfillVocabulary([b"a"], [0], 1)


# --- parameters ---------------------------------------------------------------------------------------------------


def resolve(**fields: Any) -> SamplingParams:
    return SamplingParams.from_request(fields, SamplingParams(), Words())


def test_absent_and_null_fields_keep_the_defaults() -> None:
    assert resolve(top_k=None, temperature=None, seed=None, prompt="x") == SamplingParams()


def test_floats_are_rounded_to_32_bits() -> None:
    assert resolve(temperature=0.7).temperature == f32(0.7) != 0.7
    assert SamplingParams().top_p == f32(0.95)


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("top_k", -5, 0),
        ("top_p", 1.5, 1.0),
        ("top_p", -1, 0.0),
        ("min_p", 2, 1.0),
        ("xtc_probability", 7, 1.0),
        ("xtc_threshold", -7, 0.0),
        ("temperature", -1, 0.0),
        ("temperature", 1e39, math.inf),
        ("adaptive_target", 4, 1.0),
        ("typical_p", 3, 3.0),
        ("top_n_sigma", 1e39, (2 - 2**-23) * 2.0**127),
        ("seed", -2, 2**32 - 2),
        ("dry_base", 0.5, 1.75),
        ("dry_base", 1, 1.0),
    ],
)
def test_soft_limits_clamp(field: str, given: float, kept: float) -> None:
    assert getattr(resolve(**{field: given}), field) == kept


@pytest.mark.parametrize(
    ("field", "given", "message"),
    [
        (
            "repeat_last_n",
            -1,
            "Field 'repeat_last_n': Value must be between 0 <= value <= 2147483647, but got -1",
        ),
        (
            "dry_allowed_length",
            -1,
            "Field 'dry_allowed_length': Value must be between 0 <= value <= 2147483647, but got -1",
        ),
        (
            "dry_penalty_last_n",
            -2,
            "Field 'dry_penalty_last_n': Value must be between 0 <= value <= 2147483647, but got -2",
        ),
        ("min_keep", -1, "Field 'min_keep': Value must be between 0 <= value <= 2147483647, but got -1"),
        (
            "adaptive_decay",
            1,
            "Field 'adaptive_decay': Value must be between 0.000000 <= value <= 0.990000, but got 1.000000",
        ),
        ("repeat_penalty", 0, "Failed to initialize samplers: penalty_repeat must be finite and greater than 0"),
        ("repeat_penalty", -1, "Failed to initialize samplers: penalty_repeat must be finite and greater than 0"),
        ("repeat_penalty", 1e-39, "Failed to initialize samplers: penalty_repeat must be finite and greater than 0"),
        (
            "dry_sequence_breakers",
            [],
            "Field 'dry_sequence_breakers': Error: dry_sequence_breakers must be a non-empty array of strings",
        ),
    ],
)
def test_what_the_reference_refuses_is_refused_in_its_words(field: str, given: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        resolve(**{field: given})
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("backend_sampling", True),
    ],
)
def test_what_is_not_reproduced_is_refused_with_the_reason(field: str, given: Any) -> None:
    with pytest.raises(InvalidRequest, match="not supported"):
        resolve(**{field: given})


@pytest.mark.parametrize(
    "given",
    [
        list(DEFAULT_SAMPLERS),
        "edskypmxt",
        ["Penalties", "DRY", "top-n-sigma", "topk", "typ", "nucleus", "min-p", "xtc", "unknown", "temp"],
    ],
)
def test_default_order_of_samplers_is_taken_in_every_spelling(given: Any) -> None:
    assert resolve(samplers=given) == SamplingParams()


@pytest.mark.parametrize(
    ("given", "order"),
    [
        (["temp", "Top-K", "adaptive-p", "Infill", "unknown"], ("temperature", "top_k", "adaptive_p", "infill")),
        ("kti?k", ("top_k", "temperature", "infill", "top_k")),
        ([], ()),
    ],
)
def test_another_order_of_samplers_is_taken_by_name_and_by_letter(given: Any, order: tuple[str, ...]) -> None:
    assert resolve(samplers=given).samplers == order


def test_logit_bias_takes_both_forms_and_skips_what_it_cannot_read() -> None:
    pairs = resolve(logit_bias=[[5, 1.5], [6, False], ["7 8", -1], [9, True], [100, 1], [1], 3, [1.5, 2]])
    assert pairs.logit_bias == ((5, 1.5), (6, -math.inf), (7, -1.0), (8, -1.0))
    keyed = resolve(logit_bias={"5": 1.5, " 6": False, "": 2, "7 8": -1, "9": "x", "-3": 1, "101": 1})
    assert keyed.logit_bias == ((5, 1.5), (6, -math.inf), (0, 2.0), (7, -1.0), (8, -1.0))


def test_ignore_eos_bans_every_end_token_after_the_requests_biases() -> None:
    params = resolve(logit_bias=[[5, 1]], ignore_eos=True)
    assert params.ignore_eos
    assert params.logit_bias == ((5, 1.0), (0, -math.inf), (2, -math.inf))
    assert not resolve(ignore_eos=False).logit_bias


def test_requests_biases_replace_the_defaults() -> None:
    defaults = SamplingParams(logit_bias=((1, 1.0),))
    assert SamplingParams.from_request({"logit_bias": []}, defaults, Words()).logit_bias == ()
    assert SamplingParams.from_request({}, defaults, Words()).logit_bias == ((1, 1.0),)


def test_model_files_defaults_are_read_as_llama_cpp_prints_them() -> None:
    metadata = {
        "general.sampling.temp": np.float32(0.6).item(),
        "general.sampling.top_k": 20,
        "general.sampling.top_p": "0.9 or so",
        "general.sampling.penalty_last_n": 8.75,
        "general.sampling.min_p": "none",
        "general.sampling.penalty_repeat": 1.05,
        "general.sampling.sequence": "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature",
        "tokenizer.ggml.tokens": ["a", "b", "c"],
        "tokenizer.ggml.suppress_tokens": [1, 3, -1],
    }
    params = SamplingParams.from_metadata(metadata)
    assert params == SamplingParams(
        temperature=f32(0.6),
        top_k=20,
        top_p=f32(0.9),
        repeat_last_n=8,
        repeat_penalty=f32(1.05),
        suppress_tokens=(1,),
    )


def test_a_model_files_order_of_samplers_stands_until_a_request_names_one() -> None:
    defaults = SamplingParams.from_metadata({"general.sampling.sequence": "top_k;temperature"})
    assert SamplingParams.from_request({}, defaults, Words()).samplers == ("top_k", "temperature")
    named = SamplingParams.from_request({"samplers": list(DEFAULT_SAMPLERS)}, defaults, Words())
    assert named.samplers == DEFAULT_SAMPLERS


def test_models_defaults_stand_where_the_request_says_nothing(tokenizer: Tokenizer) -> None:
    defaults = SamplingParams(temperature=f32(0.6), dry_base=2.0)
    params = SamplingParams.from_request({"dry_base": 0.1, "top_k": 3}, defaults, tokenizer)
    assert params == SamplingParams(temperature=f32(0.6), dry_base=2.0, top_k=3)
