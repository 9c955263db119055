"""A forward pass as it is written in engine/architectures/, and its plan as the kernels walk it.

An architecture calls the methods of `Forward` in the order of the paper; each returns a `Value`, the rows of one
intermediate result. `plan` then joins what can be joined without changing a bit: a product takes along the norm or the
SwiGLU before it and the residual after it, attention the norms of its queries and keys, and products of one input
become one step.

A pass ends in the logits of a micro-batch's last row, or in every row, normed (`Transformer.logits`,
`Transformer.embeddings`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from engine.kernels import Graph, Matrix, Rope

FloatArray = npt.NDArray[np.float32]
Op = Literal["embedding", "rms_norm", "linear", "swiglu", "add", "attention", "last_row"]


@dataclass(eq=False, slots=True)
class Value:
    """The rows of an intermediate result: one a token of the micro-batch, or only the last one (`single`)."""

    op: Op
    inputs: tuple[Value, ...]
    width: int
    single: bool = False
    weight: Matrix | None = None
    bias: FloatArray | None = None
    norm: FloatArray | None = None
    scale: float = 0.0
    layer: int = 0
    n_head: int = 0


@dataclass(slots=True)
class Step:
    """One step of the plan. `reads` and `writes` are values that live in buffers."""

    op: Literal["embedding", "linear", "attention", "rms_norm"]
    reads: list[Value]
    writes: list[Value]
    nodes: list[Value]
    norm: Value | None = None
    q_norm: Value | None = None
    k_norm: Value | None = None
    up: Value | None = None
    residual: Value | None = None


@dataclass(slots=True)
class Forward:
    """Records a forward pass.

    Args:
        rope: how its attention rotates queries and keys.
    """

    rope: Rope
    values: list[Value] = field(default_factory=list)

    def _new(self, value: Value) -> Value:
        self.values.append(value)
        return value

    def embedding(self, table: Matrix) -> Value:
        """The table's rows of the batch's tokens: (n, table.cols)."""
        return self._new(Value("embedding", (), table.cols, weight=table))

    def rms_norm(self, x: Value, weight: FloatArray, eps: float) -> Value:
        """x / sqrt(mean(x^2) + eps) * weight, for each row or, with fewer weights, each stretch of so many values."""
        return self._new(Value("rms_norm", (x,), x.width, x.single, norm=weight, scale=eps))

    def linear(self, x: Value, weight: Matrix, bias: FloatArray | None = None) -> Value:
        """x W^T (+ bias): (n, weight.rows)."""
        return self._new(Value("linear", (x,), weight.rows, x.single, weight=weight, bias=bias))

    def swiglu(self, gate: Value, up: Value) -> Value:
        """silu(gate) * up."""
        return self._new(Value("swiglu", (gate, up), gate.width, gate.single))

    def add(self, x: Value, residual: Value) -> Value:
        """x + residual."""
        return self._new(Value("add", (x, residual), x.width, x.single))

    def attention(self, layer: int, q: Value, k: Value, v: Value, *, n_head: int, scale: float) -> Value:
        """Causal attention of the rotated queries over the layer's cache, the batch's keys and values included."""
        return self._new(Value("attention", (q, k, v), q.width, layer=layer, n_head=n_head, scale=scale))

    def last_row(self, x: Value) -> Value:
        """The row whose logits are wanted; steps after it run only when they are."""
        return self._new(Value("last_row", (x,), x.width, single=True))


def _source(value: Value) -> Value:
    """The value whose buffer holds this one's rows."""
    return _source(value.inputs[0]) if value.op == "last_row" else value


def plan(forward: Forward) -> list[Step]:
    """The steps that compute every value of a recorded pass, in order.

    Raises:
        ValueError: a norm, SwiGLU or sum stands where no other step can take it along.
    """
    users: Counter[int] = Counter(id(i) for v in forward.values for i in v.inputs)
    sums = {id(v.inputs[0]): v for v in forward.values if v.op == "add"}
    steps: list[Step] = []
    absorbed: set[int] = set()
    for value in forward.values:
        if value.op == "embedding":
            steps.append(Step("embedding", [], [value], [value]))
        elif value.op == "rms_norm" and value is forward.values[-1]:  # its rows are what is wanted
            steps.append(Step("rms_norm", [_source(value.inputs[0])], [value], [value]))
            absorbed.add(id(value))
        elif value.op == "attention":
            steps.append(_attention_step(value))
            absorbed.update(id(v) for v in value.inputs)
        elif value.op == "linear":
            total = sums.get(id(value))
            if total is not None and users[id(value)] != 1:
                raise ValueError("a product with a residual has another use")
            _add_linear(steps, value, total)
            absorbed.update(id(v) for v in (value.inputs[0], total) if v is not None)
    for value in forward.values:
        if value.op in ("rms_norm", "swiglu", "add") and id(value) not in absorbed:
            raise ValueError(f"no step takes this {value.op} along")
    return steps


