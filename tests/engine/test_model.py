"""A model opened: its context, and what the system refuses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.model import Model, ModelOptions

N_CTX_TRAIN = 8192


@pytest.mark.parametrize(
    ("asked", "given"), [(0, N_CTX_TRAIN), (1, 256), (257, 512), (N_CTX_TRAIN, N_CTX_TRAIN), (10**8, N_CTX_TRAIN)]
)
def test_the_context_is_rounded_up_and_no_longer_than_the_model_was_trained_for(
    model_path: Path, asked: int, given: int
) -> None:
    model = Model.open(model_path, ModelOptions(n_ctx=asked, n_threads=1))
    assert (model.n_ctx, model.n_ctx_train) == (given, N_CTX_TRAIN)
    model.close()


OPEN_WITH_LITTLE_ROOM = """
import resource, sys
from engine.errors import EngineError
from engine.model import Model, ModelOptions
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
try:
    Model.open(sys.argv[1], ModelOptions(n_ctx=256, n_threads=100_000))
except EngineError as error:
    print(error)
"""


def test_more_threads_than_the_system_starts_are_an_error_and_no_crash(model_path: Path) -> None:
    command = [sys.executable, "-c", OPEN_WITH_LITTLE_ROOM, str(model_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("100000 threads cannot be started: ")
