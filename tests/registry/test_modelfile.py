"""The Modelfile: what Ollama's parser reads, what it says of what it cannot, and that what is written is read back."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from registry.modelfile import Command, ModelfileError, parse, quote, write


def _of(text: str | bytes) -> list[tuple[str, str]]:
    return [(command.name, command.args) for command in parse(text)]


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("FROM llama3:7b-instruct-q4_K_M", ("model", "llama3:7b-instruct-q4_K_M")),
        ("from   two words   ", ("model", "two words")),
        ('FROM "  kept  "', ("model", "  kept  ")),
        ("FROM\ta # not a comment", ("model", "a # not a comment")),
        ("FROM /what/is/the path ", ("model", "/what/is/the path")),
        ("ADAPTER      a.gguf", ("adapter", "a.gguf")),
        ("DRAFT ./d", ("draft", "./d")),
        ('LICENSE "MIT       "', ("license", "MIT       ")),
        ("RENDERER r", ("renderer", "r")),
        ("PARSER p", ("parser", "p")),
        ("REQUIRES 0.14.0", ("requires", "0.14.0")),
        ("PARAMETER Stop <|im_end|>", ("Stop", "<|im_end|>")),
        ("parameter num_ctx      4096", ("num_ctx", "4096")),
        ("PARAMETER  two blanks", ("", "two blanks")),  # as Ollama: the second blank ends a name that is empty
        ("MESSAGE user Hey: there!", ("message", "user: Hey: there!")),
        ('MESSAGE assistant """\nYes,\n"I" do.\n"""', ("message", 'assistant: \nYes,\n"I" do.\n')),
        ('SYSTEM """one line"""', ("system", "one line")),
        ('SYSTEM """\nThis is\n\n  it.\n"""  ', ("system", "\nThis is\n\n  it.\n")),
        ('SYSTEM """a\nb"""\t', ("system", "a\nb")),
        ('SYSTEM "a\r\nb"', ("system", "a\r\nb")),
        ('SYSTEM """a "b"', ("system", None)),
        ('SYSTEM ""', ("system", "")),
        ('SYSTEM """"""', ("system", "")),
        ("SYSTEM ", ("system", "")),
        ('SYSTEM "\'"', ("system", "'")),
        ('SYSTEM """\'\'"\'""\'""\'"\'\'\'\'\'""\'""\'"""', ("system", "''\"'\"\"'\"\"'\"'''''\"\"'\"\"'")),
        ('SYSTEM say "hi"', ("system", 'say "hi"')),
        ('SYSTEM "a" b "c"', ("system", 'a" b "c')),
        ("SYSTEM 你好👋", ("system", "你好👋")),
        (
            "SYSTEM tab\tstays,\x07 what\u200b does\u00a0not print goes",
            ("system", "tab\tstays, what doesnot print goes"),
        ),
    ],
)
def test_an_instruction_is_read_as_ollama_reads_it(line: str, command: tuple[str, str | None]) -> None:
    for end in ("", "\n", "\r\n", "\nFROM z\n"):
        text = f"FROM x\n{line}{end}"
        if command[1] is None:
            with pytest.raises(ModelfileError, match=r"^unexpected EOF$"):
                parse(text)
        else:
            assert _of(text)[1] == command


