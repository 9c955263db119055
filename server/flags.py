"""llama-server's other flags: those that change nothing here, and those that would change answers.

Together with `server.settings` this names every flag of llama-server b11192, so that a command line written for it
works here or is refused with the reason; nothing is dropped in silence.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Foreign:
    """A flag that is not a setting.

    Args:
        names: its spellings.
        metavar: what its value is called, empty for a switch.
        env: its environment variable, if a value there matters.
        allowed: values that change nothing; for a switch, values of its variable.
        why: why any other value is refused; empty when every value is ignored.
    """

    names: tuple[str, ...]
    metavar: str
    env: str = ""
    allowed: tuple[str, ...] = ()
    why: str = ""


# --native is how clients start bankML's other implementation without a llama-server behind it, as this one always is.
# Scheduling, placement, loading, logging, drafts without a draft model, and what a server with one slot, one device
# and no web page has no use for.
_IGNORED = """
--native
-tb --threads-batch =N
-C --cpu-mask =M
-Cr --cpu-range =LO-HI
--cpu-strict =0|1
--prio =N
--poll =N
-Cb --cpu-mask-batch =M
-Crb --cpu-range-batch =LO-HI
--cpu-strict-batch =0|1
--prio-batch =N
--poll-batch =0|1
--threads-http =N
--numa =TYPE
-lm --load-mode =MODE
-lzm --lazy-mode =MODE
--mlock
--mmap
--no-mmap
--perf
--no-perf
--no-host
-kvo --kv-offload
-nkvo --no-kv-offload
--op-offload
--no-op-offload
-ngl --gpu-layers --n-gpu-layers =N
-sm --split-mode =MODE
-ts --tensor-split =LIST
-mg --main-gpu =INDEX
-fit --fit =on|off
-fitt --fit-target =MIB
-fitc --fit-ctx =N
-cmoe --cpu-moe
-ncmoe --n-cpu-moe =N
-ncffn --n-cpu-ffn =N
-dt --defrag-thold =N
--check-tensors
--warmup
--no-warmup
--swa-full
-ctxcp --ctx-checkpoints --swa-checkpoints =N
-cms --checkpoint-min-step =N
-kvu --kv-unified
-no-kvu --no-kv-unified
--cache-idle-slots
--no-cache-idle-slots
-cb --cont-batching
-nocb --no-cont-batching
--keep =N
--repack
--no-context-shift
--jinja
--prefill-assistant
--no-skip-chat-parsing
--no-agent -no-ag
--no-webui --no-ui
--webui --ui
--webui-config --ui-config =JSON
--webui-config-file --ui-config-file =FILE
--no-webui-mcp-proxy --no-ui-mcp-proxy
--mmproj-auto
--no-mmproj --no-mmproj-auto
--mmproj-offload
--no-mmproj-offload
-mmdev --mmproj-device =DEVICE
--image-min-tokens =N
--image-max-tokens =N
--mtmd-batch-max-tokens =N
--video-fps =N
--video-timestamp-interval =N
--video-ffmpeg-dir =DIR
--no-cors-credentials
--log-disable
--log-file =FILE
--log-jsonl
--no-log-jsonl
--log-colors =on|off|auto
--log-prefix
--no-log-prefix
--log-timestamps
--no-log-timestamps
-lv --verbosity --log-verbosity =N
--models-max =N
--models-autoload
--no-models-autoload
-hft --hf-token =TOKEN
--reasoning-preserve
--no-reasoning-preserve
--tools-runtime =OPTION
-ctkd --cache-type-k-draft --spec-draft-type-k =TYPE
-ctvd --cache-type-v-draft --spec-draft-type-v =TYPE
-td --threads-draft --spec-draft-threads =N
-tbd --threads-batch-draft --spec-draft-threads-batch =N
-Cd --cpu-mask-draft --spec-draft-cpu-mask =M
-Crd --cpu-range-draft --spec-draft-cpu-range =LO-HI
--cpu-strict-draft --spec-draft-cpu-strict =0|1
--prio-draft --spec-draft-prio =N
--poll-draft --spec-draft-poll =0|1
-Cbd --cpu-mask-batch-draft --spec-draft-cpu-mask-batch =M
--cpu-strict-batch-draft --spec-draft-cpu-strict-batch =0|1
--prio-batch-draft --spec-draft-prio-batch =N
--poll-batch-draft --spec-draft-poll-batch =0|1
-otd --override-tensor-draft --spec-draft-override-tensor =LIST
-cmoed --cpu-moe-draft --spec-draft-cpu-moe
-ncmoed --n-cpu-moe-draft --spec-draft-ncmoe --spec-draft-n-cpu-moe =N
--spec-draft-n-max =N
--spec-draft-n-min =N
--draft-p-split --spec-draft-p-split =P
--draft-p-min --spec-draft-p-min =P
--spec-draft-backend-sampling
--no-spec-draft-backend-sampling
-devd --device-draft --spec-draft-device =LIST
-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl =N
--spec-synth-len =L
--spec-synth-rates =LIST
--spec-ngram-mod-n-min =N
--spec-ngram-mod-n-max =N
--spec-ngram-mod-n-match =N
--spec-ngram-simple-size-n =N
--spec-ngram-simple-size-m =N
--spec-ngram-simple-min-hits =N
--spec-ngram-map-k-size-n =N
--spec-ngram-map-k-size-m =N
--spec-ngram-map-k-min-hits =N
--spec-ngram-map-k4v-size-n =N
--spec-ngram-map-k4v-size-m =N
--spec-ngram-map-k4v-min-hits =N
"""

# names | variable | values that change nothing | why the others are refused
_REFUSED = """
-np --parallel =N | LLAMA_ARG_N_PARALLEL | 1 -1 | there is one slot; requests wait their turn
-fa --flash-attn =on|off|auto | LLAMA_ARG_FLASH_ATTN | on auto 1 -1 true enabled | only flash attention is built
--no-repack -nr | LLAMA_ARG_REPACK | 1 on true enabled | the packed kernels decide the numbers
--context-shift | LLAMA_ARG_CONTEXT_SHIFT | 0 off false disabled | the context is not shifted
--cache-reuse =N | LLAMA_ARG_CACHE_REUSE | 0 | cached pieces are not shifted
--kv-unified-per-slot =N | LLAMA_ARG_KV_UNIFIED_PER_SLOT | | there is one slot
--rope-scaling =TYPE | LLAMA_ARG_ROPE_SCALING_TYPE | none | RoPE is as in the model file
--rope-scale =N | LLAMA_ARG_ROPE_SCALE | 1 1.0 | RoPE is as in the model file
--rope-freq-base =N | LLAMA_ARG_ROPE_FREQ_BASE | | RoPE is as in the model file
--rope-freq-scale =N | LLAMA_ARG_ROPE_FREQ_SCALE | 1 1.0 | RoPE is as in the model file
--yarn-orig-ctx =N | LLAMA_ARG_YARN_ORIG_CTX | 0 | YaRN is as in the model file
--yarn-ext-factor =N | LLAMA_ARG_YARN_EXT_FACTOR | -1 -1.0 | YaRN is as in the model file
--yarn-attn-factor =N | LLAMA_ARG_YARN_ATTN_FACTOR | -1 -1.0 | YaRN is as in the model file
--yarn-beta-slow =N | LLAMA_ARG_YARN_BETA_SLOW | -1 -1.0 | YaRN is as in the model file
--yarn-beta-fast =N | LLAMA_ARG_YARN_BETA_FAST | -1 -1.0 | YaRN is as in the model file
--rpc =SERVERS | LLAMA_ARG_RPC | | nothing is computed elsewhere
-dev --device =LIST | LLAMA_ARG_DEVICE | none | the CPU is the only device
--list-devices | | | the CPU is the only device
-ot --override-tensor =LIST | LLAMA_ARG_OVERRIDE_TENSOR | | the packed kernels decide the numbers
--override-kv =LIST | | | the model file is taken as it is
--lora =FILE | | | adapters are not built
--lora-scaled =LIST | | | adapters are not built
--lora-init-without-apply | | | adapters are not built
--control-vector =FILE | | | control vectors are not built
--control-vector-scaled =LIST | | | control vectors are not built
--control-vector-layer-range =START_END | | | control vectors are not built
-mu --model-url =URL | LLAMA_ARG_MODEL_URL | | models come from files; use -m
-dr --docker-repo =REPO | LLAMA_ARG_DOCKER_REPO | | models come from files; use -m
-hf -hfr --hf-repo =REPO | LLAMA_ARG_HF_REPO | | models come from files; use -m
-hff --hf-file =FILE | LLAMA_ARG_HF_FILE | | models come from files; use -m
-cl --cache-list | | | models come from files; use -m
--completion-bash | | | not built
--models-dir =DIR | LLAMA_ARG_MODELS_DIR | | one model is served; use -m
--models-preset =FILE | LLAMA_ARG_MODELS_PRESET | | one model is served; use -m
-bs --backend-sampling | LLAMA_ARG_BACKEND_SAMPLING | 0 off false disabled | the CPU samples
-lcs --lookup-cache-static =FILE | | | speculative decoding is not built
-lcd --lookup-cache-dynamic =FILE | | | speculative decoding is not built
--spec-type =LIST | LLAMA_ARG_SPEC_TYPE | none | speculative decoding is not built
--spec-default | | | speculative decoding is not built
-md --model-draft --spec-draft-model =FILE | LLAMA_ARG_SPEC_DRAFT_MODEL | | speculative decoding is not built
-hfd -hfrd --hf-repo-draft --spec-draft-hf =REPO | LLAMA_ARG_SPEC_DRAFT_HF_REPO | | speculative decoding is not built
--draft --draft-n --draft-max =N | LLAMA_ARG_DRAFT_MAX | | removed from llama-server
--draft-min --draft-n-min =N | LLAMA_ARG_DRAFT_MIN | | removed from llama-server
--spec-ngram-size-n =N | | | removed from llama-server
--spec-ngram-size-m =N | | | removed from llama-server
--spec-ngram-min-hits =N | | | removed from llama-server
-r --reverse-prompt =PROMPT | | | as a flag not built; send stop with the request
-sp --special | | | control tokens stay out of the text
-mm --mmproj =FILE | LLAMA_ARG_MMPROJ | | images and sound are not built
-mmu --mmproj-url =URL | LLAMA_ARG_MMPROJ_URL | | images and sound are not built
--media-path =DIR | | | images and sound are not built
--path =DIR | LLAMA_ARG_STATIC_PATH | | no static files are served
--api-prefix =PREFIX | LLAMA_ARG_API_PREFIX | | paths have no prefix
--cors-methods =LIST | LLAMA_ARG_CORS_METHODS | | pages of --allow-origin may use all, without credentials
--cors-headers =LIST | LLAMA_ARG_CORS_HEADERS | | pages of --allow-origin may use all, without credentials
--cors-credentials | LLAMA_ARG_CORS_CREDENTIALS | 0 off false disabled | no page may send credentials
--ssl-key-file =FILE | LLAMA_ARG_SSL_KEY_FILE | | TLS is not built; put a proxy in front
--ssl-cert-file =FILE | LLAMA_ARG_SSL_CERT_FILE | | TLS is not built; put a proxy in front
--webui-mcp-proxy --ui-mcp-proxy | LLAMA_ARG_UI_MCP_PROXY | 0 off false disabled | no proxy is built
--tools =LIST | LLAMA_ARG_TOOLS | | the server runs no tools
--mcp-servers-config =FILE | LLAMA_ARG_MCP_SERVERS_CONFIG | | the server runs no tools
--mcp-servers-json =JSON | LLAMA_ARG_MCP_SERVERS_JSON | | the server runs no tools
-ag --agent | LLAMA_ARG_AGENT | 0 off false disabled | the server runs no tools
--no-jinja | LLAMA_ARG_JINJA | 1 on true enabled | chat templates are Jinja's
--skip-chat-parsing | LLAMA_ARG_SKIP_CHAT_PARSING | 0 off false disabled | not built
--no-prefill-assistant | LLAMA_ARG_PREFILL_ASSISTANT | 1 on true enabled | a last assistant message is continued
--reasoning-effort =LEVEL | LLAMA_ARG_REASONING_EFFORT | default | send reasoning_effort with the request
--log-prompts-dir =DIR | | | prompts are not written to files
--embd-gemma-default | | | models come from files; use -m
--fim-qwen-1.5b-default | | | models come from files; use -m
--fim-qwen-3b-default | | | models come from files; use -m
--fim-qwen-7b-default | | | models come from files; use -m
--fim-qwen-7b-spec | | | models come from files; use -m
--fim-qwen-14b-spec | | | models come from files; use -m
--fim-qwen-30b-default | | | models come from files; use -m
--gpt-oss-20b-default | | | models come from files; use -m
--gpt-oss-120b-default | | | models come from files; use -m
--vision-gemma-4b-default | | | models come from files; use -m
--vision-gemma-12b-default | | | models come from files; use -m
"""


def _parse(line: str) -> Foreign:
    spelled, env, allowed, why = [*(part.strip() for part in re.split(r"\s\|(?=\s)", line)), "", "", ""][:4]
    names = tuple(name for name in spelled.split() if not name.startswith("="))
    metavar = next((name[1:] for name in spelled.split() if name.startswith("=")), "")
    return Foreign(names, metavar, env, tuple(allowed.split()), why)


IGNORED = tuple(_parse(line) for line in _IGNORED.strip().splitlines())
REFUSED = tuple(_parse(line) for line in _REFUSED.strip().splitlines())


def refusal(flag: Foreign, value: str | bool) -> str | None:
    """Why a flag with this value is refused (`True` for a switch that was given), None when it changes nothing."""
    if not flag.why or (isinstance(value, str) and value.strip().lower() in flag.allowed):
        return None
    shown = "" if value is True else f" {value}"
    return f"{flag.names[-1]}{shown} is refused: {flag.why}"


def refused_by_environment() -> str | None:
    """Why the environment is refused, None when no variable asks for what is not reproduced."""
    for flag in REFUSED:
        value = os.environ.get(flag.env, "") if flag.env else ""
        if value and value.strip().lower() not in flag.allowed:
            return f"{flag.env}={value} is refused: {flag.why}"
    if os.environ.get("AIP_MODE") == "PREDICTION":  # which has no flag; other values change nothing there either
        return "AIP_MODE=PREDICTION is refused: Vertex AI's protocol is not built"
    return None
