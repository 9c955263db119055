"""What the HTTP record is made of: the requests, and how an answer is reduced to what must be equal.

`EXCHANGES` run in order against one server, each from the slot the one before left. `reduce` replaces what differs from
run to run or machine to machine (times, ids, paths, the build) by the name of its type; keys, their order, types and
everything else stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

VOLATILE = {"created", "id", "system_fingerprint", "build_info", "media_marker", "model", "model_alias", "model_path"}
VOLATILE |= {"created_at", "completed_at", "item_id", "call_id"}
"""Keys whose values are replaced wherever they stand; `id` only where it is text."""

TIMES = {"prompt_ms", "prompt_per_token_ms", "prompt_per_second"}
TIMES |= {"predicted_ms", "predicted_per_token_ms", "predicted_per_second", "time_ms"}
OURS = {"bankml_receipt"}
"""Keys only our answers have."""

OUR_LOGPROBS = {"tokens", "token_logprobs", "top_logprobs", "text_offset"}
"""Keys that only our `logprobs` on `/v1/completions` have, all of them."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request: `body` is sent as JSON, `raw` as it is."""

    name: str
    method: str
    path: str
    body: Any = None
    raw: str | None = None

    @property
    def content(self) -> bytes | None:
        """The bytes of the request's body."""
        if self.raw is not None:
            return self.raw.encode("latin-1")
        return None if self.body is None else json.dumps(self.body).encode()

    def send(self, client: httpx.Client) -> httpx.Response:
        """The answer of the server behind `client`."""
        headers = {"Content-Type": "application/json"} if self.method == "POST" else {}
        return client.request(self.method, self.path, content=self.content, headers=headers)


def reduce(response: httpx.Response) -> dict[str, Any]:
    """An answer's status, kind and body, fit to be compared: `body`, or `events` for a stream."""
    kind = response.headers.get("content-type", "")
    reduced: dict[str, Any] = {"status": response.status_code, "content_type": kind}
    if kind.startswith("text/event-stream"):
        return reduced | {"events": [mask(event) for event in events(response.text) if not _ours(event)]}
    return reduced | {"body": mask(response.json()) if response.content else None}


def clients_fault(answer: dict[str, Any]) -> dict[str, Any]:
    """A recorded answer as ours must be, where the exchanges hold no fault of the server's own: a 500 is a 400, as
    docs/differences.md says.
    """
    if answer["status"] != 500:
        return answer
    error = {**answer["body"]["error"], "code": 400, "type": "invalid_request_error"}
    return {**answer, "status": 400, "body": {"error": error}}


