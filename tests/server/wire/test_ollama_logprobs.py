"""server/wire/ollama_logprobs.py: the tokens of an Ollama answer with their probabilities, when their text is sent."""

from __future__ import annotations

from collections.abc import Sequence

from engine.generation import Final, Shown, Step, StopType
from engine.timings import Timings
from server.wire.ollama_logprobs import Logprobs

PIECES = {1: b"Hi", 2: b" you", 3: b"\xf0\x9f", 4: b"\x99\x82", 5: b"", 6: b" there"}


def shown(token: int, *best: int) -> Shown:
    return Shown(token, b"whatever was released", 0.5, -token / 2, tuple(Shown(b, PIECES[b], 0.1, -b) for b in best))


def step(token: int, text: str, one: Shown | None = None, final: Final | None = None) -> Step:
    return Step(text, token, one is not None, 1, Timings(), final, one)


def run(n_best: int, *steps: Step) -> list[list[str]]:
    logprobs = Logprobs(n_best, PIECES.__getitem__)
    return [[token["token"] for token in logprobs.push(each)] for each in steps]


def final(stop_type: StopType, tokens: Sequence[Shown] = ()) -> Final:
    return Final(stop_type, shown=list(tokens))


def test_a_token_goes_out_with_its_text() -> None:
    assert run(0, step(1, "Hi", shown(1)), step(2, " you", shown(2), final("limit"))) == [["Hi"], [" you"]]


def test_a_tokens_object_is_that_of_ollama() -> None:
    [token] = Logprobs(2, PIECES.__getitem__).push(step(1, "Hi", shown(1, 2, 3, 4)))
    assert token == {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": [72, 105],
        "top_logprobs": [
            {"token": " you", "logprob": -2, "bytes": [32, 121, 111, 117]},
            {"token": "\ufffd\ufffd", "logprob": -3, "bytes": [0xF0, 0x9F]},
        ],
    }
    assert list(token) == ["token", "logprob", "bytes", "top_logprobs"]


def test_top_logprobs_are_shown_when_asked_for_and_bytes_when_there_are_some() -> None:
    assert Logprobs(0, PIECES.__getitem__).push(step(1, "Hi", shown(1, 2))) == [
        {"token": "Hi", "logprob": -0.5, "bytes": [72, 105]}
    ]
    [token] = Logprobs(1, PIECES.__getitem__).push(step(1, "Hi", shown(1, 5)))
    assert token["top_logprobs"] == [{"token": "", "logprob": -5}]


def test_the_tokens_of_one_character_stand_together() -> None:
    logprobs = Logprobs(0, PIECES.__getitem__)
    assert logprobs.push(step(3, "")) == []
    [token] = logprobs.push(step(4, "🙂", shown(4)))
    assert token == {"token": "🙂", "logprob": -2.0, "bytes": [0xF0, 0x9F, 0x99, 0x82]}


def test_what_a_stop_string_holds_back_goes_out_with_the_text_that_follows() -> None:
    held = step(1, "", shown(1))
    assert run(0, held, step(2, "Hi you", shown(2))) == [[], ["Hi", " you"]]
    assert run(0, held, step(2, "", shown(2), final("limit"))) == [[], ["Hi", " you"]]


def test_the_tokens_of_a_stop_string_are_left_out() -> None:
    tokens = [shown(1), shown(2), shown(6)]
    steps = step(1, "Hi", tokens[0]), step(2, "", tokens[1]), step(6, "", tokens[2], final("word", tokens[:1]))
    assert run(0, *steps) == [["Hi"], [], []]
    steps = step(1, "Hi", tokens[0]), step(2, "", tokens[1]), step(6, "", tokens[2], final("word"))
    assert run(0, *steps) == [["Hi"], [], []]


def test_the_token_that_ends_the_answer_is_left_out() -> None:
    tokens = [shown(1), shown(5)]
    assert run(0, step(1, "", tokens[0]), step(5, "", tokens[1], final("eos", tokens))) == [[], ["Hi"]]
