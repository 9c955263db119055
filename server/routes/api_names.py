"""The model that a request of Ollama's API names."""

from __future__ import annotations

from typing import Final

from registry.catalog import Entry
from registry.errors import ModelNotFound
from registry.names import split_source
from server.errors import ApiError
from slots.residency import Residency

ANSWERS: Final = "remote model is unavailable"
"""What Ollama cannot do for a model of its cloud, where a request wants an answer."""

DETAILS: Final = "remote model details are unavailable"
"""The same, where it wants to know about the model."""


def cloud_disabled(what: str) -> ApiError:
    """What Ollama says where its cloud is turned off.

    Args:
        what: what cannot be done without it.
    """
    return ApiError(403, f"ollama cloud is disabled: {what}")


async def entry_for(residency: Residency, name: str, what: str = ANSWERS) -> Entry:
    """The model with this name.

    Args:
        what: what cannot be done for a model of Ollama's cloud.

    Raises:
        ModelNotFound: there is none here.
        ApiError: a 403, for it would run in Ollama's cloud: what Ollama says where its cloud is turned off.
    """
    try:
        return await residency.catalog.find(name)
    except ModelNotFound:
        if split_source(name)[1] == "cloud":
            raise cloud_disabled(what) from None
        raise
