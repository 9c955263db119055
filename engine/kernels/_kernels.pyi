"""The compiled kernels as Python sees them. Each section follows headers bound in bindings*.cpp."""

from collections.abc import Callable, Sequence
from enum import Enum

import numpy as np
from numpy.typing import NDArray

# --- vocabulary.h, bpe.h, spm.h: tokenizers ---------------------------------------------------------------------

class Vocabulary:
    """What tokenizers share. Every `token` must be in the vocabulary."""

    def set_attributes(self, attributes: NDArray[np.uint16], /) -> None: ...
    def encode(self, text: str, parse_special: bool, /) -> list[int]: ...
    def piece(self, token: int, special: bool, /) -> bytes: ...
    def decode(self, tokens: Sequence[int], special: bool, /) -> bytes: ...
    def find(self, text: str, /) -> int: ...
    def in_map_order(self, texts: list[str], /) -> list[int]: ...

class Bpe(Vocabulary):
    """Byte-level byte-pair encoding."""

    def __init__(self, tokens: list[str], merges: list[str], splitters: list[str], ignore_merges: bool, /) -> None: ...
    def split(self, text: str, /) -> list[str]: ...

class Spm(Vocabulary):
    """SentencePiece: pairs merge by the score of the token they make."""

    def __init__(self, tokens: list[str], scores: NDArray[np.float32], add_space_prefix: bool, /) -> None: ...

def char_classes() -> bytes:
    """The pre-tokenizers' class of every code point, one byte each."""

# --- sampler.h: the sampler chain -------------------------------------------------------------------------------

class Stage(Enum):
    PENALTIES = 0
    DRY = 1
    TOP_N_SIGMA = 2
    TOP_K = 3
    TYP_P = 4
    TOP_P = 5
    MIN_P = 6
    XTC = 7
    TEMPERATURE = 8
    INFILL = 9

class Ending(Enum):
    PLAIN = 0
    ADAPTIVE_P = 1
    MIROSTAT = 2
    MIROSTAT_V2 = 3

class SamplerParams:
    def __init__(self) -> None: ...
    seed: int
    min_keep: int
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    temperature: float
    dynatemp_range: float
    dynatemp_exponent: float
    repeat_last_n: int
    repeat_penalty: float
    frequency_penalty: float
    presence_penalty: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float
    adaptive_decay: float
    stages: Sequence[Stage]
    ending: Ending

class InfillVocabulary:
    """The tokens' pieces in order, for the infill sampler.

    Args:
        pieces: of each token, as it is written in a text; b"" for control tokens.
        ending: the tokens that end an answer.
        end: the one to end it with.
    """

    def __init__(self, pieces: Sequence[bytes], ending: Sequence[int], end: int) -> None: ...

class SamplerChain:
    def __init__(
        self,
        params: SamplerParams,
        n_vocab: int,
        bias: Sequence[tuple[int, float]],
        breakers: Sequence[tuple[int, Sequence[int]]],
        keep_candidates: bool,
        infill: InfillVocabulary | None = None,
    ) -> None: ...
    def accept(self, token: int) -> None: ...
    def accept_many(self, tokens: Sequence[int]) -> None: ...
    def sample(self, logits: NDArray[np.float32]) -> int: ...
    def probabilities(self, n_best: int, token: int) -> tuple[float, float, list[tuple[int, float, float]]]: ...
    def candidates(self) -> list[tuple[int, float, float]]: ...

def probabilities(
    logits: NDArray[np.float32], n_best: int, token: int
) -> tuple[float, float, list[tuple[int, float, float]]]:
    """The token's probability, its logarithm, and (token, probability, logarithm) of the `n_best` most likely ones."""

# --- grammar_*.h: grammars ---------------------------------------------------------------------------------------

class GrammarError(ValueError):
    """A grammar that cannot be read, or cannot go on; one line."""

class GrammarRules: ...

def parse_grammar(text: bytes, token_of: Callable[[bytes], int]) -> GrammarRules:
    """GBNF up to its first NUL. `token_of` gives the token of a special token's text, -1 when it is not one token."""

class GrammarPieces:
    """The texts of all tokens by their numbers, special ones' included, and the tokens that end an answer."""

    def __init__(self, pieces: Sequence[bytes], eog: Sequence[int]) -> None: ...

class GrammarTriggers:
    """Tokens, and ECMAScript regular expressions over the answer's text. GrammarError for what is none."""

    def __init__(self, tokens: Sequence[int], patterns: Sequence[str]) -> None: ...

class GrammarMatcher:
    """The grammar of one answer; with triggers it waits for one of them first.

    IndexError for a token outside the vocabulary. GrammarError when the grammar is too ambiguous.
    """

    def __init__(self, rules: GrammarRules, pieces: GrammarPieces, triggers: GrammarTriggers | None) -> None: ...
    def allows(self, token: int) -> bool: ...
    def mask(self, logits: NDArray[np.float32]) -> None:
        """Sets the logits, shape (n_vocab,), of tokens that may not come next to minus infinity, in place."""

    def accept(self, token: int) -> bool:
        """Takes a token. False when the grammar cannot go on after it."""

    @property
    def awaits_trigger(self) -> bool: ...
    @property
    def refused(self) -> tuple[int, bytes]:
        """After `accept` returned False: the token that was not taken, and what of its text the grammar was to read."""

