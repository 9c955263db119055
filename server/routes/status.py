"""What the server says about itself: `/health`, `/v1/models`, `/props`; and by name what it does not do yet."""

from __future__ import annotations

import asyncio
import secrets
import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.model import Model
from registry.catalog import Entry
from server.errors import ApiError
from server.metrics import exposition
from server.receipts import BUILD
from server.routes.common import json_response, metrics_of, residency_of, settings_of, shown_name
from server.settings import Settings
from server.sleep import Asleep, asleep_of
from server.wire import llama
from server.wire.fields import CompletionFields
from server.wire.ollama_models import model_of_openai
from server.wire.slots import slots_body
from slots.residency import Resident

FILE_TYPES: Mapping[int, str] = {
    0: "all F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K - Medium",
    11: "Q3_K - Small",
    12: "Q3_K - Medium",
    13: "Q3_K - Large",
    14: "Q4_K - Small",
    15: "Q4_K - Medium",
    16: "Q5_K - Small",
    17: "Q5_K - Medium",
    18: "Q6_K",
    21: "Q2_K - Small",
    32: "BF16",
}
"""What llama-server calls a file's weight type (`general.file_type`)."""

VOCABULARY_TYPES: Mapping[str, int] = {"no_vocab": 0, "llama": 1, "gpt2": 2, "bert": 3, "t5": 4, "rwkv": 5}
"""llama.cpp's number for a kind of vocabulary (`tokenizer.ggml.model`)."""

_MEDIA_MARKER = "<__media_" + "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(32)) + "__>"


async def health(request: Request) -> Response:
    """`GET /health`: the server answers, whatever the engine is doing."""
    return json_response({"status": "ok"})


async def models(request: Request) -> Response:
    """`GET /v1/models`: the resident model, or the default one, loaded for it; where a folder is served, every model
    there is, and nothing is loaded."""
    residency, settings = residency_of(request), settings_of(request)
    if residency.catalog.any_name:
        if (asleep := asleep_of(request)) is not None:
            return json_response(asleep.models_now())
        resident = await residency.current_or_default()
        return json_response(models_body([(resident.entry, resident)], settings))
    resident_now = residency.current()
    entries = await asyncio.to_thread(residency.catalog.entries)
    listed = [
        (entry, resident_now if resident_now is not None and resident_now.entry.same_weights(entry) else None)
        for entry in entries
    ]
    return json_response(models_body(listed, settings))


async def one_model(request: Request) -> Response:
    """`GET /v1/models/NAME`: one model, as Ollama shows it to OpenAI's clients."""
    if not (name := request.path_params["name"]):
        raise HTTPException(404)
    catalog = residency_of(request).catalog
    return json_response(model_of_openai(catalog.default if catalog.any_name else await catalog.find(name), name))


async def props(request: Request) -> Response:
    """`GET /props`."""
    if (asleep := asleep_of(request)) is not None:
        return json_response(asleep.props)
    resident = await residency_of(request).current_or_default()
    return json_response(props_body(resident, settings_of(request)))


async def change_props(request: Request) -> Response:
    """`POST /props`, with `--props`: there is nothing that can be changed, in llama-server neither."""
    if not settings_of(request).props:
        raise ApiError(501, "This server does not support changing global properties. Start it with `--props`")
    await request.body()
    return json_response({"success": True})


async def metrics(request: Request) -> Response:
    """`GET /metrics`, with `--metrics`: Prometheus' text, at once, whatever the engine is doing."""
    if not settings_of(request).metrics:
        raise ApiError(501, "This server does not support metrics endpoint. Start it with `--metrics`")
    residency, kept = residency_of(request), metrics_of(request)
    series = kept.scrape(n_processing=int(residency.busy), n_deferred=residency.n_waiting)
    headers = {"content-type": "text/plain; version=0.0.4", "process-start-time-unix": str(int(kept.started))}
    return Response(exposition(series), headers=headers)


