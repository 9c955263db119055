"""What can go wrong with a request, and the status and body each API gives for it.

Routes raise; `error_response` turns the exception into llama-server's error object, or Ollama's under `/api`. A client
never sees a traceback: what nobody foresaw is a 500 with one line, and the log has the rest.
"""

from __future__ import annotations

import logging
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from engine.errors import (
    ContextOverflow,
    EngineError,
    InvalidGrammar,
    InvalidModelFile,
    InvalidRequest,
    ModelFileLost,
    UnplayableModel,
    one_line,
)
from registry.blobs import DigestMismatch, InvalidDigest
from registry.derived import ManifestRefused
from registry.errors import (
    ConversionRefused,
    CreateRefused,
    ModelFileChanged,
    ModelFileError,
    ModelFileMissing,
    ModelNotFound,
    ModelRefused,
    PinMismatch,
    RegistryError,
)
from registry.names import InvalidModelName
from server.json_bytes import json_bytes
from server.streams import ClientDisconnected, ServerStopping

logger = logging.getLogger("bankml.server")

JSON = "application/json; charset=utf-8"
"""The content type of every JSON answer, as llama-server and Ollama write it."""

# llama-server's error types and their statuses
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    431: "invalid_request_error",
    500: "server_error",
    501: "not_supported_error",
    503: "unavailable_error",
}


_GO_TEXTS = {404: "404 page not found", 405: "405 method not allowed"}
"""What Ollama says, as plain text, of a path that it does not have, and of a method that the path does not."""


class ApiError(Exception):
    """An error with a status of its own.

    Args:
        status: the HTTP status.
        message: what the client reads.
        type: llama-server's error type; the status's usual one when left out.
        extra: more keys of the error object.
    """

    def __init__(self, status: int, message: str, *, type: str = "", extra: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type or TYPES.get(status, "server_error")
        self.extra = extra or {}


class BadRequest(ApiError):
    """The client's fault, a 400; the text is llama-server's where it has one."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)


class PayloadTooLarge(ApiError):
    """The request's body is longer than `limit` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"request body exceeds {limit} bytes")


class BodyTooSlow(ApiError):
    """The request's body stopped coming, or came too slowly; the message says for how long."""

    def __init__(self, message: str) -> None:
        super().__init__(408, message)


class TooManyBodies(ApiError):
    """There is no room for another request's body now."""

    def __init__(self) -> None:
        super().__init__(503, "the server holds too many long requests")


def as_api_error(error: Exception) -> ApiError:
    """The status, type and message of any exception that reaches the HTTP layer."""
    match error:
        case ApiError():
            return error
        case ContextOverflow():
            extra = {"n_prompt_tokens": error.n_prompt, "n_ctx": error.n_ctx}
            return ApiError(400, str(error), type="exceed_context_size_error", extra=extra)
        case InvalidGrammar():
            return ApiError(400, str(error), extra={"reason": error.reason})
        case RecursionError():  # nothing of ours calls itself that often: it is the request's JSON that does
            return ApiError(400, "JSON is nested too deep")
        case InvalidRequest() | InvalidModelFile() | UnplayableModel():
            return ApiError(400, str(error))
        case ModelRefused() | PinMismatch() | InvalidModelName() | CreateRefused() | ManifestRefused():
            return ApiError(400, str(error))
        case InvalidDigest() | DigestMismatch() | ConversionRefused():
            return ApiError(400, str(error))
        case ModelNotFound() | ModelFileMissing():
            return ApiError(404, str(error))
        case ModelFileChanged() | ModelFileError() | ModelFileLost() | ServerStopping():
            return ApiError(503, str(error))
        case HTTPException(status_code=404 | 405):
            return ApiError(404, "File Not Found")
        case HTTPException():
            return ApiError(error.status_code, error.detail)
        case MemoryError():
            return ApiError(503, "not enough memory for this request")
        case EngineError() | RegistryError():
            return ApiError(500, str(error))
        case _:
            return ApiError(500, "internal server error")


def error_object(error: Exception) -> dict[str, Any]:
    """llama-server's error object, its keys in its order; also what a stream that fails carries."""
    api_error = as_api_error(error)
    return {"code": api_error.status, "message": api_error.message, "type": api_error.type, **api_error.extra}


def door_body(status: int, message: str) -> bytes:
    """The body of an error from before the routes; llama-server orders its keys in another way there."""
    return json_bytes({"error": {"message": message, "type": TYPES[status], "code": status}})


def log_failure(what: str, error: Exception) -> None:
    """One line for what is the client's, the model's or the operator's to mend (a model file that changed, a full disk,
    a registry that does not answer); the traceback where it is our fault."""
    if as_api_error(error).status != 500 or isinstance(error, RegistryError):
        logger.warning("%s failed: %s", what, one_line(str(error)))  # it may quote a registry, or a file
    else:
        logger.error("%s failed", what, exc_info=error)


def error_response(request: Request, error: Exception) -> Response:
    """The answer to a request that failed with `error`, in the shape of the API that was asked."""
    api_error = as_api_error(error)
    if api_error.status == 503 or (api_error.status == 500 and isinstance(error, EngineError)):
        log_failure(f"{request.method} {request.url.path}", error)  # uvicorn logs what nobody foresaw
    if request.url.path.startswith("/api/"):
        if isinstance(error, HTTPException) and error.status_code in _GO_TEXTS:
            plain = {**(error.headers or {}), "content-type": "text/plain"}
            return Response(_GO_TEXTS[error.status_code], status_code=error.status_code, headers=plain)
        body = json_bytes({"error": api_error.message})
    elif isinstance(error, HTTPException):
        body = door_body(api_error.status, api_error.message)
    else:
        body = json_bytes({"error": error_object(error)})
    # What is left of a body that was refused half-way is not waited for.
    headers = {"connection": "close"} if isinstance(error, BodyTooSlow | PayloadTooLarge | TooManyBodies) else None
    return Response(body, status_code=api_error.status, media_type=JSON, headers=headers)


async def handle(request: Request, error: Exception) -> Response:
    """Starlette's exception handler for everything."""
    if isinstance(error, ClientDisconnect | ClientDisconnected):
        return Response(status_code=499)  # nobody is there to read it
    return error_response(request, error)
