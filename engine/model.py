"""One loaded model: its file, tokenizer, chat template, and the graph that evaluates it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from engine.architectures import llama, qwen2, qwen3
from engine.architectures.transformer import Output, TransformerConfig
from engine.chat_template import ChatTemplate
from engine.errors import EngineError, InvalidModelFile, InvalidRequest, UnplayableModel, shown
from engine.ggml_types import GGMLType
from engine.gguf import GGUFFile, GGUFHeader
from engine.graph import Forward, build, multiplied, plan
from engine.hparams import Header
from engine.kernels import Graph, Matrix, Rope, multiply, soft_max
from engine.tokenizer import Tokenizer
from engine.weights import HeaderWeights, Weights

CACHE_TYPES: Final[Mapping[str, GGMLType]] = MappingProxyType({"f16": GGMLType.F16, "q8_0": GGMLType.Q8_0})
MAX_HEAD_SIZE: Final = 512
_ROTATED: Final = re.compile(r"bonsai[\s_-]*2(?!\d)|prism-fork-required", re.IGNORECASE)
MAX_LAYERS: Final = 512  # the reference's bound
_CELLS: Final = 256  # llama.cpp rounds a context up to so many cells


class ForwardPass(Protocol):
    """Records a family's pass."""

    def __call__(self, config: TransformerConfig, weights: Weights, output: Output = "logits") -> Forward: ...


@dataclass(frozen=True, slots=True)
class Architecture:
    """A model family: its name in the header, how its keys are read, its forward pass, and its reranker's head.

    A family with such a head ranks by its last row and gives probabilities; others by their first row (llama.cpp's
    `build_pooling`).
    """

    name: str
    read_config: Callable[[Header], TransformerConfig]
    forward: ForwardPass
    classifier: Callable[[TransformerConfig, Weights], Matrix | None] | None


_ARCHITECTURES: Final[Mapping[str, Architecture]] = MappingProxyType(
    {
        family.NAME: Architecture(family.NAME, family.read_config, family.forward, family.classifier)
        for family in (llama, qwen2, qwen3)
    }
)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is loaded. All but `isa` decide bits, as they do in llama-server.

    Attributes:
        n_ctx: tokens of context; 0 for what the model was trained for, which is also the most. Rounded up to 256.
        n_batch: tokens of a prompt handed to the engine at once.
        n_ubatch: tokens evaluated at once.
        n_threads: threads that compute.
        cache_type_k, cache_type_v: the KV cache's types, "f16" or "q8_0".
        chat_template: instead of the file's; "" for the file's.
        isa: "avx2", "portable", or "" for the fastest that runs here; the bits are the same.
    """

    n_ctx: int = 0
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int = field(default_factory=_processors)
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"
    chat_template: str = ""
    isa: str = ""


@dataclass(frozen=True)
class CheckedHeader:
    """What a header that is played means: everything of a model but its weights.

    Args:
        architecture, config: the family and its sizes.
        metadata: the header's.
        chat_template: instead of the file's; "" for the file's.
    """

    architecture: Architecture
    config: TransformerConfig
    metadata: Mapping[str, Any]
    chat_template: str

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The file's; built when it is first asked for, which takes longer than all that was checked."""
        return Tokenizer.from_gguf(self.metadata)

    @cached_property
    def template(self) -> ChatTemplate:
        """The file's, or the one given; needs the tokenizer."""
        return ChatTemplate.from_gguf(self.metadata, self.tokenizer, self.chat_template)


def check_header(header: GGUFHeader, options: ModelOptions) -> CheckedHeader:
    """Whether a file is played, from its header alone: its keys, its vocabulary and every tensor's type and shape.

    Everything that can be found wrong is found, not only the first, but for two kinds of things: of a vocabulary the
    first, and a chat template that is none only where nothing else is wrong and the file is whole, for compiling it
    takes long. The tokenizer is not built.

    Raises:
        TruncatedModelFile: the file is shorter than its header says.
        InvalidModelFile: the one thing wrong is that the header contradicts itself.
        UnplayableModel: it is not played; `reasons` has all that was found.
    """
    problems = _Problems()
    problems.add(foreign(header.metadata, header.file_name))
    architecture, config = None, None
    with problems.kept():
        architecture = _architecture(header.metadata)
        config = architecture.read_config(Header(header.metadata, architecture.name))
    with problems.kept():
        Tokenizer.check(header.metadata)
    problems.add(_unplayed_caches(options, config))
    misfits = list(_misfits(config, len(header.tensors))) if config else []
    problems.add(misfits)
    weights = HeaderWeights(header.tensors)
    if architecture and config and not misfits:
        architecture.forward(config, weights)
        if architecture.classifier:
            architecture.classifier(config, weights)
        problems.add(weights.problems())
    else:
        problems.add(weights.unplayed_types())
    problems.raise_all()
    assert architecture is not None
    assert config is not None
    header.check_whole()
    ChatTemplate.check(header.metadata, options.chat_template)
    return CheckedHeader(architecture, config, header.metadata, options.chat_template)


