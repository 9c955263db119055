"""The API's description (`/openapi.json`, OpenAPI 3.1), made from the routes and the request models.

A path's text is its handler's docstring. What a body may hold is `CompletionFields`, and beside it the fields of
`_BODIES`, which the handlers read themselves. Values of other types are converted or refused as llama-server does it,
so a description says what is meant, not all that is taken.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from starlette.routing import BaseRoute, Route

from server.errors import TYPES
from server.guards import UPLOADS
from server.receipts import VERSION
from server.streams import NDJSON, SSE
from server.wire.fields import ALIASES, CompletionFields
from server.wire.ollama import CHAT_FIELDS, GENERATE_FIELDS
from server.wire.ollama_create import CREATE_FIELDS
from server.wire.ollama_embed import EMBED_FIELDS, EMBEDDINGS_FIELDS
from server.wire.ollama_models import COPY_FIELDS, SHOW_FIELDS

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "integer"}
_SWITCH: Final[Schema] = {"type": "boolean"}
_OBJECT: Final[Schema] = {"type": "object"}
_ANY: Final[Schema] = {}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(required: Iterable[str] = (), **properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


_TOKENS: Final = _list({"type": "integer", "minimum": 0})
_PROMPT: Final[Schema] = {"anyOf": [_TEXT, _TOKENS, _list({"anyOf": [_TEXT, _TOKENS]})]}
_PARTS: Final[Schema] = {"anyOf": [_TEXT, _list(_object(["type", "text"], type={"const": "text"}, text=_TEXT))]}
_MESSAGE: Final = _object(["role", "content"], role={"enum": ["system", "user", "assistant", "tool"]}, content=_PARTS)
_FUNCTION: Final = _object(["name"], name=_TEXT, description=_TEXT, parameters=_OBJECT)
_TOOLS: Final = _list(_object(["type", "function"], type={"const": "function"}, function=_FUNCTION))
_TOOL_CHOICE: Final[Schema] = {"enum": ["auto", "none", "required"]}
_FORMAT: Final = _object(
    ["type"], type={"enum": ["text", "json_object", "json_schema"]}, schema=_OBJECT, json_schema=_OBJECT
)
_CHAT: Final[Mapping[str, Schema]] = {
    "model": _TEXT,
    "messages": _list(_MESSAGE),
    "tools": _TOOLS,
    "tool_choice": _TOOL_CHOICE,
    "parallel_tool_calls": _SWITCH,
    "response_format": _FORMAT,
    "chat_template_kwargs": _OBJECT,
    "add_generation_prompt": _SWITCH,
    "top_logprobs": _NUMBER,
    "reasoning_effort": _TEXT,
}
_COMPLETION: Final = {"model": _TEXT, "prompt": _PROMPT}
_MESSAGES: Final[Mapping[str, Schema]] = {
    "model": _TEXT,
    "system": _PARTS,
    "messages": _list(_MESSAGE),
    "max_tokens": _NUMBER,
    "stream": _SWITCH,
    "temperature": {"type": "number"},
    "top_p": {"type": "number"},
    "top_k": _NUMBER,
    "stop_sequences": _list(_TEXT),
    "tools": _list(_OBJECT),
    "tool_choice": _OBJECT,
    "thinking": _OBJECT,
}
_RESPONSES: Final[Mapping[str, Schema]] = {
    "model": _TEXT,
    "input": {"anyOf": [_TEXT, _list(_MESSAGE)]},
    "instructions": _TEXT,
    "stream": _SWITCH,
    "max_output_tokens": _NUMBER,
    "tools": _list(_OBJECT),
    "reasoning": _OBJECT,
}
_EMBEDDING: Final = {"model": _TEXT, "input": _PROMPT, "content": _PROMPT, "encoding_format": _TEXT}
_RANKING: Final[Mapping[str, Schema]] = {
    "model": _TEXT,
    "query": _TEXT,
    "documents": _list(_TEXT),
    "texts": _list(_TEXT),
    "top_n": _NUMBER,
    "return_text": _SWITCH,
}
_GO: Final[Mapping[str, Schema]] = {"string": _TEXT, "bool": _SWITCH, "int": _NUMBER, "[]int": _TOKENS}


def _of_go(fields: Mapping[str, str]) -> dict[str, Schema]:
    """Ollama's fields by their Go types."""
    kinds: dict[str, Schema] = {**_GO, "[]api.Message": _list(_MESSAGE), "map[string]interface {}": _OBJECT}
    return {name: kinds.get(kind, _ANY) for name, kind in fields.items()}


