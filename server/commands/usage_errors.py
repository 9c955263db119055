"""What is wrong with a command line, in the words of Ollama's command (those of cobra, its library)."""

from __future__ import annotations

from collections.abc import Sequence

import click

from server.commands.errors import CommandError


class OllamaCommand(click.Command):
    """One of Ollama's verbs: a command line that cannot be read ends in Ollama's words, and exit status 1."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click.

        Raises:
            CommandError: the command line cannot be read.
        """
        given = tuple(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            raise CommandError(flag_error(error, given) or error.format_message()) from error
        except click.UsageError as error:
            said = flag_error(error, given) or self._argument_error(ctx, given)
            raise CommandError(said or error.format_message()) from error

    def _argument_error(self, ctx: click.Context, given: Sequence[str]) -> str:
        """What is wrong with the number of arguments; "" when nothing is."""
        arguments = [param for param in self.params if isinstance(param, click.Argument)]
        flags = click.Command(self.name, params=[param for param in self.get_params(ctx) if param not in arguments])
        n_given = len(flags.make_parser(ctx).parse_args(list(given))[1])
        least = sum(param.required for param in arguments)
        most = None if any(param.nargs == -1 for param in arguments) else len(arguments)
        if least == most and n_given != least:
            return f"accepts {least} arg(s), received {n_given}"
        if n_given < least:
            return f"requires at least {least} arg(s), only received {n_given}"
        if most is not None and n_given > most:
            return f"accepts at most {most} arg(s), received {n_given}"
        return ""


def flag_error(error: click.UsageError, given: Sequence[str]) -> str:
    """What is wrong with a flag; "" when it is something else.

    Args:
        error: as click found it.
        given: the command line.
    """
    if isinstance(error, click.NoSuchOption):
        return _about("unknown flag: {}", "unknown shorthand flag: {}", error.option_name, given)
    if isinstance(error, click.BadOptionUsage) and "requires an argument" in error.message:
        needs = "flag needs an argument: {}"
        return _about(needs, needs, error.option_name, given)
    return ""


def _about(long: str, short: str, name: str, given: Sequence[str]) -> str:
    if name.startswith("--"):
        return long.format(name)
    letter = name[1:]
    words = (word for word in given if word.startswith("-") and not word.startswith("--") and letter in word)
    word = next(words, name)
    return short.format(f"'{letter}' in -{word[word.index(letter) :]}")
