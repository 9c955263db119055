"""A registry of Ollama's kind on the loopback address, well or badly behaved, as a test asks.

It speaks Docker's distribution protocol as Ollama uses it: manifests, blobs by ranges, uploads in pieces, tokens.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key

from testing.loopback import QuietHandler, listening

_KIND: Final = "application/vnd.ollama.image."
CONFIG: Final = "application/vnd.docker.container.image.v1+json"


def digest_of(data: bytes) -> str:
    """`sha256:` and the digest's digits."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Asked:
    """A request as it came.

    Args:
        method, path: of it; the path with its query.
        range: its `Range` header, or "".
        authorization: its header of that name, or "".
        host: its `Host` header.
    """

    method: str
    path: str
    range: str
    authorization: str
    host: str


@dataclass
class RegistryServer:
    """What the registry has, how it behaves, and what it was asked.

    Args:
        manifests: bytes by `namespace/model:tag`.
        blobs: bytes by digest.
        cuts: bytes after which each of the first answers with weights is cut off.
        failures: statuses that the first requests for a blob get.
        busy: seconds, from the first request for a blob on, in which they are answered with a 429 that names them.
        expired: statuses that the other host, which blobs are redirected to, answers its first requests with; 0 for
            none.
        location: where blobs are redirected to, "" for nowhere.
        upload_location: where the next piece goes, "" for the right place.
        ranges: whether `Range` is honoured.
        stall: an event that answers with weights wait for; None for no wait.
        hold: bytes of them that are sent before that; None for half.
        held: how many answers waited.
        drip: seconds between two kilobytes of such an answer.
        total: what `Content-Range` says a blob's size is; None for the truth.
        content_range: all that it says of weights; None for the truth.
        elsewhere: whether blobs are redirected to another host (this one under another name).
        token: what a request must carry; "" for none.
        grants: whether the token is given to whoever asks.
        user: the public key, as `ssh-keygen` writes it, of who alone is given the token; "" for everyone.
        realm: where the token is given, "" for here.
        given: the token that is given, "" for the right one.
        tokens_elsewhere: whether who asks for one is redirected to another host.
        asked: every request.
        uploads: what was sent to each place for uploads.
        uploads_elsewhere: whether the pieces sent are redirected to another host.
        upload_failures: statuses that the first pieces sent get.
    """

    manifests: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    busy: int = 0
    expired: list[int] = field(default_factory=list)
    location: str = ""
    upload_location: str = ""
    ranges: bool = True
    stall: threading.Event | None = None
    hold: int | None = None
    held: int = 0
    drip: float = 0.0
    total: int | None = None
    content_range: str | None = None
    elsewhere: bool = False
    token: str = ""
    grants: bool = True
    user: str = ""
    realm: str = ""
    given: str = ""
    tokens_elsewhere: bool = False
    asked: list[Asked] = field(default_factory=list)
    uploads: dict[str, bytearray] = field(default_factory=dict)
    uploads_elsewhere: bool = False
    upload_failures: list[int] = field(default_factory=list)
    port: int = 0
    busy_until: float = 0.0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def name(self, model: str = "me/tiny:latest") -> str:
        """The whole name of one of its models."""
        return f"{self.host}/{model}"

    def add(self, weights: bytes, model: str = "me/tiny:latest", /, **texts: Any) -> dict[str, Any]:
        """Gives it a model.

        Args:
            weights: the GGUF file's bytes.
            model: what it is called.
            texts: layers by the last word of their media type: text as it is, anything else as JSON. `config` is the
                configuration.

        Returns:
            the manifest.
        """
        config = texts.pop("config", {"model_format": "gguf", "architecture": "amd64", "os": "linux"})
        layers = [self._layer(f"{_KIND}model", weights)]
        for kind, text in texts.items():
            data = text.encode() if isinstance(text, str) else json.dumps(text).encode()
            layers.append(self._layer(f"{_KIND}{kind}", data))
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": self._layer(CONFIG, json.dumps(config).encode()),
            "layers": layers,
        }
        self.manifests[model] = json.dumps(manifest).encode()
        return manifest

    def _layer(self, media_type: str, data: bytes) -> dict[str, Any]:
        digest = digest_of(data)
        self.blobs[digest] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def blob_ranges(self, digest: str) -> list[str]:
        """The ranges of a blob that were asked for, in the order they came."""
        return [each.range for each in self.asked if each.method == "GET" and each.path.endswith(digest)]


