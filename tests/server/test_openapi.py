"""server/openapi.py: the description names every endpoint; requests made from it never break the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance

from server.app import ROUTES
from server.openapi import description
from testing.server_process import BankmlServer

DESCRIBED = description(ROUTES)
OPERATIONS = [(path, method.upper()) for path, item in DESCRIBED["paths"].items() for method in item]

BOUNDS = {"n_predict": 4, "max_tokens": 4, "max_completion_tokens": 4, "max_output_tokens": 4, "n": 2, "n_cmpl": 2}
"""What keeps an answer short where the request has a say."""


@pytest.fixture(scope="module")
def server(start_server: Callable[..., BankmlServer]) -> Iterator[BankmlServer]:
    """A server that answers briefly, with the doors open that flags open."""
    with start_server("-c", "256", "-n", "4", "--metrics", "--api-key", "k") as process:
        yield process


def test_every_route_is_described(server: BankmlServer) -> None:
    with httpx.Client(base_url=server.url, trust_env=False, headers={"X-Api-Key": "k"}) as client:
        described = client.get("/openapi.json").json()
    assert described == DESCRIBED
    assert described["openapi"] == "3.1.0"
    assert set(described["paths"]) == {route.path_format for route in ROUTES}
    operations = [operation for item in described["paths"].values() for operation in item.values()]
    assert all(operation["summary"] and operation["responses"] for operation in operations)
    assert len({operation["operationId"] for operation in operations}) == len(operations)


def bounded(path: str, body: Any, model: str) -> Any:
    """A generated body that asks for little, and of the model that is there."""
    if not isinstance(body, dict):
        return body
    asked = {name: BOUNDS[name] if name in BOUNDS and isinstance(value, int) else value for name, value in body.items()}
    if path == "/v1/messages":
        asked["max_tokens"] = 4  # thousands unless a request says
    if path.startswith("/api/"):
        asked |= {"model": model, "keep_alive": -1}
    return asked


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_no_request_made_from_the_description_breaks_the_server(server: BankmlServer, path: str, method: str) -> None:
    operation = schemathesis.openapi.from_dict(DESCRIBED)[path][method]
    model = server.client.get("/api/ps", headers={"X-Api-Key": "k"}).json()["models"][0]["name"]

    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Case) -> None:
        case.body = bounded(path, case.body, model)
        response = case.call(base_url=server.url, headers={"X-Api-Key": "k"}, timeout=60)
        assert response.status_code != 500, response.text
        case.validate_response(response, checks=[status_code_conformance, content_type_conformance])

    ask()
    assert server.client.get("/health").status_code == 200
