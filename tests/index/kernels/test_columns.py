import numpy as np

from index.kernels.columns import grown


def test_a_column_grows_to_twice_its_length_and_keeps_its_begin() -> None:
    column = np.arange(6).reshape(3, 2)
    larger = grown(column)
    assert larger.shape == (6, 2)
    assert larger[:3].tolist() == column.tolist()
