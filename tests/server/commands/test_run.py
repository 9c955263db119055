"""`bankml run`: the pure parts, and the command in pipes and in a terminal against a real server."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
import pytest

from server.commands.display import summary
from server.commands.talk import MessageLines
from testing.server_process import ServerProcess
from testing.terminal import COMMAND, PATIENCE, Terminal

Start = Callable[..., AbstractContextManager[ServerProcess]]


# -- pure ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["hello"], "hello"),
        ([""], ""),
        (['"""one"""'], "one"),
        (['"""one', "two", 'three"""'], "one\ntwo\nthree"),
        (['"""', "one", '"""'], "\none\n"),
        (['say """one"""'], 'say """one"""'),
    ],
)
def test_lines_become_messages(lines: list[str], message: str) -> None:
    reader = MessageLines()
    for line in lines[:-1]:
        assert reader.push(line) is None
        assert reader.open
    assert reader.push(lines[-1]) == message
    assert not reader.open


def test_an_unfinished_message_can_be_forgotten() -> None:
    reader = MessageLines()
    reader.push('"""one')
    reader.clear()
    assert reader.push("two") == "two"


def test_a_summary_counts_only_what_was_computed() -> None:
    measured = {
        "total_duration": 3_000_000_000,
        "load_duration": 1_000_000,
        "prompt_eval_count": 30,
        "bankml_cache_n": 10,
        "prompt_eval_duration": 100_000_000,
        "eval_count": 50,
        "eval_duration": 500_000_000,
    }
    assert summary(measured) == (
        "total duration:       3s\n"
        "load duration:        1ms\n"
        "prompt eval count:    30 token(s)\n"
        "prompt cached:        10 token(s)\n"
        "prompt eval duration: 100ms\n"
        "prompt eval rate:     200.00 tokens/s\n"
        "eval count:           50 token(s)\n"
        "eval duration:        500ms\n"
        "eval rate:            100.00 tokens/s"
    )


# -- in pipes --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(start_server: Start) -> Iterator[ServerProcess]:
    """A server whose answers are short unless a request says otherwise."""
    with start_server("-c", "2048", "-n", "24") as process:
        yield process


@pytest.fixture
def environment(server: ServerProcess) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not re.match("BANKML_|LLAMA_|OLLAMA_", name)}
    return {**kept, "OLLAMA_HOST": server.url, "TERM": "dumb", "PYTHONUTF8": "1"}


def run(environment: dict[str, str], *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, "run", *arguments], input=stdin, env=environment, capture_output=True, timeout=PATIENCE
    )


def greedy(server: ServerProcess, prompt: str, limit: int) -> str:
    """What the server answers to a prompt without randomness."""
    options = {"temperature": 0, "num_predict": limit}
    body = {"model": "smollm2", "prompt": prompt, "stream": False, "options": options}
    text: str = httpx.post(f"{server.url}/api/generate", json=body, timeout=PATIENCE).json()["response"]
    return text


def test_a_prompt_is_answered_by_the_server_that_runs(environment: dict[str, str]) -> None:
    done = run(environment, "smollm2", "Say hello.")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.strip()) > 0
    assert done.stdout.endswith(b"\n")


def test_what_is_piped_in_is_the_prompt(environment: dict[str, str]) -> None:
    done = run(environment, stdin=b"Say hello.\xff")
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.strip()) > 0


def test_without_anything_to_answer_the_model_is_loaded(environment: dict[str, str]) -> None:
    done = run(environment, "smollm2")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_unknown_model_is_one_line_and_exit_1(environment: dict[str, str]) -> None:
    done = run(environment, "nosuch", "Say hello.")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"Error: model 'nosuch:latest' not found\n")


