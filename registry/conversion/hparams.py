"""`config.json` as llama.cpp's converter sees it: with the defaults that transformers (4.57.6) fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from registry.conversion.metadata import Metadata
from registry.conversion.source import SourceDirectory
from registry.errors import ConversionRefused

CONFIG: Final = "config.json"
MAX_LAYERS: Final = 4096
MAX_VOCABULARY: Final = 1 << 22

_DEFAULTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "llama": {
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
    },
    "qwen2": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
    },
    "qwen3": {
        "vocab_size": 151936,
        "hidden_size": 4096,
        "intermediate_size": 22016,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "head_dim": 128,
        "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
    },
}
"""What the configuration class of each `model_type` has when the file is silent."""

ARCHITECTURES: Final[Mapping[str, str]] = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}
"""`architectures` in config.json -> `model_type`, which is `general.architecture` too."""

# Keys with which llama.cpp converts something else than a plain model of these architectures, or writes more keys.
_ELSEWHERE: Final = (
    "text_config",
    "llm_config",
    "lm_config",
    "thinker_config",
    "language_config",
    "lfm",
    "draft_vocab_size",
    "transformer_layer_config",
    "quantization_config",
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "num_experts_per_tok",
    "num_experts_per_token",
    "top_k_experts",
    "n_group",
    "topk_group",
    "score_function",
    "scoring_func",
    "score_func",
    "moe_router_activation",
    "moe_router_activation_func",
    "expert_selection_fn",
    "mrope_section",
    # Other spellings of what these configurations have: llama.cpp would take some of them first.
    "n_layers",
    "n_heads",
    "n_kv_heads",
    "prefix_dense_intermediate_size",
    "dense_intermediate_size",
    "global_rope_theta",
    "rope_global_theta",
    "rope_theta_global",
    "local_rope_theta",
    "rope_local_theta",
    "rope_theta_local",
    "swa_rope_theta",
    "rope_local_base_freq",
    "original_max_position_embeddings",
)


@dataclass(frozen=True, slots=True)
class HParams:
    """The numbers of a model.

    Args:
        architecture: `llama`, `qwen2` or `qwen3`.
        values: every key of config.json, with the defaults under them.
        rope: the parameters of the rotary embedding: `rope_theta`, `rope_type` and what goes with it.
    """

    architecture: str
    values: Mapping[str, Any]
    rope: Mapping[str, Any]

    @property
    def n_layer(self) -> int:
        return self.whole("num_hidden_layers")

    @property
    def n_head(self) -> int:
        return self.whole("num_attention_heads")

    @property
    def n_head_kv(self) -> int:
        return self.whole("num_key_value_heads")

    @property
    def head_dim(self) -> int:
        """Of queries and keys."""
        if self.values.get("head_dim") is None:
            return self.whole("hidden_size") // self.n_head
        return self.whole("head_dim")

    @property
    def vocab_size(self) -> int:
        return self.whole("vocab_size")

    def whole(self, key: str) -> int:
        """A count; one that is not a whole number above zero is refused."""
        value = self.values.get(key)
        if type(value) is not int or value < 1:
            raise ConversionRefused(f"{CONFIG}: {key} is {value!r}, not a whole number above zero")
        return value


def read_hparams(source: SourceDirectory) -> HParams:
    """A directory's numbers.

    Raises:
        ModelFileError: there is no config.json, or it cannot be read.
        ConversionRefused: it is of another architecture, or asks for what is not converted; the text names it.
    """
    if not source.has(CONFIG):
        raise ConversionRefused(f"there is no {CONFIG} in {source.path}")
    config = source.json_of(CONFIG) or {}
    architecture = _architecture(config)
    for key in _ELSEWHERE:
        if config.get(key) is not None:
            raise ConversionRefused(f"{CONFIG}: {key} is not converted")
    if config.get("is_causal") is False:
        raise ConversionRefused(f"{CONFIG}: is_causal false is not converted")
    values = {**_DEFAULTS[architecture], **config}
    if values.get("num_key_value_heads") is None:
        values["num_key_value_heads"] = values["num_attention_heads"]
    hparams = HParams(architecture, values, _rope(values))
    if architecture == "llama" and values.get("head_dim") is None:
        values["head_dim"] = hparams.head_dim
    _check_sizes(hparams)
    return hparams


def _architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str) or name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ConversionRefused(
            f"the architecture {name or 'that config.json does not name'} is not converted ({known} are)"
        )
    if (kind := config.get("model_type")) != ARCHITECTURES[name]:
        raise ConversionRefused(f"{CONFIG}: {name} with model_type {kind!r} is not converted")
    return ARCHITECTURES[name]


def _check_sizes(hparams: HParams) -> None:
    for key, value, most in (
        ("num_hidden_layers", hparams.n_layer, MAX_LAYERS),
        ("vocab_size", hparams.vocab_size, MAX_VOCABULARY),
    ):
        if value > most:
            raise ConversionRefused(f"{CONFIG}: {key} is {value}; no more than {most} are converted")
    if hparams.head_dim < 1 or hparams.n_head_kv < 1:
        raise ConversionRefused(f"{CONFIG}: hidden_size is smaller than num_attention_heads")


def _rope(values: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary embedding's parameters in their two spellings, `rope_parameters` (transformers 5) and before."""
    given = values["rope_parameters"] if "rope_parameters" in values else values.get("rope_scaling")
    if given is not None and not isinstance(given, dict):
        raise ConversionRefused(f"{CONFIG}: the parameters of the rotary embedding are no object")
    rope = dict(given or {})
    if "full_attention" in rope or "sliding_attention" in rope or "mrope_section" in rope:
        raise ConversionRefused(f"{CONFIG}: rotary embeddings of several kinds are not converted")
    if "rope_theta" not in rope and values.get("rope_theta") is not None:
        rope["rope_theta"] = values["rope_theta"]
    if rope.get("rope_type") is None and rope.get("type") is not None:
        rope["rope_type"] = rope["type"]
    kind = rope.get("rope_type")
    if kind not in (None, "default", "linear", "yarn", "dynamic", "llama3"):
        raise ConversionRefused(f"{CONFIG}: the rotary embedding {kind!r} is not converted")
    return rope