class _Problems:
    """What is wrong with a header, each thing once, in the order it was found."""

    def __init__(self) -> None:
        self._found: dict[str, EngineError] = {}

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A refusal raised inside is kept, and ends the block only."""
        try:
            yield
        except (InvalidModelFile, UnplayableModel) as error:
            self._found.setdefault(str(error), error)

    def add(self, reasons: Iterable[str]) -> None:
        for reason in reasons:
            self._found.setdefault(reason, UnplayableModel(reason))

    def raise_all(self) -> None:
        """Raises UnplayableModel with everything found; what stands alone is raised as it was."""
        if len(self._found) == 1:
            raise next(iter(self._found.values()))
        if self._found:
            raise UnplayableModel(*self._found)


class Model:
    """A model ready to answer. Not thread-safe: one caller evaluates at a time."""

    def __init__(self, file: GGUFFile, options: ModelOptions) -> None:
        checked = check_header(file.header, options)
        config = checked.config
        self._file = file
        self.path: Path = file.path
        self.metadata: Mapping[str, Any] = file.metadata
        self.architecture: str = checked.architecture.name
        self.tokenizer = checked.tokenizer
        self.template: ChatTemplate | None = checked.template
        self.n_ctx_train = config.n_ctx_train
        cells = -(-min(options.n_ctx or config.n_ctx_train, config.n_ctx_train) // _CELLS) * _CELLS
        self.n_ctx = min(cells, config.n_ctx_train)  # as llama-server caps a slot's context
        self.n_ubatch = min(options.n_ubatch, options.n_batch, cells)
        self.options = options
        self.n_vocab = config.n_vocab
        self.n_embd = config.n_embd
        self.n_layer = config.n_layer
        self.n_head_kv = config.n_head_kv
        self.head_size = config.head_size
        self.n_params = sum(int(np.prod(t.shape)) for t in file.tensors.values())
        self.size = sum(t.nbytes for t in file.tensors.values())
        self.tensor_types = Counter(t.type.name for t in file.tensors.values())
        weights = Weights(file)
        forward = checked.architecture.forward(config, weights)
        steps = plan(forward)
        self._graph = _graph(config, options, self.n_ubatch, cells, forward.rope)
        weights.pack(multiplied(steps), options.n_threads)
        every_row = plan(checked.architecture.forward(config, weights, "rows"))
        self._logits, self._rows = build(self._graph, steps, every_row)
        self.pooling = config.pooling
        self.n_labels = config.n_labels
        classifier = checked.architecture.classifier
        self._ranks_last = classifier is not None
        self._classifier = classifier(config, weights) if classifier else None
        file.check_intact()

    @classmethod
    def open(cls, path: str | os.PathLike[str], options: ModelOptions | None = None) -> Model:
        """Maps a GGUF file and prepares its graph; weights are copied only where a packed order pays for itself.

        Raises:
            InvalidModelFile: not a whole GGUF v3 file.
            UnplayableModel: a tensor, key or option that is not played; the text names it.
            ModelFileLost: the file was cut or written to meanwhile.
            OSError: the file cannot be read.
        """
        file = GGUFFile.open(path)
        try:
            return cls(file, options or ModelOptions())
        except BaseException:
            file.close()
            raise

    @property
    def logits(self) -> npt.NDArray[np.float32]:
        """The last row's logits, (n_vocab,); a view that the next `evaluate` overwrites."""
        return self._graph.row(self._logits, 0)

    def rank(self, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """A reranker's scores of a text.

        Args:
            rows: the text's, as `rows` gives them.

        Returns:
            (n_labels,). Of a file without a classifier the first values of a row, as in llama.cpp.
        """
        isa = self.options.isa
        scores = rows[-1 if self._ranks_last else 0]
        if self._classifier is not None:
            scores = multiply(isa, self._classifier, scores[np.newaxis])[0]
        if self._ranks_last:
            scores = soft_max(isa, scores)
        return np.array(scores[: self.n_labels], dtype=np.float32)

    @property
    def cache_bytes(self) -> int:
        """Bytes of the KV cache over the whole context; memory is taken only as it fills."""
        return self._graph.cache_bytes

    def evaluate(self, tokens: Sequence[int], position: int, *, output: bool) -> None:
        """Computes one micro-batch: at most `n_ubatch` tokens, the first at `position`.

        What the cache held from `position` on is overwritten. The GIL is released meanwhile.

        Raises:
            InvalidRequest: a token is not in the vocabulary.
            ModelFileLost: the file was cut or written to since it was opened; neither these logits nor what the cache
                holds are to be used.
        """
        self._graph.evaluate(self._batch(tokens), position, output)
        self._file.check_intact()

    def rows(self, tokens: Sequence[int], position: int) -> npt.NDArray[np.float32]:
        """As `evaluate`, to the rows after the last norm: (n_tokens, n_embd), a view that the next one overwrites.

        Raises:
            InvalidRequest, ModelFileLost: as `evaluate`.
        """
        batch = self._batch(tokens)
        self._graph.evaluate(batch, position, False, pass_number=1)
        self._file.check_intact()
        return self._graph.rows(self._rows, batch.size)

    def _batch(self, tokens: Sequence[int]) -> npt.NDArray[np.int32]:
        batch = np.asarray(tokens, dtype=np.int32)
        if batch.size and (int(batch.min()) < 0 or int(batch.max()) >= self.n_vocab):
            raise InvalidRequest("a token is not in the vocabulary")
        return batch

    def state_bytes(self, n_tokens: int) -> int:
        """Bytes the KV cache takes for `n_tokens` positions."""
        return self._graph.state_bytes(n_tokens)

    def cache_state(self, n_tokens: int) -> npt.NDArray[np.uint8]:
        """A copy of what the KV cache holds of its first `n_tokens` positions, for `restore_cache`: (bytes,)."""
        state = np.empty(self.state_bytes(n_tokens), dtype=np.uint8)
        self._graph.save_state(n_tokens, state)
        return state

    def state_size(self, n_tokens: int) -> int:
        """Bytes of llama.cpp's state of `n_tokens` positions (llama-kv-cache.cpp: `state_write`).

        The rows of keys and values; four numbers, three a position, and two a layer and kind, before them.
        """
        return 8 + (8 + 12 * n_tokens + 24 * self.n_layer + self.state_bytes(n_tokens) if n_tokens else 0)

    def restore_cache(self, state: npt.NDArray[np.uint8], n_tokens: int) -> None:
        """Puts back what `cache_state` gave for `n_tokens` positions.

        Raises:
            ValueError: it is of another length; the cache is as it was.
        """
        self._graph.restore_state(n_tokens, state)

    def check_intact(self) -> None:
        """Raises ModelFileLost if the file was cut or written to since it was opened."""
        self._file.check_intact()

    @property
    def file_stat(self) -> os.stat_result:
        """The file that is open, as it was when it was opened."""
        return self._file.stat

    def close(self) -> None:
        """Frees the cache and the map."""
        del self._graph, self._classifier
        self._file.close()


def _architecture(metadata: Mapping[str, Any]) -> Architecture:
    name = metadata.get("general.architecture")
    found = _ARCHITECTURES.get(name) if isinstance(name, str) else None
    if found is None:
        raise UnplayableModel(f"general.architecture is {shown(name)}, which is not played")
    return found


def foreign(values: Mapping[str, Any], file_name: str) -> Iterator[str]:
    """What makes a file another thing than its architecture says, by its keys and its name."""
    n_files = values.get("split.count")
    if isinstance(n_files, int) and n_files > 1:
        yield f"split.count is {n_files}: a model in several files, which is not played"
    for name in (values.get("general.name"), values.get("general.basename"), file_name):
        if isinstance(name, str) and _ROTATED.search(name):
            yield f"{name!r} is a Bonsai 2: its weights are in a rotated basis, which llama.cpp does not turn back"
            return


def _misfits(config: TransformerConfig, n_tensors: int) -> Iterator[str]:
    """Which sizes do not fit the kernels or each other."""
    if config.n_layer > MAX_LAYERS:
        yield f"the model has {config.n_layer} layers, more than {MAX_LAYERS}"
    elif config.n_layer > n_tensors:  # each has several: there is no need to name all that are missing
        yield f"the model has {config.n_layer} layers, but {n_tensors} tensors"
    if config.head_size % 8 or not 0 < config.head_size <= MAX_HEAD_SIZE:
        yield f"attention heads have {config.head_size} dimensions, which is not played"
    if config.n_head % config.n_head_kv:
        yield f"{config.n_head} heads do not share {config.n_head_kv} key/value heads evenly"


def _unplayed_caches(options: ModelOptions, config: TransformerConfig | None) -> Iterator[str]:
    for which, kind in (("K", options.cache_type_k), ("V", options.cache_type_v)):
        if kind not in CACHE_TYPES:
            yield f"the KV cache type {kind!r} is not played"
        elif config and config.head_size % CACHE_TYPES[kind].block_size:
            yield (
                f"a {which} cache of {kind} holds blocks of {CACHE_TYPES[kind].block_size}, "
                f"and attention heads have {config.head_size} dimensions"
            )


def _graph(config: TransformerConfig, options: ModelOptions, n_ubatch: int, cells: int, rope: Rope) -> Graph:
    try:
        return Graph(
            options.isa,
            options.n_threads,
            n_ubatch,
            cells,
            config.n_layer,
            config.n_head_kv,
            config.head_size,
            rope,
            k_type=CACHE_TYPES[options.cache_type_k],
            v_type=CACHE_TYPES[options.cache_type_v],
        )
    except RuntimeError as error:  # the system starts no more threads
        raise EngineError(f"{options.n_threads} threads cannot be started: {error}") from error
