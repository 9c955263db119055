"""The `bankml` command: serve, run, pull, guard, version.

Everything slow is imported by the command that needs it, so that `--help` and a wrong flag answer at once.
"""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from server.flags import IGNORED, REFUSED, Foreign, refusal, refused_by_environment

_CONTEXT = {
    "help_option_names": ["-h", "--help", "--usage"],
    # llama-server takes --ctx_size for --ctx-size.
    "token_normalize_func": lambda name: name.replace("_", "-"),
    "max_content_width": 110,
}


class FlagCommand(click.Command):
    """A command whose flags are the settings and llama-server's other flags; made on first use."""

    def __init__(self, *args: Any, groups: Callable[[str], bool] = lambda _: True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._groups = groups
        self._own = list(self.params)
        self._built = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not self._built:
            self._built = True
            self.params = self._own + _setting_options(self._groups) + _foreign_options()
        return super().get_params(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The settings under their headings, then the names of what is ignored and of what is refused."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = None if getattr(param, "hidden", False) else param.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(param, "group", "Other"), []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
        _write_names(
            formatter, "Accepted and ignored (they only schedule, place, load or log, or have no use here)", IGNORED
        )
        _write_names(formatter, "Refused unless at the value that changes nothing", REFUSED)


def _write_names(formatter: click.HelpFormatter, heading: str, flags: tuple[Foreign, ...]) -> None:
    names = " ".join(name for flag in flags for name in flag.names)
    with formatter.section(heading):
        width = formatter.width - formatter.current_indent
        for line in textwrap.wrap(names, width, break_on_hyphens=False, break_long_words=False):
            formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class _Option(click.Option):
    """An option with a heading in `--help`."""

    group = "Other"


def _setting_options(groups: Callable[[str], bool]) -> list[click.Parameter]:
    """One option for each setting whose heading is wanted; values stay text, `Settings` reads them."""
    from server.settings import FLAGS, Settings

    options: list[click.Parameter] = []
    for name, flag in FLAGS.items():
        field = Settings.model_fields[name]
        text = field.description or ""
        if flag.env:
            text += f" [{' '.join(flag.env)}]"
        if flag.metavar and field.default not in (None, (), -1, 0):
            text += (
                f" (default: {field.default:g})" if isinstance(field.default, float) else f" (default: {field.default})"
            )
        if flag.metavar:
            option = _Option(
                [f"set_{name}", *flag.names], metavar=flag.metavar, type=str, help=text, multiple=flag.many
            )
        elif flag.off:
            n_alone = len(flag.names) - len(flag.off)
            spelled = [*flag.names[:n_alone], *map("/".join, zip(flag.names[n_alone:], flag.off, strict=True))]
            option = _Option([f"set_{name}", *spelled], is_flag=True, default=None, help=text)
        else:
            option = _Option([f"set_{name}", *flag.names], is_flag=True, flag_value="on", type=str, help=text)
        option.group = flag.group
        option.hidden = not groups(flag.group)
        options.append(option)
    return options


def _foreign_options() -> list[click.Parameter]:
    """llama-server's other flags, hidden: the help names them together."""
    options: list[click.Parameter] = []
    for flag in IGNORED + REFUSED:
        value: dict[str, Any] = {"type": str, "metavar": flag.metavar} if flag.metavar else {"is_flag": True}
        if flag.metavar == "START_END":
            value["nargs"] = 2
        options.append(click.Option([_foreign_name(flag), *flag.names], hidden=True, default=None, **value))
    return options


def _foreign_name(flag: Foreign) -> str:
    return "other_" + flag.names[-1].strip("-").replace("-", "_").replace(".", "_")


def read_settings(given: dict[str, Any]) -> Any:
    """The `Settings` of a command line that click has parsed.

    Raises:
        click.ClickException: a flag or a variable is refused or has a bad value.
    """
    from server.settings import SettingsError, load_settings

    for flag in IGNORED + REFUSED:
        value = given.get(_foreign_name(flag))
        if value is not None and (problem := refusal(flag, value if isinstance(value, str) else True)):
            raise click.ClickException(problem)
    if problem := refused_by_environment():
        raise click.ClickException(problem)
    flags = {name.removeprefix("set_"): value for name, value in given.items() if name.startswith("set_")}
    try:
        return load_settings({name: value for name, value in flags.items() if value not in (None, ())})
    except SettingsError as error:
        raise click.ClickException(str(error)) from error


def version_text() -> str:
    """The version of the installed distribution."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("bankml")
    except PackageNotFoundError:
        return "unknown"


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"bankml {version_text()}")
        ctx.exit()


_version_option = click.Option(
    ["--version", "-V"],
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version.",
)


@click.group(context_settings=_CONTEXT, params=[_version_option])
def command() -> None:
    """A local LLM server: llama-server's answers, faster, from verified model files."""


@command.command(cls=FlagCommand, params=[_version_option], short_help="Serve a model over HTTP.")
@click.argument("file", metavar="[FILE]", required=False)
def serve(file: str | None, **given: Any) -> None:
    """Serve a model over HTTP: llama-server's, OpenAI's and Ollama's endpoints.

    FILE is the model, as with -m. The flags are llama-server's. A flag beats its environment variable, named in
    brackets, which beats the default.
    """
    if file is not None:
        if given["set_model"] is not None:
            raise click.ClickException("FILE and --model are both given")
        given["set_model"] = file
    settings = read_settings(given)
    from server.serve import ServeError
    from server.serve import serve as start

    try:
        start(settings)
    except ServeError as error:
        raise click.ClickException(str(error)) from error


_RUN_GROUPS = ("Model", "Context", "Sampling")


@command.command(
    cls=FlagCommand, groups=lambda group: group.startswith(_RUN_GROUPS), short_help="Chat in the terminal."
)
@click.argument("model_name", metavar="[MODEL]", required=False)
@click.argument("prompt", required=False)
def run(model_name: str | None, prompt: str | None, **given: Any) -> None:
    """Chat in the terminal.

    MODEL is a GGUF file or a name (default: smollm2); with -m it may be left out. With a PROMPT, or one on standard
    input, answers it and ends.

    Asks the bankML server that is running. Without one, or with -m or flags for the context or sampling, serves the
    model itself.
    """
    if given["set_model"] is not None and prompt is None:
        model_name, prompt = None, model_name
    settings = read_settings(given)
    from server.run import run as chat

    raise click.exceptions.Exit(chat(model_name, prompt, settings=settings))


@command.command()
def pull() -> None:
    """Fetch the default model into the cache, if it is not there, and print its path."""
    from registry.download import ensure
    from registry.errors import RegistryError
    from registry.progress import OnTerminal

    progress = OnTerminal()
    try:
        path, _ = ensure(progress=progress)
    except RegistryError as error:
        raise click.ClickException(str(error)) from error
    finally:
        progress.close()
    click.echo(path)


@command.command(short_help="Say whether a model file is played.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("-ctk", "--cache-type-k", metavar="TYPE", default="f16", help="Type of the cached keys. (default: f16)")
@click.option("-ctv", "--cache-type-v", metavar="TYPE", default="f16", help="Type of the cached values. (default: f16)")
@click.option("--engine", type=click.Choice(["mainline"]), default="mainline", help="Whose rules: llama.cpp's.")
def guard(file: Path, as_json: bool, cache_type_k: str, cache_type_v: str, engine: str) -> None:
    """Say whether a GGUF file is played, refused, or needs more bytes, and why. Reads its header only.

    Exits with 0 for play, 2 for refuse, 3 for need more, 1 when the file cannot be read.
    """
    from engine.model import ModelOptions
    from registry.errors import RegistryError
    from server.guard import EXIT_CODES, as_text, judge

    try:
        report = judge(file, ModelOptions(cache_type_k=cache_type_k, cache_type_v=cache_type_v))
    except RegistryError as error:
        click.echo(f"bankml: {error}", err=True)
        raise click.exceptions.Exit(1) from error
    click.echo(json.dumps(report.as_json(), ensure_ascii=False) if as_json else as_text(file, report))
    raise click.exceptions.Exit(EXIT_CODES[report.verdict])


@command.command()
def version() -> None:
    """Show the version."""
    click.echo(f"bankml {version_text()}")


def _one_line(error: click.ClickException, arguments: list[str]) -> str:
    """The error on one line; an unknown flag by the whole of it (click names the first letter of `-xyz`)."""
    text = " ".join(error.format_message().split())
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        whole = next((word for word in arguments if word.startswith(name) and not word.startswith("--")), name)
        text = text.replace(f"'{name}'", f"'{whole}'").replace(f": {name}", f": {whole}") if whole != name else text
    return text


def _open_standard_files() -> None:
    """Gives a process started without standard files `/dev/null` for them, as no socket may have their numbers."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one


def main(arguments: list[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0; 2 after one line on stderr when the command line, the environment, the model or the address cannot be used;
        1 when the output cannot be written; 130 when interrupted; what `guard` says.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    _open_standard_files()
    # Neither numpy's linear algebra nor pydantic's plugins are used here: its threads, and a look through everything
    # installed for them, would only cost start-up time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        result = command.main(arguments, prog_name="bankml", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        print(f"bankml: {_one_line(error, arguments)}", file=sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:  # a full disk under the output; what else can fail has an error of its own
        print(f"bankml: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