def going_to_sleep(resident: Resident, settings: Settings) -> Asleep:
    """What is said of a model once it is unloaded for want of requests."""
    return Asleep(
        models_body([(resident.entry, resident)], settings),
        props_body(resident, settings) | {"is_sleeping": True},
        slots_body(resident.slot, resident.model.n_ctx),
    )


def file_type(model: Model) -> str:
    """llama-server's name for the model's weight type."""
    number = model.metadata.get("general.file_type")
    return FILE_TYPES.get(number if isinstance(number, int) else -1, "unknown, may not work")


def models_body(models: Sequence[tuple[Entry, Resident | None]], settings: Settings) -> dict[str, Any]:
    """llama-server's `/v1/models`: models in Ollama's list form and in OpenAI's.

    Args:
        models: each with what is resident of it; only of that `meta` is known.
    """
    empty = {"parent_model": "", "format": "gguf", "family": "", "families": [""]}
    listed_more = {"description": "", "tags": [""], "capabilities": ["completion"], "parameters": ""}
    details = {**empty, "parameter_size": "", "quantization_level": ""}
    listed, data = [], []
    for entry, resident in models:
        name = shown_name(settings, entry)
        head = {"name": name, "model": name, "modified_at": "", "size": "", "digest": "", "type": "model"}
        listed.append({**head, **listed_more, "details": details})
        info = {
            "id": name,
            "aliases": list(entry.aliases if settings.folder else settings.alias) or [name],
            "tags": list(settings.tags),
            "object": "model",
            "created": int(time.time()),
            "owned_by": "llamacpp",
        }
        data.append(info if resident is None else {**info, "meta": _meta(resident.model)})
    return {"models": listed, "object": "list", "data": data}


def _meta(model: Model) -> dict[str, Any]:
    """What is known of a loaded model."""
    return {
        "vocab_type": VOCABULARY_TYPES.get(str(model.metadata.get("tokenizer.ggml.model")), 0),
        "n_vocab": model.n_vocab,
        "n_ctx": model.n_ctx,
        "n_ctx_train": model.n_ctx_train,
        "n_embd": model.n_embd,
        "n_params": model.n_params,
        "size": model.size,
        "ftype": file_type(model),
    }


def props_body(resident: Resident, settings: Settings) -> dict[str, Any]:
    """llama-server's `/props`. What belongs to endpoints we do not have is false."""
    model, name = resident.model, shown_name(settings, resident.entry)
    form = llama.Format(name, CompletionFields(reasoning_format="none"))
    params = llama.generation_settings(llama.sampling_defaults(model, settings.sampling), form, short=True)
    tokenizer = model.tokenizer
    return {
        "default_generation_settings": {"params": params, "n_ctx": model.n_ctx},
        "total_slots": 1,
        "model_alias": name,
        "model_ftype": file_type(model),
        "model_path": str(resident.entry.path),
        "modalities": {"vision": False, "video": False, "audio": False},
        "media_marker": _MEDIA_MARKER,
        "endpoint_slots": settings.slots,
        "endpoint_props": settings.props,
        "endpoint_metrics": settings.metrics,
        "ui": False,
        "ui_settings": {},
        "chat_template": "" if model.template is None else model.template.source,
        "chat_template_caps": _capabilities(model),
        "bos_token": llama.token_text(tokenizer, tokenizer.bos),
        "eos_token": llama.token_text(tokenizer, tokenizer.eos),
        "build_info": BUILD,
        "is_sleeping": False,
        "cors_proxy_enabled": False,
    }


def _capabilities(model: Model) -> dict[str, bool]:
    return {} if model.template is None else dict(sorted(asdict(model.template.capabilities).items()))


routes = [
    Route("/health", health, methods=["GET"]),
    Route("/v1/health", health, methods=["GET"]),
    Route("/models", models, methods=["GET"]),
    Route("/v1/models", models, methods=["GET"]),
    Route("/models/{name:path}", one_model, methods=["GET"]),
    Route("/v1/models/{name:path}", one_model, methods=["GET"]),
    Route("/props", props, methods=["GET"]),
    Route("/props", change_props, methods=["POST"]),
    Route("/metrics", metrics, methods=["GET"]),
]
