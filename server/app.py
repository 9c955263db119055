"""The ASGI application: the doors, the routes of every API, and a lifespan that keeps the model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect

from engine.errors import EngineError
from registry.errors import RegistryError
from server.cors import Origins
from server.errors import ApiError, handle
from server.guards import READ_TIMEOUT, Guards
from server.metrics import Gauge, Metrics
from server.parse_queue import ParseQueue
from server.routes import (
    api,
    api_account,
    api_create,
    api_embed,
    api_models,
    api_transfers,
    bankml,
    embeddings,
    features,
    input_tokens,
    llama,
    lora,
    messages,
    responses,
    slots,
    status,
    v1,
)
from server.settings import Settings
from server.streams import ClientDisconnected, ServerStopping
from slots.prompt_cache import PromptCache
from slots.residency import Residency
from slots.slot_file import SlotFolder

OWN = (*status.routes, *llama.routes, *slots.routes, *embeddings.routes, *lora.routes, *features.routes)
"""llama-server's endpoints that are nobody else's."""

CONVERTED = (*responses.routes, *messages.routes, *input_tokens.routes)
"""What is asked in other words than a chat request, and answered as one."""

OLLAMA = (
    *(*api_models.routes, *api_create.routes, *api_transfers.routes),
    *(*api.routes, *api_embed.routes, *api_account.routes),
)
"""Ollama's endpoints."""

ROUTES = (*OWN, *v1.routes, *CONVERTED, *OLLAMA, *bankml.routes)
"""All there is."""

HANDLED = (
    *(HTTPException, ApiError, EngineError, RegistryError),
    *(ClientDisconnect, ClientDisconnected, ServerStopping, MemoryError, RecursionError),
    Exception,  # what nobody foresaw: answered likewise, and then raised for uvicorn to log
)


def create_app(settings: Settings, residency: Residency) -> Starlette:
    """The application.

    Args:
        settings: the command line's.
        residency: who has the engine. The lifespan starts it (which does nothing when it runs already) and stops it.

    Raises:
        OSError: the folder for saved slots cannot be made.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await residency.start()
        try:
            yield
        finally:
            await residency.stop()
            app.state.parse_queue.close()

    app = Starlette(
        routes=ROUTES,
        middleware=[
            Middleware(Origins, allow_origins=settings.allow_origin),
            Middleware(
                Guards,
                hosts=[host for host, _ in settings.addresses],
                api_keys=settings.api_keys,
                read_timeout=min(READ_TIMEOUT, settings.timeout),
            ),
        ],
        exception_handlers=dict.fromkeys(HANDLED, handle),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # llama-server knows no such thing
    app.state.settings = settings
    app.state.residency = residency
    app.state.parse_queue = ParseQueue()
    app.state.readings = bankml.Readings()
    app.state.metrics = Metrics(residency.options.n_batch)
    app.state.metrics.gauges += _parked_gauges(residency)
    residency.on_end = app.state.metrics.count
    app.state.asleep = None
    if settings.sleep_idle_seconds > 0:
        residency.on_drop = lambda resident: setattr(app.state, "asleep", status.going_to_sleep(resident, settings))
    app.state.slot_folder = SlotFolder(settings.slot_save_path) if settings.slot_save_path else None
    return app


def _parked_gauges(residency: Residency) -> list[Gauge]:
    """What the states of other conversations take, as `/metrics` shows it; the limit stays while no model is loaded."""
    limit = 0.0

    def of_parked(read: Callable[[PromptCache], float], otherwise: Callable[[], float]) -> Callable[[], float]:
        def value() -> float:
            resident = residency.current()
            parked = None if resident is None else resident.slot.parked
            return otherwise() if parked is None else read(parked)

        return value

    def read_limit(parked: PromptCache) -> float:
        nonlocal limit
        limit = parked.limit
        return limit

    return [
        Gauge("bankml_parked_states", "states of other conversations in memory", of_parked(len, lambda: 0)),
        Gauge("bankml_parked_bytes", "bytes they take", of_parked(lambda parked: parked.size, lambda: 0)),
        Gauge(
            "bankml_parked_limit_bytes",
            "bytes they may take, 0 for no limit",
            of_parked(read_limit, lambda: limit),
        ),
    ]
