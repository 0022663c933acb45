"""What a method says it keeps of a row is what it keeps: estimates before a training rest on it."""

import pytest

from oneof.methods import list_methods, make_method
from tests.methods.harness import C, N, fit


@pytest.mark.parametrize("name", [info.name for info in list_methods()])
def test_the_numbers_of_a_row_are_those_that_setup_allocates(name):
    method = make_method(name)
    tables = fit(method, recipe={"epochs": 1}).state.rows.stored()
    kept = sum(table.numel() * table.element_size() for table, _, _ in tables) / 4 / N
    assert abs(method.row_numbers(C) - kept) < 1
