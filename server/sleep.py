"""`--sleep-idle-seconds`: what a server says of itself while its model is unloaded for want of requests.

As in llama-server, `/v1/models`, `/props` and `/slots` answer as they would have just before, so that a dashboard which
asks for them wakes nobody; whatever needs the model does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from slots.residency import Residency


@dataclass(frozen=True, slots=True)
class Asleep:
    """The bodies of what answers without the model."""

    models: Mapping[str, Any]
    props: Mapping[str, Any]
    slots: Sequence[Mapping[str, Any]]

    def models_now(self) -> dict[str, Any]:
        """The list of models, whose `created` is the time of the request."""
        now = int(time.time())
        return {**self.models, "data": [{**listed, "created": now} for listed in self.models["data"]]}


def asleep_of(request: Request) -> Asleep | None:
    """What to answer with when the server sleeps; None when it does not."""
    residency: Residency = request.app.state.residency
    asleep: Asleep | None = request.app.state.asleep
    return asleep if residency.current() is None else None