# what the paths that match take: the fields that must be there, all that the handlers read themselves, and whether the
# fields of a completion go with them
_BODIES: Final[tuple[tuple[str, tuple[str, ...], Mapping[str, Schema], bool], ...]] = (
    (r".*/messages(/count_tokens)?", ("messages",), _MESSAGES, False),
    (r".*/responses(/input_tokens)?", ("input",), _RESPONSES, False),
    (r".*/chat/completions/control", (), {}, False),
    (r".*/chat/completions(/input_tokens)?|/apply-template", ("messages",), _CHAT, True),
    (r"(/v1)?/completions?", ("prompt",), _COMPLETION, True),
    (r"/infill", (), {"input_prefix": _TEXT, "input_suffix": _TEXT, "input_extra": _list(_OBJECT)}, True),
    (r"(/v1)?/embeddings?", (), _EMBEDDING, False),
    (r"(/v1)?/rerank(ing)?", ("query",), _RANKING, False),
    (r"/tokenize", ("content",), {"content": _PROMPT, "add_special": _SWITCH, "with_pieces": _SWITCH}, False),
    (r"/detokenize", ("tokens",), {"tokens": _TOKENS}, False),
    (r"/slots/.*", (), {"filename": _TEXT}, False),
    (r"/api/chat", ("model",), _of_go(CHAT_FIELDS), False),
    (r"/api/generate", ("model",), _of_go(GENERATE_FIELDS), False),
    (r"/api/show", ("model",), _of_go(SHOW_FIELDS), False),
    (r"/api/create", ("model",), _of_go(CREATE_FIELDS), False),
    (r"/api/copy", tuple(COPY_FIELDS), _of_go(COPY_FIELDS), False),
    (r"/api/embed", ("model",), _of_go(EMBED_FIELDS), False),
    (r"/api/embeddings", ("model",), _of_go(EMBEDDINGS_FIELDS), False),
)

_NOT_ASKED: Final = frozenset({"ignored"})  # of `CompletionFields`, filled by the server


def description(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """The description of these routes.

    Args:
        routes: the application's; others than plain ones are left out.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route):
            for method in sorted((route.methods or set()) - {"HEAD"}):
                paths.setdefault(route.path_format, {})[method.lower()] = _operation(route, method)
    error = _object(
        ["message", "type", "code"], message=_TEXT, type={"enum": sorted(set(TYPES.values()))}, code=_NUMBER
    )
    error["properties"]["type"]["enum"].append("exceed_context_size_error")
    completion, definitions = _completion_schema()
    schemas = {
        "Error": {"type": "object", "required": ["error"], "properties": {"error": error}},
        "OllamaError": {"type": "object", "required": ["error"], "properties": {"error": _TEXT}},
        "Completion": completion,
        **definitions,
    }
    keys = {
        "key": {"type": "http", "scheme": "bearer"},
        "header": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "bankML", "version": VERSION, "description": "llama-server's, OpenAI's and Ollama's APIs"},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": keys},
        "security": [{}, {"key": []}, {"header": []}],
    }


def _completion_schema() -> tuple[Schema, dict[str, Schema]]:
    """The fields of a completion and the definitions they need."""
    schema = CompletionFields.model_json_schema(ref_template="#/components/schemas/{model}")
    definitions = schema.pop("$defs", {})
    definitions.pop("SchemaGrammar", None)
    properties = {name: prop for name, prop in schema["properties"].items() if name not in _NOT_ASKED}
    properties["json_schema"] = _OBJECT
    for name, spellings in ALIASES.items():
        properties |= dict.fromkeys(spellings, properties[name])
    return {
        "type": "object",
        "description": "llama-server's fields of a completion",
        "properties": properties,
    }, definitions


def _operation(route: Route, method: str) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": f"{method.lower()}{re.sub('[^a-z0-9]+', '_', route.path)}"}
    text = inspect.getdoc(route.endpoint) or f"`{method} {route.path}`: refused, as it is not built."
    operation["summary"] = text.partition("\n\n")[0].replace("\n", " ")
    parameters = list(_parameters(route))
    if parameters:
        operation["parameters"] = parameters
    if method == "POST":
        content: Schema = {"application/json": {"schema": _body(route.path)}}
        if route.path.startswith(UPLOADS):
            content = {"application/octet-stream": {"schema": {}}}
        operation["requestBody"] = {"required": True, "content": content}
    operation["responses"] = dict(_responses(route.path))
    return operation


def _parameters(route: Route) -> Iterator[Schema]:
    for name in route.param_convertors:
        yield {"name": name, "in": "path", "required": True, "schema": _TEXT}
    if route.path.startswith("/slots/"):
        actions = {"enum": ["save", "restore", "erase"]}
        yield {"name": "action", "in": "query", "required": True, "schema": actions}


def _body(path: str) -> Schema:
    for pattern, required, properties, completes in _BODIES:
        if re.fullmatch(pattern, path):
            own = _object(required, **properties)
            return {"allOf": [own, {"$ref": "#/components/schemas/Completion"}]} if completes else own
    return _OBJECT


def _responses(path: str) -> Iterator[tuple[str, Schema]]:
    kinds = ["text/plain", "text/html"] if path == "/" else ["application/json"]
    if re.fullmatch(r".*/(completions?|messages|responses|infill)", path):
        kinds.append(SSE)
    elif re.fullmatch(r"/api/(chat|generate)", path):
        kinds.append(NDJSON)
    elif path == "/metrics":
        kinds = ["text/plain"]
    yield "200", {"description": "the answer", "content": {kind: {} for kind in kinds}}
    error = {"$ref": f"#/components/schemas/{'OllamaError' if path.startswith('/api/') else 'Error'}"}
    for status, kind in TYPES.items():
        yield str(status), {"description": kind, "content": {"application/json": {"schema": error}}}
