"""The ASGI application: the doors, the routes of every API, and a lifespan that keeps the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect

from engine.errors import EngineError
from registry.errors import RegistryError
from server.cors import Origins
from server.errors import ApiError, handle
from server.guards import Guards
from server.metrics import Metrics
from server.routes import api, bankml, llama, status, v1
from server.settings import Settings
from server.streams import ClientDisconnected, ServerStopping
from slots.residency import Residency

HANDLED = (
    *(HTTPException, ApiError, EngineError, RegistryError),
    *(ClientDisconnect, ClientDisconnected, ServerStopping),
    Exception,  # what nobody foresaw: answered likewise, and then raised for uvicorn to log
)


def create_app(settings: Settings, residency: Residency) -> Starlette:
    """The application.

    Args:
        settings: the command line's.
        residency: who has the engine. The lifespan starts it (which does nothing when it runs already) and stops it.
    """

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await residency.start()
        try:
            yield
        finally:
            await residency.stop()

    app = Starlette(
        routes=[*status.routes, *llama.routes, *v1.routes, *api.routes, *bankml.routes],
        middleware=[
            Middleware(Origins, allow_origins=settings.allow_origin),
            Middleware(Guards, hosts=[host for host, _ in settings.addresses], api_keys=settings.api_keys),
        ],
        exception_handlers=dict.fromkeys(HANDLED, handle),
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # llama-server knows no such thing
    app.state.settings = settings
    app.state.residency = residency
    app.state.readings = bankml.Readings()
    app.state.metrics = Metrics(residency.options.n_batch)
    residency.on_end = app.state.metrics.count
    return app
