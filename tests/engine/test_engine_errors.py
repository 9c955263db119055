"""What errors say of a model file."""

from __future__ import annotations

from engine.errors import one_line


def test_what_a_file_says_becomes_one_printable_line() -> None:
    assert one_line("a name\n  of\ttwo\x1b[31m lines\r\n") == "a name of\\ttwo\\x1b[31m lines"


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    digits = "".join(str(n % 10) for n in range(3000))
    assert one_line(digits) == f"{digits[:750]} ... {digits[-200:]}"
    assert one_line(digits[:1000]) == digits[:1000]


def test_of_megabytes_only_what_is_shown_is_made_printable() -> None:
    assert one_line("9" * 10_000_000 + "\0") == f"{'9' * 750} ... {'9' * 196}\\x00"