@pytest.mark.parametrize("content", [None, b"", b"no model at all"])
def test_a_bad_model_file_is_one_line_and_exit_2(
    environment: dict[str, str], tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "bad.gguf"
    if content is not None:
        path.write_bytes(content)
    done = run(environment, str(path), "Say hello.")
    assert (done.returncode, done.stdout) == (2, b"")
    assert re.fullmatch(rb"bankml: .*bad\.gguf.*\n", done.stderr)


def test_a_model_file_is_served_by_the_command_itself(
    environment: dict[str, str], server: ServerProcess, model_path: Path
) -> None:
    flags = ("--temp", "0", "-n", "8")
    done = run(environment, *flags, str(model_path), "Say hello.")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == greedy(server, "Say hello.", 8) + "\n\n"


def test_with_the_model_as_a_flag_one_argument_is_the_prompt(
    environment: dict[str, str], server: ServerProcess, model_path: Path
) -> None:
    done = run(environment, "--temp", "0", "-n", "8", "-m", str(model_path), "Say hello.")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == greedy(server, "Say hello.", 8) + "\n\n"


def test_without_a_server_the_command_serves_the_model_itself(
    environment: dict[str, str], server: ServerProcess, model_path: Path
) -> None:
    # Nothing listens on port 1, and the model is named by a variable, as it is for a server.
    environment |= {"OLLAMA_HOST": "127.0.0.1:1", "BANKML_MODEL": str(model_path), "BANKML_N_PREDICT": "8"}
    done = run(environment, "--temp", "0", "smollm2", "Say hello.")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == greedy(server, "Say hello.", 8) + "\n\n"


def test_a_reader_who_leaves_is_no_error_worth_a_traceback(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*COMMAND, "run", "smollm2", "Count from 1 to 1000."],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.wait(PATIENCE) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


# -- in a terminal ---------------------------------------------------------------------------------------------------


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal(environment, "smollm2")
    terminal.until(">>> ")
    yield terminal
    terminal.close()


def test_a_talk_goes_on_until_bye(terminal: Terminal) -> None:
    terminal.type("/set parameter num_predict 5")
    terminal.until("Set parameter 'num_predict' to '5'")
    terminal.until(">>> ")
    for line in ("/set verbose", "/set parameter temperature 0"):
        terminal.type(line)
        terminal.until(">>> ")
    terminal.type('"""Say')
    terminal.until(r"\.\.\. ")
    terminal.type('hello."""')
    shown = terminal.until(">>> ")
    assert "eval count:           5 token" in shown
    terminal.type("And again?")
    again = terminal.until(">>> ")
    # The second question's prompt holds the first and its answer, which the slot kept.
    prompt = re.search(r"prompt eval count: +(\d+) token\(s\)\nprompt cached: +(\d+) token", again)
    assert prompt is not None
    assert int(prompt[2]) > int(prompt[1]) / 2
    terminal.type("/bye")
    assert terminal.process.wait(PATIENCE) == 0


def test_ctrl_c_stops_an_answer_and_not_the_talk(terminal: Terminal) -> None:
    for line in ("/set verbose", "/set parameter temperature 0", "/set parameter num_predict 1500"):
        terminal.type(line)
        terminal.until(">>> ")
    terminal.type("Write a long story about a dog.")  # its answer has 1,500 tokens
    terminal.until("Once upon a time")
    terminal.process.send_signal(signal.SIGINT)
    assert "eval count" not in terminal.until(">>> ")
    terminal.type("/set parameter num_predict 3")
    terminal.until(">>> ")
    terminal.type("Say hello.")
    assert "eval count:" in terminal.until(">>> ")
    terminal.type("/bye")
    assert terminal.process.wait(PATIENCE) == 0


def test_ctrl_c_at_the_prompt_says_how_to_leave(terminal: Terminal) -> None:
    terminal.interrupt_until("/bye to exit")
    terminal.until(">>> ")
    terminal.type("/bye")
    assert terminal.process.wait(PATIENCE) == 0


def test_the_end_of_input_ends_the_talk(terminal: Terminal) -> None:
    # Whoever types in the moment before the line is read types to the terminal, not to the command.
    deadline = time.monotonic() + PATIENCE
    while terminal.process.poll() is None and time.monotonic() < deadline:
        terminal.press("\x04")
    assert terminal.process.wait(1) == 0


def test_a_refused_question_leaves_the_talk_going(terminal: Terminal) -> None:
    terminal.type("/set parameter min_keep -3000000000")
    terminal.until(">>> ")
    terminal.type("Say hello.")
    terminal.until('error: option "min_keep" must be of type integer')
    terminal.until(">>> ")
    terminal.type("/bye")
    assert terminal.process.wait(PATIENCE) == 0


def test_on_a_terminal_the_hint_gives_way_to_what_is_typed_and_nothing_stays(environment: dict[str, str]) -> None:
    terminal = Terminal({**environment, "TERM": "xterm"}, "smollm2")
    hint = ">>> Type a message (/? for help)"
    try:
        terminal.until(r"for help\)")
        assert terminal.lines() == [hint]
        terminal.type("Say hello.")
        terminal.until(r"for help\)")
        first, *answer, last = terminal.lines()
        assert (first, last) == (">>> Say hello.", hint)
        assert re.search("[A-Za-z]", "".join(answer))
        assert not re.search("[\u2800-\u28ff]", "".join(answer))  # the spinner's dots
        terminal.type('"""one')
        terminal.until(r"to send")
        assert terminal.lines()[-2:] == ['>>> """one', '... End with """ to send']
        terminal.press("\x03")
        terminal.until(r"for help\)")
        terminal.type("/bye")
        assert terminal.end() == 0
        assert terminal.lines()[-1] == ">>> /bye"
        assert terminal.is_clean()
    finally:
        terminal.close()
