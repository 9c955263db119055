"""llama-server's endpoints as pure functions, with the real tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InvalidRequest
from engine.generation import Final, Step
from engine.model import Model, ModelOptions
from engine.timings import Timings
from engine.tokenizer import Tokenizer
from server.errors import BadRequest
from server.wire import llama
from server.wire.fields import parse_fields

NO_DEFAULTS = llama.Defaults({})


@pytest.fixture(scope="module")
def model(model_path: Path) -> Iterator[Model]:
    model = Model.open(model_path, ModelOptions(n_ctx=256, n_threads=1))
    yield model
    model.close()


@pytest.fixture
def tokenizer(model: Model) -> Tokenizer:
    return model.tokenizer


def final(**fields: Any) -> Final:
    return Final(**{"stop_type": "limit", "text": "abc", "tokens": [5, 6], "tokens_evaluated": 2, **fields})


def form(**body: Any) -> llama.Format:
    return llama.Format("m", parse_fields(body))


@pytest.mark.parametrize(
    ("prompt", "n_prompts"),
    [("a", 1), ([1, 2], 1), ([1, "a"], 1), (["a", "b"], 2), ([[1], "a", {"prompt_string": "b"}], 3), ([[]], 1)],
)
def test_a_list_without_token_ids_holds_several_prompts(tokenizer: Tokenizer, prompt: Any, n_prompts: int) -> None:
    assert len(llama.tokenize_prompts(tokenizer, prompt)) == n_prompts


def test_texts_and_token_ids_may_be_mixed(tokenizer: Tokenizer) -> None:
    a = tokenizer.encode("a")
    assert llama.tokenize_prompts(tokenizer, [7, "a", 8]) == [[7, *a, 8]]
    assert llama.tokenize_prompts(tokenizer, {"prompt_string": ["a", 8]}) == [[*a, 8]]


@pytest.mark.parametrize("prompt", [None, 5, 1.5, True, {}, {"x": 1}, [None], [1.5], [True], [{"x": 1}]])
def test_a_prompt_of_another_kind_is_refused(tokenizer: Tokenizer, prompt: Any) -> None:
    with pytest.raises(BadRequest, match='"prompt" elements must be'):
        llama.tokenize_prompts(tokenizer, prompt)


def test_no_prompt_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(BadRequest, match="must not be empty"):
        llama.tokenize_prompts(tokenizer, [])
    with pytest.raises(BadRequest, match="key 'prompt' not found"):
        llama.required_prompt({})


def test_the_request_beats_the_command_line_and_the_command_line_the_model(model: Model) -> None:
    defaults = llama.Defaults({"temperature": 0.5, "top_k": 7}, n_predict=9)
    job = llama.build_job([1], parse_fields({"top_k": 3}), model, defaults)
    sampling = job.request.sampling
    assert (sampling.temperature, sampling.top_k, job.request.n_predict) == (0.5, 3, 9)
    job = llama.build_job([1], parse_fields({"n_predict": 2, "cache_prompt": False}), model, defaults)
    assert (job.request.n_predict, job.cache_prompt) == (2, False)


def test_a_dry_base_below_one_is_the_default(model: Model) -> None:
    job = llama.build_job([1], parse_fields({"dry_base": 0.5}), model, NO_DEFAULTS)
    assert job.request.sampling.dry_base == 1.75


def test_a_partial_event_has_timings_only_when_asked_or_at_a_stop_string() -> None:
    step = Step("a", 5, True, 1, Timings())
    stopped = Step("a", 5, True, 1, Timings(), final(stop_type="word", stopping_word="x"))
    ended = Step("a", 5, True, 1, Timings(), final())
    assert "timings" not in llama.partial_event(0, step, 2, form())
    assert "timings" in llama.partial_event(0, step, 2, form(timings_per_token=True))
    assert "timings" in llama.partial_event(0, stopped, 2, form())
    assert "timings" not in llama.partial_event(0, ended, 2, form())


def test_a_streams_last_event_repeats_neither_text_nor_tokens(model: Model) -> None:
    fields = parse_fields({"stream": True, "return_tokens": True})
    job = llama.build_job([1], fields, model, NO_DEFAULTS)
    body = llama.final_body(0, final(), Timings(), job, model, llama.Format("m", fields))
    assert (body["content"], body["tokens"], body["stop"]) == ("", [], True)


def test_response_fields_choose_and_unnest(model: Model) -> None:
    fields = parse_fields({"response_fields": ["content", "timings/cache_n", "nothing", "content/deeper"]})
    job = llama.build_job([1], fields, model, NO_DEFAULTS)
    body = llama.final_body(0, final(), Timings(cache_n=3), job, model, llama.Format("m", fields))
    assert body == {"content": "abc", "timings/cache_n": 3}


def test_a_character_cut_off_is_u_fffd_in_a_whole_answer() -> None:
    assert llama.whole_text(final(cut=b"\xf0\x9f")) == "abc\ufffd"
    assert llama.whole_text(final(cut=b"\xe4*")) == "abc\ufffd*"  # no character, but its first byte wants two more
    assert llama.whole_text(final()) == "abc"


def test_tokens_and_text_go_back_and_forth(tokenizer: Tokenizer) -> None:
    tokens = llama.tokenize(tokenizer, {"content": "Hé 🦙 <|im_end|>"})["tokens"]
    assert llama.detokenize(tokenizer, {"tokens": tokens}) == {"content": "Hé 🦙 <|im_end|>"}


def test_pieces_that_are_not_text_are_bytes(tokenizer: Tokenizer) -> None:
    pieces = [item["piece"] for item in llama.tokenize(tokenizer, {"content": "a🦙", "with_pieces": True})["tokens"]]
    assert pieces[0] == "a"
    joined = b"".join(bytes(piece) for piece in pieces[1:] if isinstance(piece, list))
    assert joined.decode() == "🦙"


@pytest.mark.parametrize("tokens", [[99_999_999], [-1], [49_152]])
def test_tokens_outside_the_vocabulary_are_refused(tokenizer: Tokenizer, tokens: list[int]) -> None:
    with pytest.raises(InvalidRequest):
        llama.detokenize(tokenizer, {"tokens": tokens})


@pytest.mark.parametrize(("value", "name"), [([], "array"), (None, "null"), ("x", "string"), (5, "number")])
def test_a_body_that_is_no_object_is_refused(value: Any, name: str) -> None:
    with pytest.raises(BadRequest, match=rf"cannot use at\(\) with {name}"):
        llama.json_object(value)
