"""bankML's own endpoints: `/bankml` and what is below it, and `/`, a page for people.

They only read, and never wait for the engine.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import lru_cache
from importlib.resources import files
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from registry.catalog import Entry
from server import machine, openapi
from server.errors import ApiError
from server.receipts import VERSION
from server.recent_log import RECENT
from server.routes.common import json_response, metrics_of, residency_of, settings_of
from server.wire import bankml
from slots.verification import Verification

RUNNING = "Ollama is running"
"""What `/` says to programs: the words by which they recognise a server that speaks Ollama's API."""


class Readings:
    """The machine's readings, shared among all who ask."""

    def __init__(self) -> None:
        self.usage = machine.Shared(machine.usage, 1.0)
        self.report = machine.Shared(lambda: asyncio.to_thread(machine.report), 2.0)


def _readings_of(request: Request) -> Readings:
    readings: Readings = request.app.state.readings
    return readings


def _verification_of(request: Request) -> Verification:
    last = residency_of(request).last
    if last is None:
        raise ApiError(503, "no model has been loaded")
    return last


async def root(request: Request) -> Response:
    """`GET /`: somebody is there; a browser, which asks for HTML by name, gets the status page."""
    if "text/html" not in request.headers.get("accept", ""):
        return PlainTextResponse(RUNNING, headers={"vary": "Accept"})
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
    return HTMLResponse(_page(), headers={"content-security-policy": policy, "vary": "Accept"})


@lru_cache(maxsize=1)
def _page() -> str:
    return (files("server") / "status.html").read_text("utf-8")


async def api_description(request: Request) -> Response:
    """`GET /openapi.json`: what there is, for programs; OpenAPI 3.1."""
    return json_response(openapi.description(request.app.routes))


async def identity(request: Request) -> Response:
    """`GET /bankml`: who answers, from which verified file."""
    residency = residency_of(request)
    resident = residency.current()
    catalog = residency.catalog

    def listed() -> tuple[Entry | None, tuple[Entry, ...]]:
        return None if resident is None else catalog.still(resident.shown or resident.entry), catalog.entries()

    shown, entries = await asyncio.to_thread(listed)
    return json_response(bankml.identity_body(_verification_of(request), shown, entries, settings_of(request)))


async def metrics(request: Request) -> Response:
    """`GET /bankml/metrics`: a record of each of the newest answers."""
    return json_response(bankml.metrics_body(metrics_of(request).records))


async def usage(request: Request) -> Response:
    """`GET /bankml/usage`: memory and processor time, watched for a quarter of a second, at most once a second."""
    return json_response(await _readings_of(request).usage.get())


async def status(request: Request) -> Response:
    """`GET /bankml/status`: everything at once, for the status page."""
    settings, verification, kept = settings_of(request), _verification_of(request), metrics_of(request)
    used = await _readings_of(request).usage.get()
    processor, disk = await asyncio.to_thread(
        lambda: (machine.processor(), machine.disk_of(verification.entry.path, verification.entry.size))
    )
    resident = residency_of(request).current() is not None
    now = time.time()
    body: dict[str, Any] = {
        "at": now,
        "bankml": VERSION,
        "verified": bankml.verified_body(verification),
        "serve": bankml.serve_body(settings, uptime_s=now - kept.started, pid=os.getpid()),
        "cpu": processor,
        "usage": used,
        "metrics": bankml.metrics_body(kept.records),
        "disk": disk,
        "checks": bankml.checks(resident, used, disk, machine.swapped_bytes()),
        "log": RECENT.lines(),
    }
    return json_response(body)


async def diagnostics(request: Request) -> Response:
    """`GET /bankml/diagnostics`: the machine, read at most every two seconds, and how fast our addresses connect."""
    report = await _readings_of(request).report.get()
    own = [address for address in settings_of(request).addresses if address.port]
    pings = [
        {"address": f"{host}:{port}", "connect_ms": await machine.ping(host, port)}
        for host, port in own
        if not host.endswith(".sock")
    ]
    return json_response({**report, "ping": pings, "gpus": [], "energy": None})


routes = [
    Route("/", root, methods=["GET"]),
    Route("/openapi.json", api_description, methods=["GET"]),
    Route("/bankml", identity, methods=["GET"]),
    Route("/bankml/metrics", metrics, methods=["GET"]),
    Route("/bankml/usage", usage, methods=["GET"]),
    Route("/bankml/status", status, methods=["GET"]),
    Route("/bankml/diagnostics", diagnostics, methods=["GET"]),
]