_MANIFEST = re.compile(r"/v2/(.+)/manifests/([^/]+)")
_BLOB = re.compile(r"/v2/.+/blobs/(sha256:[0-9a-f]{64})")
_UPLOADS = re.compile(r"/v2/.+/blobs/uploads/")
_PLACE = re.compile(r"/upload/(\d+)")
_LARGE = 10_000  # bytes; a blob above is weights


class _Server(ThreadingHTTPServer):
    """Listens for a registry on a free port of the loopback address.

    Args:
        registry: what its requests are answered from; is told the port.
    """

    daemon_threads = True

    def __init__(self, registry: RegistryServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.registry = registry
        registry.port = self.server_port


class _Handler(QuietHandler):
    """A request to the registry of its server."""

    server: _Server

    @property
    def registry(self) -> RegistryServer:
        return self.server.registry

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        given = self.headers.get("Authorization", "")
        url = urlsplit(self.path)
        self.registry.asked.append(
            Asked(self.command, self.path, self.headers.get("Range", ""), given, self.headers.get("Host", ""))
        )
        if url.path == "/token":
            self._token(parse_qs(url.query), given)
        elif self.registry.token and self._wants_token(url.path) and given != f"Bearer {self.registry.token}":
            self._send(401, b"{}", {"WWW-Authenticate": self._challenge})
        elif found := _MANIFEST.fullmatch(url.path):
            self._manifest(f"{found[1]}:{found[2]}", body)
        elif found := _BLOB.fullmatch(url.path):
            self._blob(found[1])
        elif _UPLOADS.fullmatch(url.path) and self.command == "POST":
            place = str(len(self.registry.uploads))
            self.registry.uploads[place] = bytearray()
            self._send(202, b"", {"Location": f"http://{self.registry.host}/upload/{place}?state=0"})
        elif found := _PLACE.fullmatch(url.path):
            self._upload(found[1], body, parse_qs(url.query))
        else:
            self._send(404, b"not here")

    def _wants_token(self, path: str) -> bool:
        """Whether the request is one to the registry, not to the host that it redirects to."""
        return path.startswith("/v2/") and not (self.registry.elsewhere and self.headers["Host"] != self.registry.host)

    @property
    def _challenge(self) -> str:
        realm = self.registry.realm or f"http://{self.registry.host}/token"
        return f'Bearer realm="{realm}",service="tests",scope="repository:me/tiny:pull repository:me/tiny:push"'

    def _token(self, query: Mapping[str, list[str]], given: str) -> None:
        asked = query.get("scope") == ["repository:me/tiny:pull", "repository:me/tiny:push"]
        if self.registry.tokens_elsewhere and self.headers.get("Host") == self.registry.host:
            self._send(307, b"", {"Location": f"http://localhost:{self.registry.port}{self.path}"})
        elif not (asked and query.get("service") == ["tests"] and self.registry.grants):
            self._send(401, b"")
        elif self.registry.user and not self._is_signed(given):
            self._send(401, b'{"details":"invalid signature"}')
        else:
            self._send(200, json.dumps({"token": self.registry.given or self.registry.token}).encode())

    def _is_signed(self, given: str) -> bool:
        """Whether the request is one that the user's key signed for this very address, and nobody saw before."""
        public, _, signature = given.partition(":")
        if public != self.registry.user.split()[1]:
            return False
        url = f"http://{self.headers['Host']}{self.path}"
        of_nothing = base64.b64encode(hashlib.sha256(b"").hexdigest().encode()).decode()
        key = load_ssh_public_key(self.registry.user.encode())
        assert isinstance(key, Ed25519PublicKey)
        try:
            key.verify(base64.b64decode(signature, validate=True), f"GET,{url},{of_nothing}".encode())
        except InvalidSignature:
            return False
        query = parse_qs(urlsplit(self.path).query)
        fresh = abs(time.time() - int(query["ts"][0])) < 300
        fresh = fresh and len(base64.urlsafe_b64decode(f"{query['nonce'][0]}==")) == 16
        return fresh and sum(each.path == self.path for each in self.registry.asked) == 1

    def _manifest(self, name: str, body: bytes) -> None:
        if self.command == "PUT":
            wanted = [layer["digest"] for layer in [*json.loads(body)["layers"], json.loads(body)["config"]]]
            if missing := [digest for digest in wanted if digest not in self.registry.blobs]:
                self._send(400, json.dumps({"errors": [{"code": "BLOB_UNKNOWN", "detail": missing}]}).encode())
                return
            self.registry.manifests[name] = body
            self._send(201, b"")
        elif name in self.registry.manifests:
            self._send(200, self.registry.manifests[name])
        else:
            self._send(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')

    def _blob(self, digest: str) -> None:
        data = self.registry.blobs.get(digest)
        if data is None:
            self._send(404, b"")
        elif self.command == "HEAD":
            self._send(200, data)
        elif self.registry.failures:
            self._send(self.registry.failures.pop(0), b"come again")
        elif self.registry.busy and self._is_busy():
            self._send(429, b"busy", {"Retry-After": str(self.registry.busy)})
        elif self.registry.location:
            self._send(307, b"", {"Location": self.registry.location.format(port=self.registry.port)})
        elif self.headers.get("Host") != self.registry.host and (status := next(iter(self.registry.expired), 0)):
            self.registry.expired.pop(0)
            self._send(status, b"expired", {"WWW-Authenticate": self._challenge})
        elif self.registry.elsewhere and self.headers.get("Host") == self.registry.host:
            self._send(307, b"", {"Location": f"http://localhost:{self.registry.port}{self.path}"})
        else:
            if self.headers.get("Host") != self.registry.host and self.registry.expired:
                self.registry.expired.pop(0)
            self._ranged(data)

    def _is_busy(self) -> bool:
        self.registry.busy_until = self.registry.busy_until or time.monotonic() + self.registry.busy
        return time.monotonic() < self.registry.busy_until

    def _ranged(self, data: bytes) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        weights = len(data) > _LARGE
        if found is None or not self.registry.ranges:
            status, headers, body = 200, {}, data
        else:
            first, last = int(found[1]), min(int(found[2]), len(data) - 1)
            total = self.registry.total if self.registry.total is not None and weights else len(data)
            headers = {"Content-Range": f"bytes {first}-{last}/{total}"}
            if self.registry.content_range is not None and weights:
                headers["Content-Range"] = self.registry.content_range
            status, body = 206, data[first : last + 1]
        cut = self.registry.cuts.pop(0) if self.registry.cuts and weights else None
        if weights and (self.registry.stall is not None or self.registry.drip):
            self._slowly(status, body, headers)
        else:
            self._send(status, body, headers, cut)

    def _slowly(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        first = len(body) // 2 if self.registry.hold is None else self.registry.hold
        self._head(status, len(body), headers)
        step = 1024 if self.registry.drip else max(first, 1)
        for start in range(0, first, step):
            self.wfile.write(body[start : min(start + step, first)])
            time.sleep(self.registry.drip)
        self.wfile.flush()
        self.registry.held += 1
        if self.registry.stall is not None:
            self.registry.stall.wait()
        self.wfile.write(body[first:])

    def _upload(self, place: str, body: bytes, query: Mapping[str, list[str]]) -> None:
        if self.registry.upload_failures:
            self._send(self.registry.upload_failures.pop(0), b"come again")
            return
        held = self.registry.uploads[place]
        elsewhere = f"http://localhost:{self.registry.port}/upload/{place}"
        if self.command == "PATCH" and self.registry.uploads_elsewhere:
            first = self.headers["Content-Range"].partition("-")[0]
            headers = {"Location": f"{elsewhere}?first={first}"}
            headers["Docker-Upload-Location"] = f"http://{self.registry.host}/upload/{place}?state={first}"
            self._send(307, b"", headers)
            return
        if "first" in query:
            held[int(query["first"][0]) :] = body
            self._send(200, b"")
            return
        if self.command == "PATCH":
            first = int(self.headers["Content-Range"].partition("-")[0])
            held[first:] = body
            location = self.registry.upload_location or f"http://{self.registry.host}/upload/{place}?state={len(held)}"
            self._send(202, b"", {"Location": location})
            return
        digest = query["digest"][0]
        if digest_of(bytes(held)) != digest:
            self._send(400, b'{"errors":[{"code":"DIGEST_INVALID"}]}')
            return
        self.registry.blobs[digest] = bytes(held)
        self._send(201, b"")

    def _head(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None, cut: int | None = None) -> None:
        self._head(status, len(body), headers or {})
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.close_connection = True


@contextmanager
def serving(registry: RegistryServer | None = None) -> Iterator[RegistryServer]:
    """The registry, listening on a free port while the block runs."""
    registry = registry or RegistryServer()
    server = _Server(registry)
    with listening(server):
        try:
            yield registry
        finally:
            if registry.stall is not None:
                registry.stall.set()
