"""llama-server's own endpoints as pure functions: request body to jobs, steps to events and bodies.

Names, order and values of every field are llama-server b11192's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from engine.generation import Final, GenerationRequest, SharedPrompt, Shown, Step
from engine.grammar import GrammarTrigger, TriggerType
from engine.model import Model
from engine.sampling import RANDOM_SEED, SamplingParams
from engine.stops import as_text, cut_bytes
from engine.timings import Timings
from engine.tokenizer import Tokenizer
from server.errors import BadRequest
from server.wire.fields import CompletionFields, kind, to_int, wrong_type
from slots.slot import Job

_PROMPT_KINDS = (
    '"prompt" elements must be a string, a list of tokens, a JSON object containing a prompt string, '
    "or a list of mixed strings & tokens."
)

MAX_PROMPTS = 1024
"""Prompts of one request."""

_SAMPLING_NAMES = frozenset(field.name for field in fields(SamplingParams)) & frozenset(CompletionFields.model_fields)
_GRAMMAR_NAMES = frozenset({"grammar_type", "grammar_lazy", "grammar_triggers", "generation_prompt"})
_REASONING_NAMES = frozenset(f"reasoning_budget_{name}" for name in ("tokens", "start_tag", "end_tags", "message"))

# -- request in ----------------------------------------------------------------------------------------------------


def required_prompt(body: Mapping[str, Any]) -> Any:
    """The field `prompt`, of any kind.

    Raises:
        BadRequest: it is not there.
    """
    if "prompt" not in body:
        raise BadRequest("[json.exception.out_of_range.403] key 'prompt' not found")
    return body["prompt"]


def is_token(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def tokenize_mixed(tokenizer: Tokenizer, content: Any, *, add_special: bool, parse_special: bool) -> list[int]:
    """The tokens of a text, or of a list of texts and token ids; only a text that comes first gets the special start.

    Raises:
        ValueError: something else is in it; the text is llama-server's.
    """
    if isinstance(content, str):
        return tokenizer.encode(content, add_special=add_special, parse_special=parse_special)
    if not isinstance(content, list):
        raise wrong_type("string", content)
    tokens: list[int] = []
    for index, part in enumerate(content):
        if isinstance(part, str):
            tokens += tokenizer.encode(part, add_special=add_special and index == 0, parse_special=parse_special)
        else:
            tokens.append(to_int(part))
    return tokens


def tokenize_prompt(tokenizer: Tokenizer, prompt: Any) -> list[int]:
    """One prompt's tokens: a text, token ids, both mixed, or an object with `prompt_string`.

    Raises:
        BadRequest: it is none of these.
    """
    try:
        match prompt:
            case str():
                return tokenizer.encode(prompt, add_special=True, parse_special=True)
            case list() if all(is_token(part) for part in prompt):
                return [to_int(token) for token in prompt]
            case list() if any(is_token(part) for part in prompt) and any(isinstance(part, str) for part in prompt):
                return tokenize_mixed(tokenizer, prompt, add_special=True, parse_special=True)
            case {"prompt_string": _, "multimodal_data": _}:
                raise BadRequest("Multimodal data provided, but model does not support multimodal requests.")
            case {"prompt_string": content}:
                return tokenize_mixed(tokenizer, content, add_special=True, parse_special=True)
            case _:
                raise BadRequest(_PROMPT_KINDS)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def tokenize_prompts(tokenizer: Tokenizer, prompt: Any) -> list[list[int]]:
    """The prompts of a request, each as tokens: a list without any token id holds several prompts.

    Raises:
        BadRequest: there is none, there are too many, or one is of no known kind.
    """
    if not isinstance(prompt, list) or any(is_token(part) for part in prompt):
        return [tokenize_prompt(tokenizer, prompt)]
    if not prompt:
        raise BadRequest('"prompt" must not be empty')
    if len(prompt) > MAX_PROMPTS:
        raise BadRequest(f'"prompt" has more than {MAX_PROMPTS} prompts')
    return [tokenize_prompt(tokenizer, part) for part in prompt]


def sampling_defaults(model: Model, given: Mapping[str, Any]) -> SamplingParams:
    """What a request without sampling fields gets: the command line's values over the model file's over llama.cpp's.

    Args:
        model: its metadata may carry defaults.
        given: the command line's, by llama-server's field names; `sampler_sequence` is an order of the samplers that
            the model file's beats, as llama-server's `--sampler-seq` has it.
    """
    given = dict(given)
    sequence = given.pop("sampler_sequence", None)
    base = SamplingParams() if sequence is None else SamplingParams(samplers=sequence)
    params = replace(SamplingParams.from_metadata(model.metadata, base), **given)
    if not params.ignore_eos:
        return params
    if model.tokenizer.eos is None:
        return replace(params, ignore_eos=False)  # the reference, too, then ignores none
    banned = tuple((token, -math.inf) for token in sorted(model.tokenizer.eog))
    return replace(params, logit_bias=params.logit_bias + banned)


def resolve_sampling(fields_: CompletionFields, model: Model, defaults: Mapping[str, Any]) -> SamplingParams:
    """The sampling parameters of a request; `defaults` as in `sampling_defaults`.

    Raises:
        InvalidRequest: what llama-server's sampler refuses, with its message.
    """
    names = _SAMPLING_NAMES | _GRAMMAR_NAMES | _REASONING_NAMES
    given = {name: value for name in names if (value := getattr(fields_, name)) is not None}
    if fields_.json_schema is not None:
        grammar = fields_.json_schema
        given |= {"grammar": grammar.text, "grammar_type": "output_format", "grammar_warnings": grammar.warnings}
    return SamplingParams.from_request(given, sampling_defaults(model, defaults), model.tokenizer)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the command line says for requests that do not.

    Attributes:
        sampling: sampling fields, by llama-server's names.
        n_predict: the limit of an answer, -1 for none.
        cache_prompt: whether the slot's tokens are reused.
        reasoning_format: what becomes of reasoning.
        template_variables: for chat templates.
    """

    sampling: Mapping[str, Any]
    n_predict: int = -1
    cache_prompt: bool = True
    reasoning_format: str = "deepseek"
    template_variables: Mapping[str, Any] = field(default_factory=dict)


