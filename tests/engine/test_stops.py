"""Stop strings cut the text where llama-server cuts it; whole characters only; every byte comes out once, in order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.stops import AnswerText, Release, as_text, cut_bytes, ends_in_partial_stop, find_stop

TEXTS = st.text(alphabet="ab\n .é€🙂\u0301", max_size=24)
WORDS = st.lists(st.text(alphabet="ab\n .é🙂", max_size=4), max_size=3)


@st.composite
def pieces(draw: st.DrawFn, texts: st.SearchStrategy[bytes]) -> list[bytes]:
    """Bytes cut anywhere, as tokens cut them: a character may come in several pieces, a piece may be empty."""
    data = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def push_all(answer: AnswerText, tokens: Sequence[bytes]) -> list[Release]:
    """Tokens pushed one by one until a stop string ends the answer."""
    releases = []
    for token in tokens:
        releases.append(answer.push(token))
        if releases[-1].word is not None:
            break
    return releases


@pytest.mark.parametrize(
    ("data", "cut"),
    [
        (b"", 0),
        (b"abc", 0),
        ("é".encode(), 0),
        ("é".encode()[:1], 1),
        ("€".encode()[:1], 1),
        ("€".encode()[:2], 2),
        ("🙂".encode()[:1], 1),
        ("🙂".encode()[:2], 2),
        ("🙂".encode()[:3], 3),
        ("a🙂".encode(), 0),
        (b"\x80", 0),  # a lone continuation byte waits for nothing
        (b"\xff", 0),
        (b"\xe2A", 2),  # judged by its leading byte alone, as the reference does
        (b"\xe2AB", 0),
        (b"\xf0\x9f\x99\x82\xf0", 1),
    ],
)
def test_cut_character_is_found_by_its_leading_byte(data: bytes, cut: int) -> None:
    assert cut_bytes(data) == cut
    assert cut_bytes(bytearray(data)) == cut


@given(TEXTS)
def test_whole_text_is_never_cut(text: str) -> None:
    assert cut_bytes(text.encode()) == 0


@given(TEXTS.filter(lambda text: len(text.encode()) > len(text)), st.data())
def test_text_cut_anywhere_splits_into_whole_characters_and_a_rest(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    some = encoded[: data.draw(st.integers(0, len(encoded)))]
    cut = cut_bytes(some)
    assert some[: len(some) - cut].decode() == as_text(some[: len(some) - cut])
    assert cut == len(some) - len(some.decode("utf-8", "ignore").encode())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x80", "\ufffd"),
        (b"a\xffb", "a\ufffdb"),
        (b"\xf0\x9f\x99", "\ufffd"),
        (b"\xe2A", "\ufffdA"),
        (b"\xe0\x80", "\ufffd\ufffd"),
    ],
)
def test_bytes_of_no_character_show_as_one_replacement_each_run(data: bytes, text: str) -> None:
    assert as_text(data) == text


@pytest.mark.parametrize(
    ("text", "words", "n_last", "found"),
    [
        (b"one two", [b"two"], 4, (4, b"two")),
        (b"one two", [b"three"], 4, None),
        (b"one two", [b"two", b"one"], 7, (0, b"one")),  # the first in the text, whatever its place in the list
        (b"aab", [b"ab", b"aab"], 1, (0, b"aab")),
        (b"ab", [b"ab", b"a"], 2, (0, b"ab")),  # at one place the first of the list
        (b"stop and on", [b"stop"], 3, None),  # too far back for the newest token to have completed it
        (b"abc", [b""], 2, (1, b"")),  # an empty one is where the newest token begins
        (b"", [b""], 0, (0, b"")),
    ],
)
def test_stop_string_is_searched_where_the_newest_token_can_have_completed_it(
    text: bytes, words: list[bytes], n_last: int, found: tuple[int, bytes] | None
) -> None:
    assert find_stop(text, words, n_last) == found


@pytest.mark.parametrize(
    ("text", "partial"), [(b"x", False), (b"x#", True), (b"x##", True), (b"x###", True), (b"###x", False), (b"", False)]
)
def test_beginning_of_a_stop_string_at_the_end_is_seen(text: bytes, partial: bool) -> None:
    assert ends_in_partial_stop(text, [b"", b"###"]) is partial


def test_text_that_may_become_a_stop_string_is_held_until_it_does_not() -> None:
    answer = AnswerText(["\n\nUser"])
    assert answer.push(b"Hi") == Release(b"Hi", whole=True)
    assert answer.push(b"\n") == Release(b"", whole=True)
    assert answer.push(b"\nUse") == Release(b"", whole=True)
    assert answer.held == b"\n\nUse"
    assert answer.push(b"ful") == Release(b"\n\nUseful", whole=True)
    assert answer.held == b""


def test_end_token_releases_what_was_held() -> None:
    answer = AnswerText(["##"])
    assert answer.push(b"a#") == Release(b"", whole=True)
    assert answer.push(b"", ends=True) == Release(b"a#", whole=True)


def test_stop_string_is_cut_off_with_all_that_follows() -> None:
    answer = AnswerText(["STOP"])
    assert answer.push(b"go S") == Release(b"", whole=True)
    assert answer.push(b"TOP and more") == Release(b"go ", whole=True, word="STOP")
    assert answer.data == b"go "


def test_stop_string_inside_one_token_ends_the_answer_even_with_an_end_token() -> None:
    assert AnswerText(["b"]).push(b"abc", ends=True) == Release(b"a", whole=True, word="b")


def test_cut_character_holds_back_the_text_before_it_too() -> None:
    answer = AnswerText()
    assert answer.push(b"ok \xf0\x9f") == Release(b"", whole=False)
    assert answer.push(b"\x99") == Release(b"", whole=False)
    assert answer.push(b"\x82!") == Release("ok 🙂!".encode(), whole=True)


def test_stop_string_before_a_cut_character_is_not_seen_again() -> None:
    # llama-server looks only where the newest token reaches, so this one passes
    answer = AnswerText(["STOP"])
    tokens = [b"STOP \xf0", b"\x9f", b"\x99", b"\x82"]
    assert [answer.push(token).data for token in tokens] == [b"", b"", b"", "STOP 🙂".encode()]


def test_cut_at_takes_back_text_sent_or_not() -> None:
    answer = AnswerText()
    answer.push(b"one\n  two")
    answer.cut_at(6)
    assert (answer.data, answer.held) == (b"one\n  ", b"")
    assert answer.push(b"x") == Release(b"x", whole=True)


@given(pieces(st.binary(max_size=24)))
def test_without_stop_strings_every_byte_comes_out_once_in_order(tokens: list[bytes]) -> None:
    answer = AnswerText()
    released = b"".join(release.data for release in push_all(answer, tokens))
    assert released + answer.held == b"".join(tokens) == answer.data
    assert bool(answer.held) == bool(cut_bytes(answer.data))


@given(pieces(TEXTS.map(str.encode)), WORDS.filter(lambda words: "" not in words))
def test_released_text_is_what_precedes_the_stop_string(tokens: list[bytes], words: list[str]) -> None:
    answer = AnswerText(words)
    releases = push_all(answer, tokens)
    released = b"".join(release.data for release in releases)
    assert released + answer.held == answer.data
    assert b"".join(tokens).startswith(answer.data)
    assert released == released.decode().encode()  # whole characters only
    word = releases[-1].word
    if word is not None:
        assert word in words
        pushed = b"".join(tokens[: len(releases)])
        assert pushed[len(answer.data) :].startswith(word.encode())


@given(pieces(TEXTS.map(str.encode)), WORDS)
def test_every_release_is_the_references(tokens: list[bytes], words: list[str]) -> None:
    """Against llama-server's process_token told in full: it keeps the whole text and looks at it anew each time."""
    answer, whole, n_sent = AnswerText(words), b"", 0
    encoded = [word.encode() for word in words]
    for token in tokens:
        whole += token
        release = answer.push(token)
        if cut_bytes(whole):
            assert release == Release(b"", whole=False)
            continue
        unsent = whole[n_sent:]
        stop = find_stop(unsent, encoded, len(token))
        if stop is not None:
            assert release == Release(unsent[: stop[0]], whole=True, word=stop[1].decode())
            return
        if ends_in_partial_stop(unsent, encoded):
            assert release == Release(b"", whole=True)
            continue
        assert release == Release(unsent, whole=True)
        n_sent = len(whole)