def add_hparams(metadata: Metadata, hparams: HParams) -> None:
    """The keys of the architecture (`TextModel.set_gguf_parameters` and what Llama adds), `general.file_type` last."""
    arch, values = hparams.architecture, hparams.values
    metadata.u32(f"{arch}.block_count", hparams.n_layer)
    for name, key in (
        ("context_length", "max_position_embeddings"),
        ("embedding_length", "hidden_size"),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
        ("attention.head_count_kv", "num_key_value_heads"),
    ):
        metadata.u32(f"{arch}.{name}", hparams.whole(key))
    _add_rope(metadata, arch, hparams.rope)
    for name, keys in (
        ("attention.layer_norm_rms_epsilon", ("rms_norm_eps", "norm_eps")),
        ("attention.layer_norm_epsilon", ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon")),
    ):
        value = next((values[key] for key in keys if key in values), None)
        if value is not None:
            metadata.f32(f"{arch}.{name}", value)
    if values.get("head_dim") is not None:
        metadata.u32(f"{arch}.attention.key_length", values["head_dim"])
        metadata.u32(f"{arch}.attention.value_length", values["head_dim"])
    metadata.u32("general.file_type", 1)
    if arch == "llama":
        metadata.u32("llama.vocab_size", hparams.vocab_size)
        metadata.u32("llama.rope.dimension_count", hparams.head_dim)


def _add_rope(metadata: Metadata, arch: str, rope: Mapping[str, Any]) -> None:
    kind, factor = rope.get("rope_type"), rope.get("factor")
    if kind in ("linear", "yarn") and factor is not None:
        metadata.string(f"{arch}.rope.scaling.type", kind)
        metadata.f32(f"{arch}.rope.scaling.factor", factor)
        if kind == "yarn":
            _add_yarn(metadata, f"{arch}.rope.scaling", rope)
    if rope.get("rope_theta") is not None:
        metadata.f32(f"{arch}.rope.freq_base", rope["rope_theta"])


def _add_yarn(metadata: Metadata, prefix: str, rope: Mapping[str, Any]) -> None:
    if "original_max_position_embeddings" not in rope:
        raise ConversionRefused(f"{CONFIG}: YaRN without original_max_position_embeddings")
    metadata.u32(f"{prefix}.original_context_length", rope["original_max_position_embeddings"])
    for name, keys in (
        ("yarn_ext_factor", ("extrapolation_factor",)),
        ("yarn_attn_factor", ("attention_factor", "attn_factor")),
        ("yarn_beta_fast", ("beta_fast",)),
        ("yarn_beta_slow", ("beta_slow",)),
    ):
        value = next((rope[key] for key in keys if key in rope), None)
        if value is not None:
            metadata.f32(f"{prefix}.{name}", value)
