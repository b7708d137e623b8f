import numpy as np
import pytest

from isorep import InputError, Representation
from isorep.representation import as_representation, match_rows


def rep(n, ids=None, name="a"):
    return Representation(np.arange(2.0 * n).reshape(n, 2), ids, name)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros(4), "rows"),
        (np.zeros((3, 2, 4)), r"reshape\(len\(values\), -1\)"),
        (np.zeros((5, 3, 8, 8)), r"values.mean\(axis=\(2, 3\)\)"),
        (np.zeros((4, 2), int), "integers"),
        (np.zeros((4, 2), bool), "booleans"),
        (np.zeros((4, 2), complex), "complex"),
        (np.array([[1, "a"]], object), "objects"),
        ([[1.0, 2.0], [3.0]], "rectangular"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros((3, 0)), "empty"),
        (np.array([["a", "b"]]), "numbers"),
        (np.ma.masked_array(np.zeros((3, 2)), mask=np.eye(3, 2)), "masked"),
    ],
)
def test_values_that_are_no_representation_are_refused_with_the_reason(values, words):
    with pytest.raises(InputError, match=words):
        Representation(values, name="run")


def test_sparse_values_become_dense_up_to_a_limit(monkeypatch):
    from scipy.sparse import coo_matrix, csr_matrix

    for form in (csr_matrix, coo_matrix):
        np.testing.assert_array_equal(Representation(form(np.eye(3))).values, np.eye(3))
    monkeypatch.setattr("isorep.annotated.DENSE_LIMIT", 71)
    with pytest.raises(InputError, match="run is sparse, and its 3 x 3 values would take"):
        Representation(csr_matrix(np.eye(3)), name="run")


def test_names_of_features_are_kept_unless_they_only_count():
    assert Representation(np.eye(2), columns=["area", "mass"]).columns == ("area", "mass")
    assert Representation(np.eye(2), columns=["0", "1"]).columns is None
    with pytest.raises(InputError, match="2 columns and 1 names"):
        Representation(np.eye(2), columns=["area"])


def test_an_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)


def test_duplicate_ids_are_named_with_their_rows():
    with pytest.raises(InputError, match=r"'b' is on rows 1 and 3"):
        rep(4, ["a", "b", "c", "b"])


def test_ids_of_another_length_are_refused():
    with pytest.raises(InputError, match=r"4 rows"):
        rep(4, ["a", "b"])


def test_a_data_frame_brings_its_index_as_ids():
    import pandas as pd

    frame = pd.DataFrame(np.eye(3), index=["x", "y", "z"])
    taken = as_representation(frame, "frame")
    assert taken.ids.tolist() == ["x", "y", "z"]
    assert taken.shape == (3, 3)


def test_equal_ids_match_whatever_their_kind():
    assert match_rows(rep(3, [1, 2, 3]), rep(3, ["1", "2", "3"], "b")).source_rows is None


def test_another_order_is_refused_with_the_first_row_that_differs():
    with pytest.raises(InputError, match=r"another order: row 1 is 'q' in a and 'r' in b.*--join"):
        match_rows(rep(3, ["p", "q", "r"]), rep(3, ["p", "r", "q"], "b"))


def test_other_ids_are_refused_with_count_and_first_of_each_side():
    with pytest.raises(InputError, match=r"1 row of a not in b \(first: row 0, 'p'\); 2 rows of b not in a"):
        match_rows(rep(2, ["p", "q"]), rep(3, ["q", "s", "t"], "b"))


def test_other_lengths_without_ids_are_refused_with_the_first_unpaired_row():
    with pytest.raises(InputError, match=r"a has 3 rows and b has 5: b has no partner from row 3 on"):
        match_rows(rep(3), rep(5, name="b"))


def test_join_keeps_common_ids_in_the_sources_order_and_counts_the_rest():
    match = match_rows(rep(4, ["d", "a", "x", "b"]), rep(3, ["a", "b", "d"], "b"), join=True)
    assert match.source_rows.tolist() == [0, 1, 3]
    assert match.target_rows.tolist() == [2, 0, 1]
    assert (match.dropped_from_source, match.dropped_from_target) == (1, 0)


def test_join_needs_ids_on_both_sides_and_one_in_common():
    with pytest.raises(InputError, match="b has no row ids"):
        match_rows(rep(3, ["a", "b", "c"]), rep(3, name="b"), join=True)
    with pytest.raises(InputError, match="share no row id"):
        match_rows(rep(2, ["a", "b"]), rep(2, ["c", "d"], "b"), join=True)
