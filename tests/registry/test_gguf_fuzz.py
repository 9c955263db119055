"""Headers of bad faith by the thousand: each is played, refused in lines that say why, or waited for."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from engine.errors import InvalidModelFile
from engine.gguf import scan
from registry import gguf_guard
from testing.fuzz_gguf import EXTREMES, Base, Failure, base_of, changed, check, run
from testing.oracles.small_models import BY_NAME

CPU_SECONDS = 60.0  # of this process
N_CASES = 6000


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    path = tmp_path_factory.mktemp("base") / "small.gguf"
    return base_of(BY_NAME["qwen2-f16"].file().write(path), small=True)


def test_changed_headers_are_played_refused_or_waited_for(tmp_path: Path, model_path: Path) -> None:
    outcome = run(tmp_path, model=model_path, n_cases=N_CASES, cpu_s=CPU_SECONDS)
    print(outcome)
    assert outcome.verdicts.keys() == {"play", "refuse", "need_more"}
    assert outcome.verdicts["refuse"] > outcome.n_cases // 2
    assert outcome.grown_mb < 256


def test_the_fields_that_are_changed_are_the_header_s(base: Base, tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(base.header + base.data)
    header = scan(path)
    assert (len(base.keys), len(base.tensors)) == (len(header.values), len(header.records))
    assert len(base.header) == header.data_start
    texts = [base.header[start:end].decode() for start, end in base.texts]
    assert {*header.values, *(record.name for record in header.records)} <= {*texts}
    offsets = [field.at for field in base.fields if field.kind == "offset"]
    assert [struct.unpack_from("<Q", base.header, at)[0] for at in offsets] == [r.offset for r in header.records]


def test_every_field_of_a_header_at_every_extreme(base: Base, tmp_path: Path) -> None:
    """One tensor's fields stand for those of all, but for the first and the last."""
    path, n_judged = tmp_path / "case.gguf", 0
    between = range(base.tensors[2][0], base.tensors[-1][0])
    for at, size, _ in base.fields:
        if at in between:
            continue
        for value in {extreme % (1 << 8 * size) for extreme in EXTREMES}:
            data = bytearray(base.header + base.data)
            data[at : at + size] = value.to_bytes(size, "little")
            path.write_bytes(data)
            try:
                scan(path).header()
            except InvalidModelFile:
                n_judged += 1
    assert n_judged > 1000


def test_the_same_seed_makes_the_same_file(base: Base) -> None:
    for seed in range(50):
        assert changed(random.Random(seed), base) == changed(random.Random(seed), base)


def test_an_error_that_is_not_the_engine_s_own_is_found(
    base: Base, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise IndexError("oops")

    monkeypatch.setattr(gguf_guard, "check_header", broken)
    path = tmp_path / "case.gguf"
    path.write_bytes(base.header + base.data)
    with pytest.raises(Failure, match=r"judge raised IndexError\('oops'\) \(mainline\)"):
        check(path, opens=True)
