"""What the engine is to do for a request of `/api/generate` or `/api/chat`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.chat_formats.formats import ChatFormat
from engine.errors import ContextOverflow
from engine.model import Model
from engine.pooling import Pooling
from server.routes.common import checked_jobs
from server.wire import ollama, ollama_capabilities, openai
from server.wire.chat_output import formed
from server.wire.fields import parse_fields
from server.wire.golang import as_text
from server.wire.infill import gap_prompt, missing_markers
from server.wire.layers import served_context
from server.wire.llama import Defaults, tokenize_prompt
from server.wire.ollama_fitting import first_to_try, fit_messages
from server.wire.ollama_logprobs import Logprobs
from slots.slot import Job


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model reads.

    Attributes:
        text: as the template or the client wrote it.
        tokens: what became of it.
        form: how the answer looks; None where no template made the prompt.
        dropped: how many messages did not fit.
    """

    text: str
    tokens: list[int]
    form: ChatFormat | None = None
    dropped: int = 0


class Jobs:
    """Builds a request's one job, and remembers what its answer needs.

    Args:
        asked: the request.
        defaults: the command line's.

    Attributes:
        prompt: what the model reads, once the job is built.
        logprobs: how to show probabilities; None where nobody asks.
        unused: fields of the request that change nothing, as only the model shows.
    """

    def __init__(self, asked: ollama.Request, defaults: Defaults) -> None:
        self.asked = asked
        self.defaults = defaults
        self.prompt = Prompt("", [])
        self.logprobs: Logprobs | None = None
        self.unused: list[str] = []

    def __call__(self, model: Model) -> list[Job]:
        """The job for `model`.

        Raises:
            BadRequest, InvalidRequest: what is wrong with the request.
            ContextOverflow: the prompt has no room.
        """
        asked, options = self.asked, self.asked.options
        check_capabilities(asked, model)
        n_ctx = served_context(options.num_ctx, model.n_ctx)
        self.prompt = prompt = self._prompt(model, n_ctx - 1)
        room = n_ctx - len(prompt.tokens)
        if room <= 0:
            raise ContextOverflow(len(prompt.tokens), n_ctx)
        sampling: dict[str, Any] = dict(options.sampling)
        if asked.top_logprobs is not None:
            self.logprobs = Logprobs(asked.top_logprobs, model.tokenizer.piece)
            sampling["n_probs"] = max(1, asked.top_logprobs)
        if sampling.get("repeat_last_n") == -1:
            sampling["repeat_last_n"] = n_ctx
        if prompt.form is None and asked.schema is not None:
            sampling["json_schema"] = asked.schema
        n_predict = self.defaults.n_predict if options.num_predict < 0 else options.num_predict
        if n_ctx < model.n_ctx:  # the answer ends where a context of that size would be full
            n_predict = room if n_predict < 0 else min(n_predict, room)
        fields = parse_fields({**sampling, "n_predict": n_predict, "stop": list(options.stop)})
        if prompt.form is not None:
            fields = formed(fields, prompt.form)
        return checked_jobs(prompt.tokens, fields, model, self.defaults)

    def context(self, model: Model, answer: str) -> list[int]:
        """The conversation's tokens once `answer` is there, for the next request's `context`; nothing for a raw one."""
        if self.asked.raw:
            return []
        return model.tokenizer.encode(self.prompt.text + answer, add_special=False, parse_special=True)

    def _prompt(self, model: Model, limit: int) -> Prompt:
        asked, tokenizer = self.asked, model.tokenizer
        before = as_text(tokenizer.decode(asked.context))
        if asked.suffix:
            text = before + gap_prompt(asked.prompt or "", asked.suffix, tokenizer)
            return Prompt(text, tokenize_prompt(tokenizer, text))
        if asked.prompt is not None:
            return Prompt(asked.prompt, tokenize_prompt(tokenizer, asked.prompt))
        return self._conversation(model, before, limit)

    def _conversation(self, model: Model, before: str, limit: int) -> Prompt:
        """The conversation, its oldest messages left out where it would have more than `limit` tokens."""
        template, asked = openai.required_template(model.template), self.asked
        takes_tools = template.with_tools.capabilities.supports_tools
        self.unused[:] = ["tools"] if asked.tools and not takes_tools else []

        variables = self.defaults.template_variables

        def prompt_of(messages: Sequence[ollama.Message]) -> Prompt:
            form = openai.chat_form(chat_of(messages), template, variables=variables)
            text = before + form.prompt
            return Prompt(text, tokenize_prompt(model.tokenizer, text), form, len(asked.messages) - len(messages))

        def chat_of(messages: Sequence[ollama.Message]) -> openai.ChatRequest:
            return openai.parse_chat(asked.chat_body(messages))

        if not asked.truncate:
            return prompt_of(asked.messages)

        def known() -> int:
            return first_to_try(chat_of(asked.messages), template, variables, model.tokenizer, limit)

        prompt, _ = fit_messages(asked.messages, limit, prompt_of, lambda prompt: len(prompt.tokens), known)
        return prompt


def check_capabilities(asked: ollama.Request, model: Model) -> None:
    """Make sure that the model can do what is asked; see `ollama_capabilities.check`.

    Raises:
        BadRequest: it cannot.
    """
    template = "" if model.template is None else model.template.source
    pools, fills_gaps = model.pooling is not Pooling.NONE, not missing_markers(model.tokenizer)
    ollama_capabilities.check(asked, template, pools=pools, fills_gaps=fills_gaps)