def _attention_step(value: Value) -> Step:
    q, k, v = value.inputs
    head_size = value.width // value.n_head
    q_norm, k_norm = (x if x.op == "rms_norm" else None for x in (q, k))
    for norm in (q_norm, k_norm):
        if norm is not None and (_weights_of(norm) != head_size or norm.scale != (q_norm or norm).scale):
            raise ValueError("attention norms heads, queries as keys")
    reads = [_source(x.inputs[0] if x.op == "rms_norm" else x) for x in (q, k, v)]
    return Step("attention", reads, [value], [value], q_norm=q_norm, k_norm=k_norm)


def _weights_of(norm: Value) -> int:
    return 0 if norm.norm is None else norm.norm.size


def _add_linear(steps: list[Step], product: Value, total: Value | None) -> None:
    x = product.inputs[0]
    last = steps[-1] if steps else None
    if last and last.op == "linear" and last.residual is None and total is None and last.nodes[0].inputs[0] is x:
        last.nodes.append(product)
        last.writes.append(product)
        return
    step = Step("linear", [], [total or product], [product])
    if x.op == "rms_norm":
        if _weights_of(x) != x.width:
            raise ValueError("a product norms rows, not heads")
        step.norm = x
        x = x.inputs[0]
    elif x.op == "swiglu":
        step.up = _source(x.inputs[1])
        step.reads.append(step.up)
        x = x.inputs[0]
    step.reads.insert(0, _source(x))
    if total is not None:
        step.residual = _source(total.inputs[1])
        step.reads.append(step.residual)
    steps.append(step)


def multiplied(steps: Sequence[Step]) -> list[Matrix]:
    """The matrices of a plan's products, each once; an embedding table is among them only if it is the output too."""
    nodes = (node for step in steps if step.op == "linear" for node in step.nodes)
    return list({id(node.weight): node.weight for node in nodes if node.weight is not None}.values())


Spare = dict[tuple[int, bool], list[int]]


def build(graph: Graph, *plans: Sequence[Step]) -> list[int]:
    """Writes plans into the compiled graph, each as a pass; a buffer is used again once nothing reads it any more.

    Returns:
        The buffer of each pass's result, which lasts until the next evaluation.
    """
    results: list[int] = []
    spare: Spare = {}
    for steps in plans:
        if results:
            graph.next_pass()
        results.append(_build_pass(graph, steps, spare))
    return results


def _build_pass(graph: Graph, steps: Sequence[Step], free: Spare) -> int:
    last_use = {id(value): i for i, step in enumerate(steps) for value in (*step.writes, *step.reads)}
    buffers: dict[int, int] = {}
    for i, step in enumerate(steps):
        for value in step.writes:
            spare = free.get((value.width, value.single))
            buffers[id(value)] = spare.pop() if spare else graph.buffer(value.width, value.single)
        _emit(graph, step, buffers)
        for value in {id(v): v for v in (*step.reads, *step.writes)}.values():
            if last_use[id(value)] == i:
                free.setdefault((value.width, value.single), []).append(buffers[id(value)])
    return buffers[id(steps[-1].writes[0])]


def _emit(graph: Graph, step: Step, buffers: dict[int, int]) -> None:
    def at(value: Value | None) -> int:
        return -1 if value is None else buffers[id(value)]

    node = step.nodes[0]
    if step.op == "embedding":
        assert node.weight is not None
        graph.embed(node.weight, at(node))
    elif step.op == "rms_norm":
        assert node.norm is not None
        graph.rms_norm(at(step.reads[0]), at(node), node.norm, node.scale)
    elif step.op == "attention":
        q, k, v = step.reads
        norm = step.q_norm or step.k_norm
        graph.attention(
            *(node.layer, at(q), at(k), at(v), at(node), node.n_head, node.scale),
            q_norm=step.q_norm.norm if step.q_norm else None,
            k_norm=step.k_norm.norm if step.k_norm else None,
            norm_eps=norm.scale if norm else 0.0,
        )
    else:
        graph.linear(
            at(step.reads[0]),
            [n.weight for n in step.nodes if n.weight is not None],
            [at(v) for v in step.writes],
            biases=[n.bias for n in step.nodes],
            norm_weight=step.norm.norm if step.norm else None,
            norm_eps=step.norm.scale if step.norm else 0.0,
            up=at(step.up),
            residual=at(step.residual),
            last_row=node.single,
        )
