"""The pytest plugin that fits llama.cpp's server tests to one slot and to a model that is there.

It is loaded in the folder of the rewritten tests; `__main__` says through the environment which models to use, and
where to write what each test found.
"""

from __future__ import annotations

import builtins
import json
import os
import sys
import types
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from requests.structures import CaseInsensitiveDict

from testing.reference_suite import checks

MODELS: Final = {"": "SUITE_MODEL", "infill": "SUITE_INFILL_MODEL", "rerank": "SUITE_RERANK_MODEL"}
"""The variables that name the models: for everything, for `/infill`, for `/rerank`."""
OUTCOMES: Final = "SUITE_OUTCOMES"
"""The variable that names the file of outcomes, a JSON object a line."""
SKIPPED: Final = {"router": "needs the router of several models", "tinygemma3": "needs a model that sees"}
_THREADS: Final = 2


def pytest_configure(config: pytest.Config) -> None:
    """Before anything of the suite is imported."""
    builtins.__dict__[checks.CHECK] = checks.check
    sys.path.insert(0, os.getcwd())
    sys.modules["wget"] = types.ModuleType("wget")  # what would be downloaded is not used
    config.addinivalue_line("filterwarnings", "ignore")
    import utils  # type: ignore[import-not-found]  # the suite's, in the present folder

    _fit_presets(utils.ServerPreset)
    _fit_server(utils.ServerProcess)


def _fit_presets(presets: Any) -> None:
    """Our models in the place of theirs."""

    def skipping(reason: str) -> Callable[[], None]:
        return lambda: pytest.skip(reason)

    for name, reason in SKIPPED.items():
        setattr(presets, name, staticmethod(skipping(reason)))

    def given(made: Callable[[], Any], variable: str) -> Callable[[], Any]:
        def make() -> Any:
            server = made()
            server.suite_model = os.environ[variable]
            return server

        return make

    presets.tinyllama_infill = staticmethod(given(presets.tinyllama_infill, MODELS["infill"]))
    presets.jina_reranker_tiny = staticmethod(given(presets.jina_reranker_tiny, MODELS["rerank"]))


def _fit_server(process: Any) -> None:
    """One slot, with the context that each of several would have had; requests for another slot go to it."""
    start, make_request, make_stream_request = process.start, process.make_request, process.make_stream_request

    def fitted_start(self: Any, *args: Any, **kwargs: Any) -> None:
        self.model_file = getattr(self, "suite_model", os.environ[MODELS[""]])
        self.model_hf_repo = self.model_hf_file = self.model_url = None
        self.offline = False
        self.n_threads = _THREADS
        self.jinja = True  # as the reference is started; theirs without it fills in templates of its own
        if self.n_slots and self.n_ctx:
            self.n_ctx //= self.n_slots
        self.n_slots = 1
        if self.server_embeddings and self.pooling is None:
            self.pooling = "mean"  # their model pools by itself
        start(self, *args, **kwargs)

    def fitted_request(self: Any, method: str, path: str, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        path = path.replace("/slots/1", "/slots/0")
        answer = make_request(self, method, path, _one_slot(data), *args, **kwargs)
        answer.headers = CaseInsensitiveDict(answer.headers)  # which a plain dict would not be, against HTTP
        return answer

    def fitted_stream(self: Any, method: str, path: str, data: Any = None, *args: Any, **kwargs: Any) -> Any:
        return make_stream_request(self, method, path, _one_slot(data), *args, **kwargs)

    process.start, process.make_request, process.make_stream_request = fitted_start, fitted_request, fitted_stream


def _one_slot(data: Any) -> Any:
    if isinstance(data, dict) and data.get("id_slot", 0) > 0:
        return {**data, "id_slot": 0}
    return data


@pytest.fixture(autouse=True)
def _stop_servers() -> Iterator[None]:
    """As the suite's own `conftest.py` does, which is left out for the models that it downloads."""
    yield
    import utils

    for server in list(utils.server_instances):
        server.stop()
    utils.server_instances.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Each test begins with nothing found."""
    checks.found.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write down what a test found, when it has run or did not come to run."""
    report = yield
    if report.when == "call" or (report.when == "setup" and not report.passed):
        outcome = {
            "id": item.nodeid,
            "skipped": str(call.excinfo.value) if call.excinfo and report.skipped else None,
            "error": _error(call) if report.failed else None,
            "checks": {place: sorted(what) for place, what in checks.found.items()},
        }
        with Path(os.environ[OUTCOMES]).open("a") as file:
            file.write(json.dumps(outcome) + "\n")
    return report


def _error(call: pytest.CallInfo[None]) -> str:
    """The type of what was raised, and the line of the suite that raised it; its text may hold ports and times."""
    assert call.excinfo is not None
    here = os.getcwd()
    places = [
        f"{Path(entry.path).name}:{entry.lineno + 1}"
        for entry in call.excinfo.traceback
        if str(entry.path).startswith(here)
    ]
    return f"{call.excinfo.typename} at {places[-1] if places else '?'}"