def build_job(prompt: Sequence[int], fields_: CompletionFields, model: Model, defaults: Defaults) -> Job:
    """What the engine is asked for one prompt, or for the first answer to it.

    Args:
        prompt: its tokens.
        fields_: the request.
        model: who will answer.
        defaults: for what the request leaves out.
    """
    limit = defaults.n_predict if fields_.n_predict in (None, -1) else fields_.n_predict
    request = GenerationRequest(
        prompt=prompt,
        sampling=resolve_sampling(fields_, model, defaults.sampling),
        n_predict=-1 if limit is None else limit,
        stop=fields_.stop,
        t_max_predict_ms=fields_.t_max_predict_ms,
        n_indent=fields_.n_indent,
        post_sampling_probs=fields_.post_sampling_probs,
        return_progress=fields_.return_progress and fields_.stream,
        shared=SharedPrompt() if fields_.n_cmpl > 1 else None,
    )
    cache_prompt = defaults.cache_prompt if fields_.cache_prompt is None else fields_.cache_prompt
    form = Format("", fields_, defaults.n_predict, reasoning_format=defaults.reasoning_format)
    return Job(request, cache_prompt, fields_.id_slot, form)


def choices(job: Job, n: int) -> list[Job]:
    """`n` answers to one prompt: `job` is the first, the others have seeds one higher each, as llama-server's."""
    seed = job.request.sampling.seed
    if seed == RANDOM_SEED:  # drawn anew for each
        return [job] * n
    seeded = (replace(job.request.sampling, seed=(seed + number) % 2**32) for number in range(n))
    return [replace(job, request=replace(job.request, sampling=sampling)) for sampling in seeded]


# -- steps out -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Format:
    """What the answers of one request show besides their text.

    Attributes:
        model: the model's name.
        fields: the request.
        n_predict: the command line's limit, shown when the request has none.
        chat_format, generation_prompt: what llama-server shows of its chat parser.
        reasoning_format: the command line's, shown when the request has none.
        native: what `__verbose` shows, None when it is not asked for.
    """

    model: str
    fields: CompletionFields
    n_predict: int = -1
    chat_format: str = "Content-only"
    generation_prompt: str = ""
    reasoning_format: str = "deepseek"
    native: NativeEvents | None = None


@dataclass(frozen=True, slots=True)
class NativeEvents:
    """An answer in the shape of `/completion`, whichever API gives it: its own endpoint, and `__verbose` elsewhere.

    Attributes:
        model: who answers.
        jobs: what was asked, one an answer.
        form: what the answers show.
    """

    model: Model
    jobs: Sequence[Job]
    form: Format

    def partial(self, index: int, step: Step) -> dict[str, Any]:
        """An event of a stream."""
        return partial_event(index, step, len(self.jobs[index].request.prompt), self.form)

    def final(self, index: int, final: Final, timings: Timings) -> dict[str, Any]:
        """The body, or the last event of a stream."""
        return final_body(index, final, timings, self.jobs[index], self.model, self.form)


