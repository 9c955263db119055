"""The `bankml` command: its verbs are in `server.commands`.

Everything slow is imported by the verb that needs it, so that `--help` and a wrong flag answer at once.
"""

from __future__ import annotations

import os
import sys

import click

from server.commands.conversion import convert
from server.commands.diag import diag
from server.commands.errors import CommandError
from server.commands.files import guard, pin, sha256, verify
from server.commands.flags import FlagCommand
from server.commands.help import help_command
from server.commands.models import cp, list_models, list_running, rm, show, stop
from server.commands.serving import run, serve
from server.commands.stages import chat_template, generate, tokenize
from server.commands.transfers import create, pull, push
from server.commands.usage import usage
from server.commands.usage_errors import flag_error
from server.commands.version import version, version_option

_CONTEXT = {
    "help_option_names": ["-h", "--help", "--usage"],
    # llama-server takes --ctx_size for --ctx-size.
    "token_normalize_func": lambda name: name.replace("_", "-"),
    "max_content_width": 110,
}


class Verbs(click.Group):
    """A group that lists its commands in the order they were added, and knows Ollama's other names for them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, {"ls": "list", "start": "serve"}.get(cmd_name, cmd_name))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """An unknown flag before the verb is told in Ollama's words."""
        given = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise CommandError(flag_error(error, given)) from error

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown verb is told in Ollama's words."""
        if self.get_command(ctx, args[0]) is None:
            raise CommandError(f'unknown command "{args[0]}" for "{ctx.info_name}"')
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, context_settings=_CONTEXT, params=[version_option("-v")])
def command() -> None:
    """A local LLM server: llama-server's answers, faster, from verified model files."""


_MODELS = (serve, create, run, show, stop, pull, push, list_models, list_running, cp, rm)
_FILES = (guard, sha256, pin, verify, convert)
_STAGES = (tokenize, chat_template, generate)
for _verb in (*_MODELS, *_FILES, *_STAGES, usage, diag, version, help_command):
    command.add_command(_verb)


def _one_line(error: click.ClickException, arguments: list[str]) -> str:
    """The error on one line; an unknown flag by the whole of it (click names the first letter of `-xyz`)."""
    text = " ".join(error.format_message().split())
    if isinstance(error, click.NoSuchOption):
        name = error.option_name
        whole = next((word for word in arguments if word.startswith(name) and not word.startswith("--")), name)
        text = text.replace(f"'{name}'", f"'{whole}'").replace(f": {name}", f": {whole}") if whole != name else text
    return text


_USAGE = 1


def _is_usage(error: click.ClickException, arguments: list[str]) -> bool:
    """Whether a command line cannot be read; one with llama-server's flags is refused as their values are."""
    verb = command.get_command(click.Context(command), arguments[0])
    return isinstance(error, click.UsageError) and not isinstance(verb, FlagCommand)


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
        0; 2 after one line on stderr when the environment, the model, the address or a flag of `serve` or `run` cannot
        be used; 1 when another command line cannot be, when a server refuses or cannot be asked, when a file cannot be
        read, or when the output cannot be written; 130 when interrupted; what `guard`, `pin` and `verify` say.
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
        return getattr(error.__cause__, "exit_code", _USAGE if _is_usage(error, arguments) else 2)
    except CommandError as error:  # in Ollama's words, as its command prints them
        print(f"Error: {error}", file=sys.stderr)
        return 1
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        return 0
    except OSError as error:  # a full disk under the output; what else can fail has an error of its own
        print(f"bankml: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
