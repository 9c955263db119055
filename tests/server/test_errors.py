"""Which status and body each error gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from engine.errors import (
    ContextOverflow,
    EngineError,
    InvalidModelFile,
    InvalidRequest,
    ModelFileLost,
    UnplayableModel,
)
from registry.errors import DownloadError, ModelFileChanged, ModelFileError, ModelNotFound
from server.errors import ApiError, BadRequest, PayloadTooLarge, error_response, handle, log_failure


def request(path: str = "/v1/chat/completions") -> Request:
    return Request({"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""})


def answer(error: Exception, path: str = "/x") -> tuple[int, Any]:
    response = error_response(request(path), error)
    return response.status_code, orjson.loads(response.body)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (InvalidRequest("x"), 400, "invalid_request_error"),
        (BadRequest("x"), 400, "invalid_request_error"),
        (InvalidModelFile("x"), 400, "invalid_request_error"),
        (UnplayableModel("x"), 400, "invalid_request_error"),
        (ModelNotFound("x"), 404, "not_found_error"),
        (MemoryError(), 503, "unavailable_error"),
        (ModelFileChanged(Path("x")), 503, "unavailable_error"),
        (ModelFileError(Path("x"), "gone"), 503, "unavailable_error"),
        (PayloadTooLarge(5), 413, "invalid_request_error"),
        (ApiError(501, "x"), 501, "not_supported_error"),
        (EngineError("x"), 500, "server_error"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_error_has_llama_servers_status_and_type(error: Exception, status: int, kind: str) -> None:
    found, body = answer(error)
    assert found == status
    assert list(body) == ["error"]
    assert list(body["error"]) == ["code", "message", "type"]
    assert (body["error"]["code"], body["error"]["type"]) == (status, kind)


def test_a_prompt_that_is_too_long_says_both_counts() -> None:
    status, body = answer(ContextOverflow(9000, 8192))
    assert status == 400
    assert body["error"] == {
        "code": 400,
        "message": "request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 9000,
        "n_ctx": 8192,
    }


@pytest.mark.parametrize("status", [404, 405])
def test_an_unknown_path_and_a_wrong_method_are_the_same_404(status: int) -> None:
    assert answer(HTTPException(status)) == (
        404,
        {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}},
    )


def test_what_nobody_foresaw_is_a_500_that_tells_nothing() -> None:
    status, body = answer(RuntimeError("secret /path"))
    assert status == 500
    assert body["error"]["message"] == "internal server error"


def test_ollamas_paths_get_ollamas_body() -> None:
    assert answer(ModelNotFound("x"), "/api/chat") == (404, {"error": "model 'x' not found"})
    assert answer(HTTPException(413, "too long"), "/api/chat") == (413, {"error": "too long"})


async def test_a_client_who_left_gets_no_error() -> None:
    assert (await handle(request(), ClientDisconnect())).body == b""


def test_what_the_operator_can_help_is_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log_failure("POST /completion", ModelFileLost("model.gguf"))
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.exc_info is None
    assert "POST /completion failed: " in record.message


def test_what_is_the_clients_fault_is_one_line_too(caplog: pytest.LogCaptureFixture) -> None:
    log_failure("a stream", InvalidRequest("Unexpected empty grammar stack"))
    (record,) = caplog.records
    assert record.exc_info is None
    assert record.message == "a stream failed: Unexpected empty grammar stack"


def test_what_a_registry_says_is_one_printable_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log_failure("/api/pull", DownloadError("403: no\n2026-01-01 00:00:00 \x1b[31mforged"))
    (record,) = caplog.records
    assert record.message == "/api/pull failed: 403: no 2026-01-01 00:00:00 \\x1b[31mforged"


def test_what_is_our_fault_has_its_traceback_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log_failure("a stream", EngineError("boom"))
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert record.exc_info is not None