def with_native(form: Format, model: Model, jobs: Sequence[Job], *, verbose: bool) -> Format:
    """The same, and what `__verbose` shows if the request asks for it, or does not say and the server is `verbose`."""
    asked = verbose if form.fields.verbose is None else form.fields.verbose
    return replace(form, native=NativeEvents(model, jobs, form)) if asked else form


def _sampling_settings(params: SamplingParams) -> dict[str, Any]:
    """The sampling part of `generation_settings`, up to the adaptive sampler's fields."""
    names = (
        *("seed", "temperature", "dynatemp_range", "dynatemp_exponent", "top_k", "top_p", "min_p", "top_n_sigma"),
        *("xtc_probability", "xtc_threshold", "typical_p", "repeat_last_n", "repeat_penalty", "presence_penalty"),
        *("frequency_penalty", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
    )
    shown: dict[str, Any] = {name: getattr(params, name) for name in names}
    shown["dry_sequence_breakers"] = list(params.dry_sequence_breakers)
    for name in ("mirostat", "mirostat_tau", "mirostat_eta", "adaptive_target", "adaptive_decay"):
        shown[name] = getattr(params, name)
    return shown


def generation_settings(params: SamplingParams, form: Format, *, short: bool = False) -> dict[str, Any]:
    """The object `generation_settings`; `short` leaves out what `/props` does not show."""
    fields_ = form.fields
    n_predict = form.n_predict if fields_.n_predict is None else fields_.n_predict
    settings = _sampling_settings(params)
    settings["stop"] = list(fields_.stop)
    settings |= {"max_tokens": n_predict, "n_predict": n_predict, "n_keep": fields_.n_keep}
    settings |= {"n_discard": fields_.n_discard, "ignore_eos": params.ignore_eos, "stream": fields_.stream}
    settings["logit_bias"] = [{"bias": bias, "token": token} for token, bias in params.logit_bias]
    settings |= {"n_probs": fields_.n_probs, "min_keep": params.min_keep}
    settings |= {"grammar": as_text(params.grammar.data), "grammar_lazy": params.grammar.lazy}
    settings["grammar_triggers"] = [_trigger(trigger) for trigger in params.grammar.triggers]
    settings["preserved_tokens"] = sorted(params.preserved_tokens)
    asked = "reasoning_format" in fields_.model_fields_set
    reasoning_format = fields_.reasoning_format if asked else form.reasoning_format
    settings |= {"chat_format": form.chat_format, "reasoning_format": reasoning_format}
    settings["reasoning_in_content"] = fields_.stream and reasoning_format == "deepseek-legacy"
    settings["generation_prompt"] = form.generation_prompt or params.grammar.generation_prompt
    settings |= {"samplers": list(params.samplers), "speculative.types": "none"}
    settings["timings_per_token"] = fields_.timings_per_token
    settings |= {"post_sampling_probs": fields_.post_sampling_probs, "backend_sampling": False, "lora": []}
    if short:
        long = ("dry_sequence_breakers", "stop", "logit_bias", "grammar", "grammar_lazy", "grammar_triggers")
        for name in (*long, "preserved_tokens"):
            del settings[name]
    return settings


def _trigger(trigger: GrammarTrigger) -> dict[str, int | str]:
    shown: dict[str, int | str] = {"type": int(trigger.type), "value": trigger.value}
    return {**shown, "token": trigger.token} if trigger.type is TriggerType.TOKEN else shown


def shows_timings(step: Step, form: Format) -> bool:
    """Whether a partial event carries `timings`: when asked for, and on the one whose text a stop string ended."""
    return form.fields.timings_per_token or (step.final is not None and step.final.stopping_word != "")


def partial_event(index: int, step: Step, n_prompt: int, form: Format) -> dict[str, Any]:
    """One event of a `/completion` stream; one that tells of the prompt's progress has token 0, as llama-server's."""
    event = {
        "index": index,
        "content": step.text,
        "tokens": [step.token or 0],
        "stop": False,
        "id_slot": -1,
        "tokens_predicted": step.n_decoded,
        "tokens_evaluated": n_prompt,
    }
    if shows_timings(step, form):
        event["timings"] = step.timings.as_dict()
    if step.progress is not None:
        event["prompt_progress"] = asdict(step.progress)
    if step.shown is not None and step.shown.best:
        event["completion_probabilities"] = shown_tokens([step.shown], form)
    return event


def shown_tokens(shown: Iterable[Shown], form: Format) -> list[dict[str, Any]]:
    """The tokens of an answer with their probabilities, the most likely ones beside each.

    A text ends before a character that it leaves cut; the bytes are all there.
    """
    post = form.fields.post_sampling_probs

    def entry(one: Shown) -> dict[str, Any]:
        text = as_text(one.data[: len(one.data) - cut_bytes(one.data)])
        value = {"prob": one.prob} if post else {"logprob": one.logprob}
        return {"id": one.token, "token": text, "bytes": list(one.data), **value}

    best = "top_probs" if post else "top_logprobs"
    return [{**entry(one), best: [entry(other) for other in one.best]} for one in shown]


def whole_text(final: Final) -> str:
    """The text of an answer that is not streamed; what is cut off at its end is U+FFFD."""
    return final.text + as_text(final.cut)


def final_body(index: int, final: Final, timings: Timings, job: Job, model: Model, form: Format) -> dict[str, Any]:
    """The body of a `/completion` answer, or the last event of its stream (which repeats no text and no tokens)."""
    fields_ = form.fields
    body = {
        "index": index,
        "content": "" if fields_.stream else whole_text(final),
        "tokens": final.tokens if fields_.return_tokens and not fields_.stream else [],
        "id_slot": 0,
        "stop": True,
        "model": form.model,
        "tokens_predicted": timings.predicted_n,
        "tokens_evaluated": final.tokens_evaluated,
        "generation_settings": generation_settings(job.request.sampling, form),
        "prompt": as_text(model.tokenizer.detokenize(job.request.prompt)),
        "has_new_line": final.has_new_line,
        "truncated": final.truncated,
        "stop_type": final.stop_type,
        "stopping_word": final.stopping_word,
        "tokens_cached": final.tokens_cached,
        "timings": timings.as_dict(),
    }
    if final.shown and not fields_.stream:
        body["completion_probabilities"] = shown_tokens(final.shown, form)
    return _chosen(body, fields_.response_fields) if fields_.response_fields else body


def _chosen(body: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Any]:
    """The fields named by `response_fields`, a `/` leading into an object; what is not there is left out."""
    chosen = {}
    for path in paths:
        value: Any = body
        for key in path.split("/"):
            value = value[key] if isinstance(value, dict) and key in value else None
            if value is None:
                break
        else:
            chosen[path] = value
    return chosen


# -- tokens and text -----------------------------------------------------------------------------------------------


def tokenize(tokenizer: Tokenizer, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `/tokenize`.

    Raises:
        BadRequest: `content` is neither a text nor a list of texts and token ids.
    """
    if "content" not in body:
        return {"tokens": []}

    def flag(name: str, default: bool) -> bool:
        value = body.get(name)
        return value if isinstance(value, bool) else default

    try:
        tokens = tokenize_mixed(
            tokenizer,
            body["content"],
            add_special=flag("add_special", False),
            parse_special=flag("parse_special", True),
        )
    except ValueError as error:
        raise BadRequest(str(error)) from None
    if not flag("with_pieces", False):
        return {"tokens": tokens}
    return {"tokens": [{"id": token, "piece": _piece(tokenizer, token)} for token in tokens]}


def detokenize(tokenizer: Tokenizer, body: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of `/detokenize`; special tokens are shown.

    Raises:
        BadRequest: `tokens` is not a list of numbers.
        InvalidRequest: one is not a token of this vocabulary.
    """
    if "tokens" not in body:
        return {"content": ""}
    given = body["tokens"]
    if not isinstance(given, list):
        raise BadRequest(str(wrong_type("array", given)))
    try:
        tokens = [to_int(token) for token in given]
    except ValueError as error:
        raise BadRequest(str(error)) from None
    return {"content": as_text(tokenizer.decode(tokens))}


def _piece(tokenizer: Tokenizer, token: int) -> str | list[int]:
    """A token's text, or its bytes when they are not UTF-8 on their own."""
    piece = tokenizer.piece(token, special=True)
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)


def token_text(tokenizer: Tokenizer, token: int | None) -> str:
    """A special token's text, "" for one the vocabulary does not have."""
    return "" if token is None else as_text(tokenizer.piece(token, special=True))


def json_object(value: Any) -> dict[str, Any]:
    """A request's body, which must be an object.

    Raises:
        BadRequest: it is something else; the text is llama-server's.
    """
    if not isinstance(value, dict):
        raise BadRequest(f"[json.exception.type_error.304] cannot use at() with {kind(value)}")
    return value