# --- file_map.h: a model file in memory -------------------------------------------------------------------------

class FileMap:
    """A file mapped read-only. A page that the file loses meanwhile reads as zeros, and `intact` says so from then on.

    Raises OSError when the file cannot be mapped; an empty one cannot. The descriptor stays the caller's.
    """

    def __init__(self, descriptor: int) -> None: ...
    @property
    def bytes(self) -> NDArray[np.uint8]:
        """The file, shape (size,): a read-only view that keeps the map alive."""

    @property
    def intact(self) -> bool:
        """Whether all that was read was the file's, and its size and time of change are those it was mapped with."""

    def release(self) -> None:
        """Gives the pages back to the system; they are read again when they are used again."""

# --- string_array.h: the strings of a model file ----------------------------------------------------------------

def skip_strings(bytes: NDArray[np.uint8], count: int) -> tuple[int, int]:
    """How many of an array's strings are whole, `count` at most, and where the next one begins, from the front."""

def decoded_strings(bytes: NDArray[np.uint8]) -> list[str]:
    """The strings of an array, as far as they are whole. UnicodeDecodeError: one is not UTF-8."""

# --- graph.h: the forward pass ----------------------------------------------------------------------------------

class Arena:
    """Memory for packed weights."""

    def __init__(self, bytes: int) -> None: ...

class Matrix:
    """A weight matrix as it lies in the file: `type` is GGUF's number, `data` rows * bytes-a-row bytes."""

    def __init__(self, type: int, data: NDArray[np.uint8], rows: int, cols: int) -> None: ...
    @property
    def packed_bytes(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def cols(self) -> int: ...

class Rope:
    """How queries and keys are rotated; see rope.h for each argument."""

    def __init__(
        self,
        *,
        n_rot: int,
        neox: bool = False,
        freq_base: float = 10000.0,
        freq_scale: float = 1.0,
        yarn: bool = False,
        n_ctx_orig: int = 0,
        attn_factor: float = 1.0,
        freq_factors: Sequence[float] = (),
    ) -> None: ...
    def table(self, n: int) -> NDArray[np.float32]:
        """Cosine, sine, cosine, ... of every pair at positions 0 to n - 1: (n, n_rot)."""

class Graph:
    """Steps over row buffers; see graph.h for each argument."""

    def __init__(
        self,
        isa: str,
        n_threads: int,
        n_rows: int,
        n_ctx: int,
        n_layer: int,
        n_head_kv: int,
        head_size: int,
        rope: Rope,
        *,
        k_type: int = 1,
        v_type: int = 1,
    ) -> None: ...
    @property
    def cache_bytes(self) -> int: ...
    def state_bytes(self, n: int) -> int: ...
    def save_state(self, n: int, state: NDArray[np.uint8]) -> None: ...
    def restore_state(self, n: int, state: NDArray[np.uint8]) -> None: ...
    def buffer(self, width: int, single: bool) -> int: ...
    def next_pass(self) -> int: ...
    def embed(self, table: Matrix, output: int) -> None: ...
    def rms_norm(self, input: int, output: int, weight: NDArray[np.float32], eps: float) -> None: ...
    def linear(
        self,
        input: int,
        weights: list[Matrix],
        outputs: list[int],
        *,
        biases: Sequence[NDArray[np.float32] | None] = (),
        norm_weight: NDArray[np.float32] | None = None,
        norm_eps: float = 0.0,
        up: int = -1,
        residual: int = -1,
        last_row: bool = False,
    ) -> None: ...
    def attention(
        self,
        layer: int,
        q: int,
        k: int,
        v: int,
        output: int,
        n_head: int,
        scale: float,
        *,
        q_norm: NDArray[np.float32] | None = None,
        k_norm: NDArray[np.float32] | None = None,
        norm_eps: float = 0.0,
    ) -> None: ...
    def evaluate(self, tokens: NDArray[np.int32], position: int, output: bool, pass_number: int = 0) -> None: ...
    def row(self, buffer: int, i: int) -> NDArray[np.float32]: ...
    def rows(self, buffer: int, n: int) -> NDArray[np.float32]: ...

def pack(matrices: list[Matrix], arena: Arena, n_threads: int = 1) -> None:
    """Copies weights into the order the kernels read them in, where `packed_bytes` is not 0. The GIL is free."""

def multiply(isa: str, w: Matrix, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """x W^T for x of (n, w.cols): (n, w.rows)."""

def quantize(isa: str, activation: int, x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Rows of activations, (n, cols), as a product takes one alone: (n, bytes), in the layouts of types.h."""

def sum_squares(isa: str, logits: NDArray[np.float32], mean: float) -> float:
    """The squared deviations from a float of the logits but -inf, added up one by one in a float."""

def mean_rows(isa: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean of the rows of x, (n, width) with a width of a multiple of 8: (width,)."""

def soft_max(isa: str, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The softmax of x, (n,): (n,)."""

def descending(scores: Sequence[float]) -> list[int]:
    """The indices of the scores, the highest first, equal ones in the order of C++'s `std::sort`."""

def isa(isa: str = "") -> str:
    """The name of the kernels that run here, or of those asked for; ValueError if they do not."""
