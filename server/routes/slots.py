"""llama-server's slot endpoints: `GET /slots`, and `POST /slots/0?action=save|restore|erase`."""

from __future__ import annotations

import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from server.errors import ApiError, BadRequest
from server.routes.common import json_response, read_body, residency_of, settings_of
from server.sleep import asleep_of
from server.streams import until_disconnect
from server.wire import slots as wire
from server.wire.fields import wrong_type
from slots.residency import Lease
from slots.slot_file import SlotFileRefused, SlotFolder, is_valid_name

NO_SLOTS = "This server does not support slots endpoint. Start it with `--slots`"
NO_FOLDER = "This server does not support slots action. Start it with `--slot-save-path`"


async def slots(request: Request) -> Response:
    """`GET /slots`: what the slot does. With `fail_on_no_slot` a busy one is a 503."""
    if not settings_of(request).slots:
        raise ApiError(501, NO_SLOTS)
    if (asleep := asleep_of(request)) is not None:
        return json_response(asleep.slots)
    resident = await residency_of(request).current_or_default()
    shown = wire.slots_body(resident.slot, resident.model.n_ctx)
    if request.query_params.get("fail_on_no_slot") and shown[0]["is_processing"]:
        raise ApiError(503, "no slot available")
    return json_response(shown)


async def act(request: Request) -> Response:
    """`POST /slots/0?action=`: waits for its turn with the engine, like any request."""
    folder: SlotFolder | None = request.app.state.slot_folder
    if folder is None:
        raise ApiError(501, NO_FOLDER)
    if request.path_params["id_slot"] != "0":
        raise BadRequest("Invalid slot ID")
    action = request.query_params.get("action")
    if action == "erase":
        await request.body()
        return json_response(await until_disconnect(request, _erase(request)))
    if action not in ("save", "restore"):
        raise BadRequest("Invalid action")
    name = _file_name((await read_body(request)).json)
    work = _save(request, folder, name) if action == "save" else _restore(request, folder, name)
    return json_response(await until_disconnect(request, work))


def _file_name(body: dict[str, object]) -> str:
    if "filename" not in body:
        raise BadRequest("[json.exception.out_of_range.403] key 'filename' not found")
    name = body["filename"]
    if not isinstance(name, str):
        raise BadRequest(str(wrong_type("string", name)))
    if not is_valid_name(name):
        raise BadRequest("Invalid filename")
    return name


async def _save(request: Request, folder: SlotFolder, name: str) -> dict[str, object]:
    async with residency_of(request).acquire(None) as lease:
        started = time.perf_counter_ns()
        try:
            n_bytes = await lease.run(folder.save, name, lease.model, lease.entry.sha256, lease.slot)
        except SlotFileRefused as error:
            raise BadRequest(f"Unable to save slot: {error}") from None
        except OSError as error:
            raise ApiError(500, f"Unable to save slot: {error.strerror}") from error
        return wire.saved_body(name, len(lease.slot.tokens), n_bytes, _ms_since(started))


async def _restore(request: Request, folder: SlotFolder, name: str) -> dict[str, object]:
    async with residency_of(request).acquire(None) as lease:
        started = time.perf_counter_ns()
        try:
            n_bytes = await lease.run(folder.restore, name, lease.model, lease.entry.sha256, lease.slot)
        except SlotFileRefused as error:
            raise BadRequest(f"Unable to restore slot: {error}") from None
        return wire.restored_body(name, len(lease.slot.tokens), n_bytes, _ms_since(started))


async def _erase(request: Request) -> dict[str, object]:
    async with residency_of(request).acquire(None) as lease:
        return wire.erased_body(await lease.run(_clear, lease))


def _clear(lease: Lease) -> int:
    n_tokens = len(lease.slot.tokens)
    lease.slot.clear()
    return n_tokens


def _ms_since(started_ns: int) -> float:
    return (time.perf_counter_ns() - started_ns) // 1000 / 1000


routes = [
    Route("/slots", slots, methods=["GET"]),
    Route("/slots/{id_slot}", act, methods=["POST"]),
]
