"""A file's tensors as matrices and vectors: views of the map, and a refusal that names the tensor and why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tiny_model import random_matrix

from engine.errors import UnplayableModel
from engine.gguf import GGMLType, GGUFFile
from engine.kernels import multiply
from engine.weights import PLAYED_TYPES, HeaderWeights, Weights
from testing.gguf_writer import ModelFile, TensorData, floats

ROWS, COLS = 24, 256  # whole groups of eight rows
SMAPS = Path("/proc/self/smaps")


@pytest.fixture
def file(tmp_path: Path) -> Iterator[GGUFFile]:
    """A tensor of each type that is played, named for it, and some that are refused."""
    rng = np.random.default_rng(3)
    tensors = {kind.name: random_matrix(kind, ROWS, COLS, rng) for kind in sorted(PLAYED_TYPES)}
    tensors["odd"] = random_matrix(GGMLType.F32, ROWS, 48, rng)
    tensors["unplayed"] = TensorData(GGMLType.IQ3_S, (256, 2), bytes(220))
    tensors["vector"] = floats([1.0, -2.5, 0.0])
    tensors["half"] = TensorData(GGMLType.F16, (3,), np.ones(3, np.float16).tobytes())
    with GGUFFile.open(ModelFile({}, tensors).write(tmp_path / "weights.gguf")) as file:
        yield file


@pytest.mark.parametrize("kind", sorted(PLAYED_TYPES), ids=lambda kind: kind.name)
def test_a_matrix_of_every_played_type_has_its_rows_and_columns(file: GGUFFile, kind: GGMLType) -> None:
    matrix = Weights(file).matrix(kind.name, ROWS, COLS)
    assert (matrix.rows, matrix.cols) == (ROWS, COLS)


def test_a_matrix_is_the_numbers_of_the_file(file: GGUFFile) -> None:
    values = file.data("F32").view(np.float32).reshape(ROWS, COLS)
    one_hot = np.eye(COLS, dtype=np.float32)
    assert multiply("", Weights(file).matrix("F32", ROWS, COLS), one_hot).tobytes() == values.T.tobytes()


def test_a_matrix_asked_for_twice_is_one_matrix(file: GGUFFile) -> None:
    weights = Weights(file)
    assert weights.matrix("Q8_0", ROWS, COLS) is weights.matrix("Q8_0", ROWS, COLS)


def test_a_vector_is_a_read_only_view_of_the_file(file: GGUFFile) -> None:
    vector = Weights(file).vector("vector", 3)
    assert vector.tolist() == [1.0, -2.5, 0.0]
    assert np.shares_memory(vector, file.data("vector"))
    assert not vector.flags.writeable


def test_a_tensor_is_in_the_weights_if_the_file_has_it(file: GGUFFile) -> None:
    weights = Weights(file)
    assert "vector" in weights
    assert "nosuch" not in weights


def test_a_missing_tensor_is_refused(file: GGUFFile) -> None:
    with pytest.raises(UnplayableModel, match=r"^tensor nosuch is missing$"):
        Weights(file).matrix("nosuch", ROWS, COLS)
    with pytest.raises(UnplayableModel, match=r"^tensor nosuch is missing$"):
        Weights(file).vector("nosuch", 3)


@pytest.mark.parametrize(("rows", "cols"), [(ROWS + 8, COLS), (ROWS, COLS + 32), (COLS, ROWS), (1, ROWS * COLS)])
def test_a_matrix_of_another_shape_is_refused(file: GGUFFile, rows: int, cols: int) -> None:
    with pytest.raises(UnplayableModel) as caught:
        Weights(file).matrix("F16", rows, cols)
    assert str(caught.value) == f"tensor F16 has shape [{COLS}, {ROWS}], not [{cols}, {rows}]"


def test_a_vector_of_another_length_or_a_matrix_for_one_is_refused(file: GGUFFile) -> None:
    with pytest.raises(UnplayableModel, match=r"^tensor vector has shape \[3\], not \[4\]$"):
        Weights(file).vector("vector", 4)
    with pytest.raises(UnplayableModel, match=r"^tensor F32 has shape \[256, 24\], not \[6144\]$"):
        Weights(file).vector("F32", ROWS * COLS)


def test_a_matrix_of_a_type_without_a_kernel_is_refused(file: GGUFFile) -> None:
    with pytest.raises(UnplayableModel, match=r"^tensor unplayed is IQ3_S, a type that is not played$"):
        Weights(file).matrix("unplayed", 2, 256)


def test_a_vector_of_another_type_than_f32_is_refused(file: GGUFFile) -> None:
    with pytest.raises(UnplayableModel, match=r"^tensor half is F16, not F32$"):
        Weights(file).vector("half", 3)


def test_rows_that_are_no_whole_number_of_blocks_are_refused(file: GGUFFile) -> None:
    with pytest.raises(UnplayableModel, match=r"^tensor odd has rows of 48 weights, not a multiple of 32$"):
        Weights(file).matrix("odd", ROWS, 48)


def test_an_extent_of_1_at_the_end_says_nothing(tmp_path: Path) -> None:
    rows = TensorData(GGMLType.F32, (64, 1, 1), np.arange(64, dtype=np.float32).tobytes())
    with GGUFFile.open(ModelFile({}, {"a": rows}).write(tmp_path / "ones.gguf")) as file:
        assert Weights(file).matrix("a", 1, 64).cols == 64
        assert Weights(file).vector("a", 64).size == 64


# --- a header's tensors, without their data -------------------------------------------------------------------------


@pytest.fixture
def header(file: GGUFFile) -> HeaderWeights:
    return HeaderWeights(file.tensors)


def test_a_header_hands_out_sizes(header: HeaderWeights) -> None:
    matrix = header.matrix("Q8_0", ROWS, COLS)
    assert (matrix.rows, matrix.cols) == (ROWS, COLS)
    assert header.vector("vector", 3).size == 0
    assert "vector" in header
    assert "nosuch" not in header


def test_a_header_s_problems_are_those_that_a_file_is_refused_with(file: GGUFFile, header: HeaderWeights) -> None:
    asked = [("nosuch", ROWS, COLS), ("F16", COLS, ROWS), ("odd", ROWS, 48), ("unplayed", 2, 256), ("Q8_0", ROWS, COLS)]
    refusals = []
    for name, rows, cols in asked:
        header.matrix(name, rows, cols)
        try:
            Weights(file).matrix(name, rows, cols)
        except UnplayableModel as error:
            refusals.append(str(error))
    for name, n in [("half", 3), ("vector", 4), ("gone", 1)]:
        header.vector(name, n)
        with pytest.raises(UnplayableModel) as caught:
            Weights(file).vector(name, n)
        refusals.append(str(caught.value))
    found = header.problems()
    assert found[0] == refusals[0] + ", and 1 more like it"
    assert refusals[-1] == "tensor gone is missing"
    assert found[1:-1] == refusals[1:-1]
    assert len(found) == 7


def test_a_tensor_that_nobody_asked_for_is_a_problem(file: GGUFFile, header: HeaderWeights) -> None:
    for kind in PLAYED_TYPES:
        header.matrix(kind.name, ROWS, COLS)
    header.vector("vector", 3)
    assert header.problems() == ["tensor odd is none that is played, and 2 more like it"]


def test_a_tensor_s_problem_is_told_once_however_often_it_is_asked_for(header: HeaderWeights) -> None:
    for _ in range(2):
        header.matrix("nosuch", ROWS, COLS)
    assert header.problems()[0] == "tensor nosuch is missing"


def test_a_header_knows_the_types_that_no_kernel_takes_without_being_asked(header: HeaderWeights) -> None:
    assert header.unplayed_types() == ["tensor unplayed is IQ3_S, a type that is not played"]


# --- packing --------------------------------------------------------------------------------------------------------


def test_packing_changes_no_bit_of_any_product(file: GGUFFile) -> None:
    weights = Weights(file)
    x = np.random.default_rng(5).normal(0, 1, (3, COLS)).astype(np.float32)
    matrices = [weights.matrix(kind.name, ROWS, COLS) for kind in sorted(PLAYED_TYPES)]
    before = [multiply("", matrix, x).tobytes() for matrix in matrices]
    weights.pack(matrices)
    assert [multiply("", matrix, x).tobytes() for matrix in matrices] == before
    weights.pack(matrices)  # nothing is packed twice
    assert [multiply("", matrix, x).tobytes() for matrix in matrices] == before


def test_no_matrix_is_no_packing(file: GGUFFile) -> None:
    Weights(file).pack([])


def resident_bytes(path: Path) -> int:
    """Bytes of a mapped file that are in this process's memory, as Linux counts them."""
    found, inside = 0, False
    for line in SMAPS.read_text().splitlines():
        if "-" in line.split(" ")[0]:
            inside = line.endswith(str(path))
        elif inside and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found


def test_packed_matrices_give_their_pages_of_the_map_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    tensors = {
        "packed": random_matrix(GGMLType.Q4_1, 4096, 512, rng),
        "kept": random_matrix(GGMLType.Q6_K, 1024, 512, rng),
    }
    path = ModelFile({}, tensors).write(tmp_path / "large.gguf")
    with GGUFFile.open(path) as file:
        weights = Weights(file)
        packed, kept = weights.matrix("packed", 4096, 512), weights.matrix("kept", 1024, 512)
        sizes = [file.data(name).nbytes for name in ("packed", "kept")]
        x = rng.normal(0, 1, (1, 512)).astype(np.float32)
        before = [multiply("", matrix, x).tobytes() for matrix in (packed, kept)]
        if SMAPS.exists():
            assert resident_bytes(path) >= sum(sizes)
        weights.pack([packed])
        if SMAPS.exists():
            assert resident_bytes(path) < sum(sizes) - sizes[0] // 2
        assert [multiply("", matrix, x).tobytes() for matrix in (packed, kept)] == before
        assert file.data("packed").tobytes() == tensors["packed"].data  # read again from the file