def as_text(value: Any) -> str:
    """JSON as text: the order of keys and the types of numbers count."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def events(text: str) -> list[Any]:
    """The events of a stream: what each `data:` holds, parsed unless it is `[DONE]`; one with a name is an object of
    `event` and `data`."""
    return [_event(part) for part in text.split("\n\n") if part]


def _event(part: str) -> Any:
    name, payload = "", part
    if part.startswith("event: "):
        name, _, payload = part.removeprefix("event: ").partition("\n")
    payload = payload.removeprefix("data: ")
    data = payload if payload == "[DONE]" else json.loads(payload)
    return {"event": name, "data": data} if name else data


def _ours(event: Any) -> bool:
    """Whether an event of a stream is ours alone: the receipt's on OpenAI's endpoints."""
    return isinstance(event, Mapping) and "choices" in event and bool(OURS & set(event))


def mask(value: Any, key: str = "") -> Any:
    """`value` with its volatile parts replaced by the names of their types and our own keys left out."""
    if isinstance(value, Mapping):
        ours = OURS | OUR_LOGPROBS if OUR_LOGPROBS & set(value) == OUR_LOGPROBS else OURS
        return {name: mask(item, name) for name, item in value.items() if name not in ours}
    if isinstance(value, list):
        return [mask(item, key) for item in value]
    if key in TIMES or (key in VOLATILE and not (key == "id" and isinstance(value, int))):
        return f"<{type(value).__name__}>"
    if key in ("name", "aliases") and isinstance(value, str) and value.endswith(".gguf"):
        return "<str>"
    return value


PROMPT = {"prompt": "Once upon a time", "temperature": 0, "n_predict": 4}
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Say hi."}], "temperature": 0, "max_tokens": 4}
PREFILL = [*CHAT["messages"], {"role": "assistant", "content": "Hello, I"}]
EMOJI = {"prompt": "Here are ten emoji characters: 😀 😃 😄 😁 😆 😅 😂 🤣", "temperature": 0, "n_predict": 4}
LONG = "word " * 9000


def _get(path: str) -> Exchange:
    return Exchange(f"GET {path}", "GET", path)


def _completion(name: str, **fields: Any) -> Exchange:
    return Exchange(f"completion: {name}", "POST", "/completion", {**PROMPT, **fields})


def _openai(name: str, **fields: Any) -> Exchange:
    body = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 4, **fields}
    return Exchange(f"v1 completion: {name}", "POST", "/v1/completions", body)


def _chat(name: str, **fields: Any) -> Exchange:
    return Exchange(f"chat: {name}", "POST", "/v1/chat/completions", {**CHAT, **fields})


def _post(path: str, name: str, body: Any = None, raw: str | None = None) -> Exchange:
    return Exchange(f"{path}: {name}", "POST", path, body, raw)


EXCHANGES = (
    _get("/health"),
    _get("/v1/health"),
    _get("/v1/models"),
    _get("/models"),
    _get("/props"),
    _get("/nowhere"),
    _get("/completion"),
    _post("/health", "wrong method", {}),
    _post("/tokenize", "text", {"content": "Hello world"}),
    _post("/tokenize", "pieces", {"content": "Hé 🦙", "with_pieces": True}),
    _post("/tokenize", "special", {"content": "<|im_start|>a", "parse_special": False}),
    _post("/tokenize", "mixed", {"content": [1, "a", 2.5]}),
    _post("/tokenize", "nothing", {}),
    _post("/tokenize", "number", {"content": 5}),
    _post("/tokenize", "null inside", {"content": [1, None]}),
    _post("/detokenize", "tokens", {"tokens": [1, 2, 500]}),
    _post("/detokenize", "cut character", {"tokens": [56, 15107]}),
    _post("/detokenize", "nothing", {}),
    _post("/detokenize", "text", {"tokens": "a"}),
    _post("/detokenize", "text inside", {"tokens": [1, "a"]}),
    _post("/apply-template", "one message", {"messages": CHAT["messages"]}),
    _post("/apply-template", "prefill", {"messages": PREFILL}),
    _post("/apply-template", "nothing", {}),
    _post("/apply-template", "no opening", {"messages": CHAT["messages"], "add_generation_prompt": False}),
    _post(
        "/apply-template",
        "parts and developer",
        {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "user", "content": None},
            ]
        },
    ),
    _completion("whole"),
    _completion("whole again, from the cache"),
    _completion("stream", stream=True),
    _completion("tokens", return_tokens=True, cache_prompt=False),
    _completion("no tokens wanted", n_predict=0),
    _completion("stop", stop=["city"]),
    _completion("stop, streamed", stop=["the city"], stream=True),
    _completion("stop that does not come, streamed", stop=["city walls"], stream=True),
    _completion("timings per token", stream=True, timings_per_token=True, n_predict=2),
    _completion("some fields", response_fields=["content", "generation_settings/n_predict", "nothing"]),
    _completion("clamped", temperature=-1, top_k=-5, top_p=3, min_p=-1, seed=-1, repeat_last_n=0, n_keep=-1),
    _completion("numbers", n_predict=2.7, seed=2**40, temperature=False, cache_prompt=None, max_tokens=9),
    _completion("ignored", stop=5, id_slot="x", grammar=5, samplers=5, logit_bias="x", stream_options=5, whatever=1),
    _completion("bias", logit_bias=[[5, 2.5], [7, False], ["a", 1]], ignore_eos=True),
    _completion("probabilities", n_probs=3),
    _completion("probabilities, streamed", n_probs=3, stream=True),
    _completion("probabilities by the other name", logprobs=2, n_predict=2),
    _completion("probabilities of the draw", n_probs=5, post_sampling_probs=True, temperature=1.5, seed=3),
    _completion("probabilities of the draw, streamed", n_probs=2, post_sampling_probs=True, seed=3, stream=True),
    _completion("probabilities of the draw, greedy", n_probs=2, post_sampling_probs=True),
    _completion("probabilities of a draw from all", n_probs=2, post_sampling_probs=True, samplers=[], seed=4),
    _completion("probabilities of Mirostat", n_probs=2, post_sampling_probs=True, mirostat=2, temperature=1, seed=5),
    _completion("probabilities and a stop", n_probs=1, stop=["city"]),
    _completion("probabilities and a stop, streamed", n_probs=1, stop=["the city"], stream=True),
    _completion("probabilities of cut characters", **EMOJI | {"n_predict": 9}, n_probs=2),
    _completion("probabilities of cut characters, streamed", **EMOJI | {"n_predict": 9}, n_probs=2, stream=True),
    _completion("probabilities with some fields", n_probs=1, response_fields=["completion_probabilities"]),
    _completion("probabilities, none wanted", n_probs=-1, post_sampling_probs=True),
    _completion("empty prompt", prompt=""),
    _completion("empty prompt, streamed", prompt="", stream=True),
    _completion("token ids", prompt=[1, 2, 500], n_predict=2),
    _completion("mixed prompt", prompt=[1, "a"], n_predict=2),
    _completion("prompt in an object", prompt={"prompt_string": "Once"}, n_predict=2),
    _completion("two prompts", prompt=["a", [1, 2]], n_predict=2),
    _completion("cut character", **EMOJI),
    _completion("cut character, streamed", **EMOJI, stream=True),
    _completion("no prompts", prompt=[]),
    _completion("number as prompt", prompt=5),
    _completion("null as prompt", prompt=None),
    _completion("fraction in prompt", prompt=[1.5]),
    _completion("unknown token", prompt=[999999]),
    _completion("image", prompt={"prompt_string": "x", "multimodal_data": []}),
    _completion("n_predict too small", n_predict=-2),
    _completion("n_predict text", n_predict="a"),
    _completion("temperature text", temperature="hot"),
    _completion("stream number", stream=1),
    _completion("stop with a number", stop=[1]),
    _completion("no breakers", dry_sequence_breakers=[]),
    _completion("no penalty", repeat_penalty=0),
    _completion("usage text", stream_options={"include_usage": "x"}),
    _completion("lora text", lora="x"),
    _completion("decay", adaptive_decay=2),
    _completion("reasoning format", reasoning_format="zzz"),
    _completion("too long", prompt=LONG),
    _completion("too long, streamed", prompt=LONG, stream=True),
    _post("/completion", "no prompt", {}),
    _post("/completion", "array", []),
    _post("/completion", "text", "x"),
    _openai("probabilities", logprobs=2),
    _openai("probabilities, streamed", logprobs=2, stream=True),
    _openai("probabilities of the draw, streamed", n_probs=1, post_sampling_probs=True, stream=True),
    _openai("whole"),
    _openai("stream", stream=True),
    _openai("stop, streamed", stop="city", stream=True),
    _openai("empty prompt", prompt="", stream=True),
    _openai("max_tokens text", max_tokens="x"),
    _chat("probabilities", logprobs=True, top_logprobs=2),
    _chat("probabilities, streamed", logprobs=True, top_logprobs=2, stream=True),
    _chat("probabilities, twenty", logprobs=True, max_tokens=1),
    _chat("probabilities, none wanted", logprobs=True, top_logprobs=0),
    _chat("probabilities, a text", logprobs=True, top_logprobs="x", n_probs=1, max_tokens=1),
    _chat("probabilities as a number", logprobs=2, stream=True, max_tokens=2),
    _chat("probabilities without logprobs", logprobs=False, top_logprobs=2),
    _chat("probabilities of the draw", logprobs=True, top_logprobs=3, post_sampling_probs=True, temperature=1, seed=1),
    _chat("whole"),
    _chat("stream", stream=True),
    _chat("stream with usage", stream=True, stream_options={"include_usage": True}),
    _chat("one token", max_tokens=0),
    _chat("one token, streamed", max_tokens=1, stream=True),
    _chat("n_predict wins", max_tokens=2, n_predict=3),
    _chat("max_completion_tokens wins", max_tokens=2, max_completion_tokens=3),
    _chat("stop", stop="there"),
    _chat("stop, streamed", stop=["Hello there"], stream=True, max_tokens=8),
    _chat("timings per token", stream=True, timings_per_token=True, max_tokens=2),
    _chat("prefill", messages=PREFILL),
    _chat("prefill, streamed", messages=PREFILL, stream=True),
    _chat(
        "continued, streamed", messages=PREFILL, stream=True, add_generation_prompt=False, continue_final_message=True
    ),
    _chat("continued", messages=PREFILL, add_generation_prompt=False, continue_final_message=True),
    _chat("continued with an opening", messages=PREFILL, continue_final_message=True),
    _chat("two prefills", messages=[PREFILL[1], PREFILL[1]]),
    _chat("empty prefill", messages=[{"role": "assistant", "content": None}]),
    _chat("empty prefill, streamed", messages=[{"role": "assistant", "content": None}], stream=True),
    _chat("extras", user="a", store=True, tools=[], tool_choice="none", response_format={"type": "text"}, n=1),
    _chat("no messages", messages=[]),
    _chat("messages text", messages="x"),
    _chat("message number", messages=[5]),
    _chat("message without content", messages=[{"role": "user"}]),
    _chat("assistant without content", messages=[{"role": "assistant"}]),
    _chat("message without role", messages=[{"content": "x"}]),
    _chat("role number", messages=[{"role": 5, "content": "x"}]),
    _chat("content number", messages=[{"role": "user", "content": 5}]),
    _chat("part without text", messages=[{"role": "user", "content": [{"type": "text"}]}]),
    _chat("strange part", messages=[{"role": "user", "content": [{"type": "zzz"}]}]),
    _chat("image", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
    _chat("tools text", tools="x"),
    _chat("tool choice", tool_choice="zzz"),
    _chat("response format", response_format={"type": "zzz"}),
    _chat("top_logprobs alone", top_logprobs=3),
    _chat("thinking text", chat_template_kwargs={"enable_thinking": "x"}),
    _chat("max_tokens text", max_tokens="x"),
    _chat("too long", messages=[{"role": "user", "content": LONG}], stream=True),
    _post("/tokenize", "broken JSON", raw="{bad"),
    _post("/completion", "empty body", raw=""),
    _post("/v1/chat/completions", "not UTF-8", raw='{"messages":"\xff"}'),
    _post("/v1/chat/completions", "more after the JSON", raw='{"messages":[]} x'),
    _completion("and the server still answers", n_predict=1),
)
