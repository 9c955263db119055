"""Commands whose flags are the settings: `serve` and `run`."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Collection
from typing import Any

import click

from server.flags import IGNORED, REFUSED, Foreign, refusal, refused_by_environment


class FlagCommand(click.Command):
    """A command whose flags are the settings and llama-server's other flags; made on first use.

    Args:
        groups: which headings of settings its help shows; the others' flags are taken too.
        alone: flags whose value may be left out, and must follow a `=` when it is not.
    """

    def __init__(
        self, *args: Any, groups: Callable[[str], bool] = lambda _: True, alone: tuple[str, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self._groups = groups
        self._alone = alone
        self._own = list(self.params)
        self._built = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        if not self._built:
            self._built = True
            taken = {name for param in self._own for name in param.opts}
            self.params = self._own + _setting_options(self._groups, taken) + _foreign_options()
        return super().get_params(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """A flag of `alone` that is given without a value means true; the next word is not its value."""
        end = args.index("--") if "--" in args else len(args)
        args = [f"{word}=true" if word in self._alone else word for word in args[:end]] + args[end:]
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The settings under their headings, then the names of what is ignored and of what is refused."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = None if getattr(param, "hidden", False) else param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):  # arguments are in the usage
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


def _setting_options(groups: Callable[[str], bool], taken: Collection[str]) -> list[click.Parameter]:
    """One option for each setting, hidden unless its heading is wanted; values stay text, `Settings` reads them.

    Args:
        taken: spellings that mean something else here.
    """
    from server.settings import FLAGS, Settings

    options: list[click.Parameter] = []
    for name, flag in FLAGS.items():
        field = Settings.model_fields[name]
        text = field.description or ""
        if flag.env:
            text += f" [{' '.join(flag.env)}]"
        if flag.metavar and "(default:" not in text and field.default not in (None, (), -1, 0, "", {}):
            text += (
                f" (default: {field.default:g})" if isinstance(field.default, float) else f" (default: {field.default})"
            )
        names = [spelling for spelling in flag.names if spelling not in taken]
        if flag.optional:
            option = _Option(
                [f"set_{name}", *names], metavar=flag.metavar, type=str, help=text, is_flag=False, flag_value=""
            )
        elif flag.metavar:
            option = _Option([f"set_{name}", *names], metavar=flag.metavar, type=str, help=text, multiple=flag.many)
        elif flag.off:
            n_alone = len(flag.names) - len(flag.off)
            spelled = [*flag.names[:n_alone], *map("/".join, zip(flag.names[n_alone:], flag.off, strict=True))]
            option = _Option([f"set_{name}", *spelled], is_flag=True, default=None, help=text)
        else:
            option = _Option([f"set_{name}", *names], is_flag=True, flag_value="on", type=str, help=text)
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
