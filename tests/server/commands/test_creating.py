"""`bankml create`: Modelfiles and their files, and the whole way of a model through the command and a real server."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from registry.modelfile import parse
from server.cli import main
from server.commands.errors import CommandError
from server.commands.modelfile import create_files, file_names, files_of
from testing.oracles.conversion_cases import PLAYED
from testing.oracles.small_models import MODELS
from testing.server_process import ServerProcess
from testing.terminal import COMMAND, PATIENCE, Terminal

Run = Callable[..., tuple[int, str, str]]


def test_a_modelfile_becomes_the_fields_of_a_request(tmp_path: Path) -> None:
    text = "FROM smollm2\nSYSTEM Be short.\nPARAMETER stop a\nPARAMETER stop b\nMESSAGE user Hi\nLICENSE MIT\n"
    found = create_files(parse(text + "PARAMETER low_vram true\n"), tmp_path)
    assert found.fields == {
        "from": "smollm2",
        "system": "Be short.",
        "parameters": {"stop": ["a", "b"]},
        "messages": [{"role": "user", "content": "Hi"}],
        "license": ["MIT"],
    }
    assert found.files == []
    assert found.warnings == ("warning: parameter low_vram is deprecated",)


def test_a_path_begins_where_the_modelfile_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "x.gguf"
    weights.touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in ("x.gguf", "./x.gguf", str(weights), "~/x.gguf"):
        found = create_files(parse(f"FROM {path}"), tmp_path)
        assert [file.resolve() for file in found.files] == [weights]
        assert found.fields == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM ./none.gguf", "none.gguf: no such file or directory"),
        ("FROM smollm2\nADAPTER none.gguf", "none.gguf: no such file or directory"),
        ("FROM smollm2\nDRAFT smollm2", "DRAFT is not supported"),
        ("FROM smollm2\nPARAMETER seed x", "invalid int value [x]"),
        ("FROM .", "no Modelfile or safetensors files found"),
    ],
)
def test_what_a_modelfile_cannot_have_is_said(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError) as raised:
        create_files(parse(text), tmp_path)
    assert message in str(raised.value)


def test_a_folder_gives_its_weights_and_what_belongs_to_them(tmp_path: Path) -> None:
    names = ["config.json", "model-1.safetensors", "x.gguf", "tokenizer.model", "chat_template.jinja", "README.md"]
    for name in names:
        (tmp_path / name).touch()
    found = files_of(tmp_path)
    assert sorted(path.name for path in found) == sorted(set(names) - {"x.gguf", "README.md"})
    assert file_names(found)[tmp_path / "config.json"] == "config.json"


def test_files_keep_their_places_below_the_folder_that_has_them_all(tmp_path: Path) -> None:
    files = [tmp_path / "model.safetensors", tmp_path / "2_Dense" / "config.json"]
    assert list(file_names(files).values()) == ["model.safetensors", "2_Dense/config.json"]
    assert list(file_names(files[1:]).values()) == ["config.json"]


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "model.safetensors").touch()
    (folder / "model.safetensors").symlink_to(tmp_path / "model.safetensors")
    with pytest.raises(CommandError, match="insecure path"):
        files_of(folder)


# -- against a server ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own(
    start_server: Callable[..., AbstractContextManager[ServerProcess]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server with an empty folder of models."""
    folder = tmp_path_factory.mktemp("models")
    with start_server("-c", "1024", "-n", "16", "--registry", str(folder)) as process:
        yield process


