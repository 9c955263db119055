"""A Modelfile on this machine as a `POST /api/create` request: which of its FROMs and ADAPTERs are files, and which
files belong to them. By the rules of Ollama's `parser/parser.go`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from registry.errors import RegistryError
from registry.modelfile import Command, parse
from registry.pins import sha256_file
from server.commands.errors import CommandError
from server.wire.golang import InvalidBody
from server.wire.ollama_create import create_fields

_WEIGHTS = (
    ("model*.safetensors", "*/model*.safetensors"),
    ("consolidated*.safetensors",),
    ("pytorch_model*.bin",),
    ("consolidated*.pth",),
    ("*.gguf",),
    ("*.bin",),
)
"""Files of weights in a model's folder: the first row that has any counts."""
_BESIDE = ("*.json", "*/*.json", "chat_template.jinja")
"""What else belongs to a model in a folder."""


@dataclass(slots=True)
class CreateFiles:
    """A request, and the files it speaks of.

    Attributes:
        fields: of the request, all but `model`, `files` and `adapters`.
        files: of the weights.
        adapters: of the adapters.
        warnings: what the Modelfile has and the request leaves out.
    """

    fields: dict[str, Any]
    files: list[Path] = field(default_factory=list)
    adapters: list[Path] = field(default_factory=list)
    warnings: tuple[str, ...] = ()


def read_modelfile(path: Path | None) -> CreateFiles:
    """What a Modelfile asks for.

    Args:
        path: the Modelfile; None for `Modelfile` in the working directory, or for the model of that directory where
            there is no such file.

    Raises:
        CommandError: it is not there, cannot be read, or names what cannot be made a model.
    """
    if path is None and not Path("Modelfile").exists():
        return create_files([Command("model", ".")], Path())
    path = path or Path("Modelfile")
    try:
        commands = parse(path.read_bytes())
    except FileNotFoundError as error:
        raise CommandError("specified Modelfile wasn't found") from error
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except RegistryError as error:
        raise CommandError(str(error)) from error
    return create_files(commands, path.parent)


def create_files(commands: Iterable[Command], folder: Path) -> CreateFiles:
    """What the instructions of a Modelfile ask for.

    Args:
        commands: the instructions.
        folder: where the Modelfile lies: its paths begin there.

    Raises:
        CommandError: an instruction names files that are not there, or has a value it cannot have.
    """
    commands = list(commands)
    try:
        fields, warnings = create_fields(commands)
    except InvalidBody as error:
        raise CommandError(str(error)) from error
    found = CreateFiles(fields, warnings=warnings)
    for command in commands:
        path = _expanded(command.args, folder) if command.name in ("model", "adapter", "draft") else folder
        if command.name == "draft":
            raise CommandError("DRAFT is not supported: no draft models are run")
        if command.name == "adapter":
            found.adapters += files_of(path)
        elif command.name == "model" and path.exists():
            found.files += files_of(path)
        elif command.name == "model":
            if command.args.startswith(("/", "./", "../", "~")):
                raise CommandError(f"{path}: no such file or directory")
            fields["from"] = command.args
    return found


def _expanded(text: str, folder: Path) -> Path:
    """A path as a Modelfile writes it: a home's `~` in front, or relative to the Modelfile."""
    return folder / os.path.expanduser(text)


def files_of(path: Path) -> list[Path]:
    """The files of a model: the one, or those of a folder with weights.

    Raises:
        CommandError: it is not there, the folder has no weights, or a link of it leads elsewhere.
    """
    if not path.exists():
        raise CommandError(f"{path}: no such file or directory")
    if not path.is_dir():
        return [path]
    weights = next((found for row in _WEIGHTS if (found := _globbed(path, row[:1]) and _globbed(path, row))), None)
    if not weights:
        raise CommandError("no Modelfile or safetensors files found")
    tokenizer = _globbed(path, ["tokenizer.model"]) or _globbed(path, ["*/tokenizer.model"])
    files = [*weights, *_globbed(path, _BESIDE), *tokenizer]
    root = path.resolve()
    for file in files:
        if not file.resolve().is_relative_to(root):
            raise CommandError(f"insecure path: {file} leads out of {path}; give the folder without links")
    return files


def _globbed(folder: Path, patterns: Iterable[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]


def file_names(files: Iterable[Path]) -> dict[Path, str]:
    """What each file is called in the request: its path below the folder that has them all; one alone, its name."""
    paths = {file: Path(os.path.abspath(file)) for file in files}
    if len(paths) < 2:
        return {file: path.name for file, path in paths.items()}
    root = os.path.commonpath([path.parent for path in paths.values()])
    return {file: path.relative_to(root).as_posix() for file, path in paths.items()}


def digests(files: Iterable[Path]) -> Mapping[Path, str]:
    """The digest of each file.

    Raises:
        CommandError: one cannot be read.
    """
    try:
        return {file: f"sha256:{sha256_file(file).sha256}" for file in files}
    except RegistryError as error:
        raise CommandError(str(error)) from error
