"""Tables in Ollama's layout: padded columns with four spaces between, wrapped where a cell is long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.commands.tables import table


def test_each_column_is_as_wide_as_its_widest_cell() -> None:
    assert table([["model1", "abc", "1.0 KB"], ["m2", "defghi", "-"]], ["NAME", "ID", "SIZE"]) == (
        "NAME      ID        SIZE   \n"  # the heading ends in one space after its last column's width
        "model1    abc       1.0 KB    \n"
        "m2        defghi    -         \n"
    )


def test_without_rows_there_is_the_heading() -> None:
    assert table([], ["NAME", "ID"]) == "NAME    ID \n"


def test_a_row_may_be_shorter_than_another() -> None:
    assert table([["", "stop", "a", "b"], ["", "seed", "1"]]) == "    stop    a    b    \n    seed    1    \n"


def test_a_long_cell_is_wrapped_with_the_least_raggedness() -> None:
    # Filling each line would give `aaa bb`, `cc`, `ddddd`; an ended cell is two spaces, in a column of no width too.
    assert table([["", "aaa bb cc ddddd"]], limit=6) == (
        "    aaa      \n"  #
        "      bb cc    \n"
        "      ddddd    \n"
    )


def test_a_word_wider_than_the_limit_widens_its_column() -> None:
    assert table([["abcdefghij kl", "xyz"]], limit=4) == "abcdefghij    xyz    \nkl                   \n"


def test_wide_characters_take_two_columns() -> None:
    assert table([["模型", "x"], ["abcdef", "y"]]) == "模型      x    \nabcdef    y    \n"


@given(st.lists(st.text("ab \n", max_size=30), min_size=1, max_size=4), st.integers(1, 12))
def test_no_word_is_lost(cells: list[str], limit: int) -> None:
    assert sorted(table([cells], limit=limit).split()) == sorted(" ".join(cells).split())
