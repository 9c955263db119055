"""The steps between the products against the reference's: rotary positions, attention, norms, the gate."""

from __future__ import annotations

from testing.oracles import engine_operations as ours
from testing.oracles import reference_steps, step_cases
from testing.oracles.comparison import Report
from testing.oracles.reference_ops import Operations


def compare(report: Report) -> None:
    """Compares all of them."""
    operations = Operations()
    with report.group("rope", "f32", "-") as group:
        for case in step_cases.ropes():
            group.compare(case.name, ours.rope_table(case), reference_steps.rope_table(operations, case))
    attentions = {case: reference_steps.attention(case) for case in step_cases.attentions()}
    norms = {case: reference_steps.rms_norm(operations, case) for case in step_cases.norms()}
    gates = {case: reference_steps.swiglu(operations, case) for case in step_cases.gates()}
    for isa in ours.CODE_PATHS:
        with report.group("attention", "f16", isa) as group:
            for attention, expected in attentions.items():
                group.compare(attention.name, ours.attention(isa, attention), expected)
        with report.group("rms_norm", "f32", isa) as group:
            for norm, expected in norms.items():
                group.compare(norm.name, ours.rms_norm(isa, norm), expected)
        with report.group("swiglu", "f32", isa) as group:
            for gate, expected in gates.items():
                group.compare(gate.name, ours.swiglu(isa, gate), expected)
