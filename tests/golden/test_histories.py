"""Trainings give the numbers they gave before; `histories.py` says how to store others, and when."""

import pytest

from tests.golden import histories

CASES = histories.cases()
STORED = histories.read()


def test_every_training_is_stored():
    assert list(CASES) == list(STORED)


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(name):
    relative = histories.RELATIVE_IMAGES if name.endswith("images") else histories.RELATIVE
    wrong = list(histories.differences(histories.numbers(CASES[name]), STORED[name], relative))
    assert not wrong, f"{len(wrong)} numbers differ (where, now, before): {wrong[:5]}"