@pytest.fixture
def environment(own: ServerProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    for name in [name for name in os.environ if name.startswith(("LLAMA_", "OLLAMA_", "BANKML_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OLLAMA_HOST", own.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return {**os.environ, "TERM": "dumb", "PYTHONUTF8": "1"}


@pytest.fixture
def command(environment: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command against that server: its status and what it printed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(list(arguments))
        return status, *capsys.readouterr()

    return run


def test_a_model_goes_its_whole_way(command: Run, tmp_path: Path) -> None:
    modelfile = tmp_path / "Modelfile"
    modelfile.write_text("FROM smollm2\nSYSTEM Be short.\nPARAMETER temperature 0\nPARAMETER num_predict 4\n")
    status, out, err = command("create", "mario", "-f", str(modelfile))
    assert (status, out) == (0, "")
    assert err.splitlines()[0] == "gathering model components"
    assert err.splitlines()[-1] == "success"
    assert command("list", "mario")[1].splitlines()[1].startswith("mario:latest    ")
    assert command("show", "mario", "--system") == (0, "Be short.", "")
    assert "    temperature    0    \n" in command("show", "mario")[1]
    assert "SYSTEM Be short." in command("show", "mario", "--modelfile")[1]
    assert command("cp", "mario", "luigi:v2") == (0, "copied 'mario' to 'luigi:v2'\n", "")
    assert command("rm", "mario", "luigi:v2") == (0, "deleted 'mario'\ndeleted 'luigi:v2'\n", "")
    assert command("list", "mario")[1].count("\n") == 1
    assert command("rm", "mario") == (1, "", "Error: model 'mario' not found\n")


def test_a_folder_of_safetensors_becomes_a_model_that_answers(
    command: Run, environment: dict[str, str], own: ServerProcess, tmp_path: Path
) -> None:
    directory = PLAYED.write(tmp_path)
    modelfile = tmp_path / "Modelfile"
    modelfile.write_text(f"FROM ./{directory.name}\nPARAMETER temperature 0\nPARAMETER num_predict 4\n")
    status, out, err = command("create", "tiny", "-f", str(modelfile))
    assert (status, out) == (0, ""), err
    assert err.count("copying file sha256:") >= 3
    assert err.splitlines()[-1] == "success"
    assert "    quantization        F16    " in command("show", "tiny")[1]
    done = subprocess.run(
        [*COMMAND, "run", "tiny", "hello"], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer = own.post("/api/generate", {"model": "tiny", "prompt": "hello", "stream": False})
    assert (answer["eval_count"], done.stdout) == (4, answer["response"] + "\n\n")


def test_a_file_is_sent_once(command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MODELS[0].file().write(tmp_path / "small.gguf")
    monkeypatch.chdir(tmp_path)  # without a Modelfile, the model of the folder
    status, _, err = command("create", "small")
    assert status == 0, err
    assert "copying file sha256:" in err
    assert err.splitlines()[-1] == "success"
    assert command("create", "small:again", "-f", "none") == (1, "", "Error: specified Modelfile wasn't found\n")
    (tmp_path / "Modelfile").write_text("FROM small.gguf")
    assert command("create", "small:again")[0] == 0
    assert command("ls", "small")[1].count("\n") == 3


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a b", "FROM smollm2", "invalid model name: a b"),
        ("bad", "FRM smollm2", '(line 1): command must be one of "from"'),
        ("bad", "FROM smollm2\nPARAMETER top_k 99999999999", 'option "top_k" must be of type integer'),
    ],
)
def test_what_is_no_model_is_refused(command: Run, tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / "Modelfile").write_text(text)
    status, out, err = command("create", name, "-f", str(tmp_path / "Modelfile"))
    assert (status, out) == (1, "")
    assert f"Error: {message}" in err


def test_a_talk_is_saved_loaded_and_shown(environment: dict[str, str]) -> None:
    terminal = Terminal(environment, "smollm2", "--verbose")
    try:
        terminal.until(">>> ")
        for line, answer in (
            ("/set parameter temperature 0", "Set parameter 'temperature' to '0'"),
            ("/set parameter nonsense 1", "Couldn't set parameter: \"unknown parameter 'nonsense'\""),
            ("/set system You are terse.", "Set system message."),
            ('/set system """You are', r"\.\.\. "),
            ('terse."""', "Set system message."),
            ("Say hello.", r"eval count: +\d+ token"),
            ("/save saved", "Created new model 'saved'"),
            ("/list saved", "saved:latest"),
            ("/load nosuch", "Couldn't find model 'nosuch'"),
            ("/load saved", "Loading model 'saved'"),
            ("/show system", "You are\\r\\nterse."),
            ("/show parameters", "User defined parameters:\\r\\n  temperature +0"),
            ("/show license", "apache-2.0"),
            ("/show info", "architecture        llama"),
            ("/show nonsense", "Unknown command '/show nonsense'. Type /. for help"),
            ("/set format xml", "Invalid or missing format"),
            ("/set nowordwrap", "Set 'nowordwrap' mode"),
            ("/set think high", "Set 'think' mode to 'high'"),
            ("/set nothink", "Set 'nothink' mode"),
            ("/?", "/save <model>"),
            ("/? shortcuts", r"Ctrl \+ g"),
            ("/clear", "Cleared session context"),
            ("/nonsense", "Unknown command '/nonsense'. Type /. for help"),
        ):
            terminal.type(line)
            terminal.until(answer)
            if answer != r"\.\.\. ":
                terminal.until(">>> ")
        terminal.type("/bye")
        assert terminal.process.wait(PATIENCE) == 0
    finally:
        terminal.close()