def test_comments_and_blanks_stand_between_instructions() -> None:
    text = "\n# FROM y\n\t FROM x\r\n  # PARAMETER a 1\n\nPARAMETER b 2\n\t# the end"
    assert _of(text) == [("model", "x"), ("b", "2")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_says_how_it_is_encoded(encoding: str) -> None:
    assert _of("FROM test\n\tSYSTEM 你好👋".encode(encoding)) == [("model", "test"), ("system", "你好👋")]


def test_big_endian_utf16_and_bytes_that_are_no_text_are_read() -> None:
    assert _of(b"\xfe\xff" + "FROM x".encode("utf-16-be")) == [("model", "x")]
    assert _of(b"FROM a\xffb\xe2\x82c") == [("model", "a\ufffdb\ufffdc")]


_BAD = (
    'command must be one of "from", "license", "template", "system", "adapter", "draft", "renderer", "parser", '
    '"parameter", "message", or "requires"'
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no FROM line"),
        ("# FROM x", "no FROM line"),
        ("PARAMETER a 1", "no FROM line"),
        ("FROM x\nBADCOMMAND a b\n", f"(line 2): {_BAD}"),
        ("\nFROM x\n\nSYSTEM\n", f"(line 5): {_BAD}"),  # the newline that ends it is counted
        ("FROM x\r\nNO y", f"(line 3): {_BAD}"),  # and so is each half of a CRLF
        ('FROM x\n"quoted" y', f"(line 2): {_BAD}"),
        ("FROM", "unexpected EOF"),
        ("FROM x\nPARAMETER a\n", "unexpected EOF: a"),
        ("FROM x\nPARAMETER a-b 1", "unexpected EOF: a"),
        ("FROM x\nPARAMETER a", "unexpected EOF"),
        (
            "FROM x\nMESSAGE badguy I'm bad",
            '(line 2): message role must be one of "system", "user", or "assistant"',
        ),
        ("FROM x\nMESSAGE System a", '(line 2): message role must be one of "system", "user", or "assistant"'),
        ("FROM x\nMESSAGE system\n", "unexpected EOF: system"),
        ("FROM x\nMESSAGE system", "unexpected EOF"),
        ('FROM x\nSYSTEM "\n\t', "unexpected EOF"),
        ('FROM x\nSYSTEM """a""\n', "unexpected EOF"),
    ],
)
def test_what_cannot_be_read_is_refused_in_ollamas_words(text: str, reason: str) -> None:
    with pytest.raises(ModelfileError, match=f"^{re.escape(reason)}$"):
        parse(text)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain", "plain"),
        (' say "hi"', '""" say "hi""""'),
        (" edge ", '" edge "'),
        ("two\nlines", '"two\nlines"'),
        ('two\n"lines"', '"""two\n"lines""""'),
        ('"quoted"', '""""quoted""""'),  # Ollama writes it bare, and reads it back without its quotes
        ("tab\t", '"""tab\t"""'),
        ("cr\r", '"""cr\r"""'),
    ],
)
def test_a_value_gets_the_quotes_that_keep_it(value: str, written: str) -> None:
    assert quote(value) == written
    assert _of(f"FROM x\nSYSTEM {written}\n")[1] == ("system", value)


def test_each_instruction_is_written_under_its_name() -> None:
    commands = [
        Command("model", "x"),
        Command("system", "You are\nMario."),
        Command("temperature", "0.7"),
        Command("message", "user: Hi: you"),
    ]
    assert write(commands) == 'FROM x\nSYSTEM "You are\nMario."\nPARAMETER temperature 0.7\nMESSAGE user Hi: you\n'


_VALUE = st.text(alphabet=" \t\r\n\"'#ab:\u00e9\u200b\U0001f44b", max_size=24)


@given(
    names=st.lists(st.sampled_from(["system", "template", "license", "stop", "message"]), max_size=4),
    values=st.lists(_VALUE, min_size=4, max_size=4),
)
@example(names=["system"], values=['a"""\nb', "", "", ""])
def test_what_is_written_is_read_back(names: list[str], values: list[str]) -> None:
    """But for what no quotes keep: characters that do not print, and three quotes at a line's end."""
    commands = [Command("model", "x")]
    for name, text in zip(names, values, strict=False):
        value = re.sub(r'"""[ \t]*(?=[\r\n])', "'''", text.replace("\u200b", ""))
        commands.append(Command(name, f"user: {value}" if name == "message" else value))
    assert parse(write(commands)) == commands


@given(st.text(alphabet=' \t\r\n"#FROMSYTE:fromsyte\u200b', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        commands = parse(text)
    except ModelfileError:
        return
    assert any(command.name == "model" for command in commands)


def test_what_is_between_instructions_may_be_long_and_instructions_are_counted() -> None:
    assert parse("#\n \t\r\n" * 200_000 + "FROM a\n" + "\n#" * 200_000) == [Command("model", "a")]
    assert len(parse("FROM a\n" + "LICENSE b\n" * 9_999)) == 10_000
    with pytest.raises(ModelfileError, match="more than 10000 instructions are not supported"):
        parse("FROM a\n" + "LICENSE b\n" * 10_000)
