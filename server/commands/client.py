"""Ollama's API as its client sees it: one server, its objects, its streams, and its errors as one exception."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

import httpx

from engine.errors import one_line
from server.commands.errors import CommandError

CONNECT_TIMEOUT: Final = 5.0
"""Seconds to wait for a server to take a connection; an answer may take as long as it takes."""
_JSON: Final = {"Content-Type": "application/json"}
_NEVER: Final = "0001-01-01T00:00:00Z"
_MODEL: Final[Mapping[str, Any]] = {
    "name": "",
    "digest": "",
    "size": 0,
    "size_vram": 0,
    "context_length": 0,
    "modified_at": _NEVER,
    "expires_at": _NEVER,
}
"""Go's zero values of what tables show of a model, listed or running."""


class ClientError(CommandError):
    """A request that did not succeed; the text is fit for one line on stderr.

    Args:
        text: what the server said, or what went wrong on the way.
        status: the answer's status, 0 when there was none, or when a stream that had begun ended in the error.
    """

    def __init__(self, text: str, status: int = 0) -> None:
        super().__init__(one_line(text))
        self.status = status

    @property
    def not_found(self) -> bool:
        """Whether the server has no such model."""
        return self.status == 404


class NoServer(ClientError):
    """Nobody answers at the address."""


class Client:
    """Ollama's API of one server.

    Args:
        url: its address.
        api_key: sent when it wants one.

    Attributes:
        url: its address.

    Raises (from the constructor):
        ClientError: no server can have that address.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        timeout = httpx.Timeout(None, connect=CONNECT_TIMEOUT)
        self.url = url
        try:
            self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)
            self._http.base_url.host.encode("idna")  # a look-up does, and what it raises is no error of httpx'
        except (httpx.InvalidURL, UnicodeError) as error:
            raise ClientError(f"{url} is no address of a server: {error}") from error

    @classmethod
    def from_environment(cls) -> Client:
        """A client of the server that the environment names, with the first of its API keys."""
        from server.commands.address import server_url

        keys = os.environ.get("BANKML_API_KEY") or os.environ.get("LLAMA_API_KEY") or ""
        return cls(server_url(), keys.split(",")[0].strip() or None)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections."""
        self._http.close()

    def is_bankml(self) -> bool:
        """Whether a bankML server answers at the address."""
        try:
            answer = self._http.get("/api/version", timeout=CONNECT_TIMEOUT)
            version = answer.json()
        except (httpx.HTTPError, ValueError):
            return False
        # With an API key set, a server tells a stranger nothing; the first question will say what is missing.
        return answer.status_code == 401 or (isinstance(version, dict) and version.get("bankml") is True)

    def get(self, path: str) -> dict[str, Any]:
        """The object of a GET.

        Raises:
            ClientError: the server refuses, or is not there (`NoServer`).
        """
        return _object(self._answer("GET", path))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The object of a POST; {} when the answer has no body. Errors as `get`."""
        return _object(self._answer("POST", path, body))

    def delete(self, path: str, body: Mapping[str, Any]) -> None:
        """A DELETE with a body. Errors as `get`."""
        self._answer("DELETE", path, body)

    def show(self, model: str) -> dict[str, Any]:
        """What `/api/show` says of a model. Errors as `get`."""
        return self.post("/api/show", {"model": model})

    def load(self, model: str, **more: Any) -> None:
        """Have a model loaded, or with `keep_alive=0` unloaded. Errors as `get`."""
        self.post("/api/generate", {"model": model, "stream": False, **more})

    def models(self) -> list[dict[str, Any]]:
        """The models that the server lists, with all that a table shows of each. Errors as `get`."""
        return self._listed("/api/tags")

    def running(self) -> list[dict[str, Any]]:
        """The models in the server's memory; as `models`."""
        return self._listed("/api/ps")

    def default_model(self) -> str:
        """The name of the model that answers when none is named.

        Raises:
            ClientError: it says none, or as `get`.
        """
        models = self.get("/bankml").get("models") or []
        if not models:
            raise ClientError("the server has no model")
        return str(models[0])

    def has_blob(self, digest: str) -> bool:
        """Whether the server has a blob already. Errors as `get`."""
        try:
            self._answer("HEAD", f"/api/blobs/{digest}")
        except ClientError as error:
            if error.not_found:
                return False
            raise
        return True

    def send_blob(self, digest: str, size: int, pieces: Iterable[bytes]) -> None:
        """Send the server a blob of so many bytes. Errors as `get`."""
        headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
        self._answer("POST", f"/api/blobs/{digest}", pieces=pieces, headers=headers)

    def stream(self, path: str, body: Mapping[str, Any]) -> Generator[dict[str, Any], None, None]:
        """The objects of a streamed answer. Closing the iterator stops the server.

        Raises:
            ClientError: the server refuses, fails, or goes away.
        """
        try:
            with self._http.stream("POST", path, content=_encoded({**body, "stream": True}), headers=_JSON) as response:
                if response.status_code != 200:
                    response.read()
                    raise _refusal(response)
                for line in response.iter_lines():
                    event = _line(line)
                    if "error" in event:
                        raise ClientError(_said(event["error"]))
                    yield event
        except httpx.HTTPError as error:
            raise self._lost(error) from error

    def _listed(self, path: str) -> list[dict[str, Any]]:
        """The models of a list, read as Go reads them: what is missing is zero, and what has another type no model.
        llama-server lists its model here, too, with texts for its size and time."""
        models = self.get(path).get("models") or []
        if not isinstance(models, list) or not all(map(_is_model, models)):
            raise ClientError(f"{self.url}{path} is no list of Ollama's")
        return [{**_MODEL, **{name: value for name, value in model.items() if value is not None}} for model in models]

    def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        pieces: Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        content = _encoded(body) if body is not None else pieces
        try:
            response = self._http.request(method, path, content=content, headers=headers or (_JSON if body else None))
        except httpx.HTTPError as error:
            raise self._lost(error) from error
        if response.status_code >= 400:
            raise _refusal(response)
        return response

    def _lost(self, error: httpx.HTTPError) -> ClientError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return NoServer(f"could not connect to a server at {self.url}, run 'bankml serve' to start one")
        if isinstance(error, httpx.UnsupportedProtocol):
            return ClientError(f"{self.url} is no address of a server: {error}")
        return ClientError(f"the server at {self.url} is gone: {error}")


def _is_model(model: object) -> bool:
    """Whether this is a model of a list, as far as a table shows it."""
    if not isinstance(model, dict):
        return False
    given = {name: model[name] for name in _MODEL if model.get(name) is not None}
    return all(isinstance(value, type(_MODEL[name])) for name, value in given.items())


def _encoded(body: Mapping[str, Any]) -> bytes:
    # What was typed may hold bytes that are no text; the server is told "?" instead.
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")


def _object(response: httpx.Response) -> dict[str, Any]:
    if not response.content:
        return {}
    try:
        value = response.json()
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ClientError(f"{response.url} is no server of this API: its answer is not a JSON object")
    return value


def _line(line: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise ClientError(f"the server sent a line that is not a JSON object: {line[:100]}")
    return event


def _refusal(response: httpx.Response) -> ClientError:
    try:
        text = _said(response.json()["error"])
    except (ValueError, KeyError, TypeError):
        text = f"the server answered {response.status_code}"
    return ClientError(text, response.status_code)


def _said(error: object) -> str:
    """The text of an error, Ollama's or llama-server's."""
    return str(error.get("message", error) if isinstance(error, dict) else error)
