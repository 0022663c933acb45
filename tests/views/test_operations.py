"""The operations of the policies, pixel for pixel as Pillow computes them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from oneof.views.operations import (
    BLENDS,
    LOOKS_UP,
    MOVES,
    OPERATIONS,
    _blended,
    _looked_up,
    _moved,
    apply_operations,
)
from oneof.views.policies import CIFAR_POLICY, DRAWS, apply_policy, rand_augment, simple_pairs
from tests.views.pillow import pictures, reference

LEVELS = (0, 1, 2, 3, 4, 4.5, 5, 6, 7, 8, 9)  # 4.5 is RandAugment's


def operated(x, name, level, sign):
    n = len(x)
    number = torch.full((n,), OPERATIONS.index(name))
    return apply_operations(x, number, torch.full((n,), float(level)), torch.full((n,), float(sign)))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("size", "channels"), [(28, 1), (32, 3), (33, 3), (64, 3)])
def test_an_operation_is_pillows_bit_for_bit(name, size, channels):
    x = pictures(size, channels)
    for level in LEVELS:
        for sign in (1, -1):
            made = operated(x, name, level, sign)
            assert made.dtype == torch.uint8
            expected = np.stack([reference(name, image, level, sign) for image in x.numpy()])
            np.testing.assert_array_equal(made.numpy(), expected, err_msg=f"level {level}, sign {sign}")


@given(
    pixels=st.sampled_from([(1, 5, 5), (3, 5, 5), (3, 4, 7)]).flatmap(lambda s: arrays(np.uint8, s)),
    name=st.sampled_from(OPERATIONS),
    level=st.sampled_from(LEVELS),
    sign=st.sampled_from([1, -1]),
)
@settings(max_examples=300)
def test_any_small_image_is_pillows(pixels, name, level, sign):
    made = operated(torch.as_tensor(pixels)[None], name, level, sign)[0]
    np.testing.assert_array_equal(made.numpy(), reference(name, pixels, level, sign))


def test_all_colours_have_pillows_grey():
    """Colour at factor 0.1 shows the grey behind every 16th value of each channel."""
    values = np.arange(0, 256, 15, dtype=np.uint8)
    pixels = np.stack(np.meshgrid(values, values, values)).reshape(3, len(values), -1)
    made = operated(torch.as_tensor(pixels)[None], "colour", 9, -1)[0]
    np.testing.assert_array_equal(made.numpy(), reference("colour", pixels, 9, -1))


def test_identity_changes_nothing():
    x = pictures(32, 3)
    assert torch.equal(operated(x, "identity", 9, -1), x)
    for name in set(OPERATIONS) - {"autocontrast", "equalize", "invert"}:  # these have no strength
        assert torch.equal(operated(x, name, 0, 1), x), name


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_does_not_depend_on_the_others(channels):
    rng = np.random.default_rng(1)
    x = pictures(16, channels).repeat(10, 1, 1, 1)
    operation = torch.as_tensor(rng.permutation(np.arange(len(x)) % len(OPERATIONS)))
    level = torch.as_tensor(rng.integers(0, 10, len(x)), dtype=torch.float32)
    sign = torch.as_tensor(rng.choice([-1.0, 1.0], len(x)), dtype=torch.float32)
    before = x.clone()
    together = apply_operations(x, operation, level, sign)
    assert torch.equal(x, before)  # the stored images stay as they are
    for i in range(len(x)):
        alone = apply_operations(*(part[i : i + 1] for part in (x, operation, level, sign)))
        assert torch.equal(together[i], alone[0]), OPERATIONS[operation[i]]


def test_off_the_cpu_no_branch_depends_on_the_data():
    """Tensors without content go through: nothing ever looks at a value."""
    x = torch.zeros(4, 3, 16, 16, dtype=torch.uint8, device="meta")
    table = CIFAR_POLICY.table(torch.device("meta"))
    made = apply_policy(x, CIFAR_POLICY, table, torch.rand(4, DRAWS, device="meta"))
    assert made.shape == x.shape
    assert made.dtype == torch.uint8


@pytest.mark.parametrize("channels", [1, 3])
def test_stages_leave_images_with_other_operations_alone(channels):
    """What a GPU does with all images is what a CPU does with those that need it."""
    x = pictures(16, channels).repeat(5, 1, 1, 1)
    operation = torch.arange(len(x)) % len(OPERATIONS)
    part = torch.arange(len(x)).double() % 10 / 9
    factor = (1 + 0.9 * part).float()
    for names, made in (
        (MOVES, _moved(x, operation, part)),
        (LOOKS_UP, _looked_up(x, operation, part, factor)),
        (BLENDS, _blended(x, operation, factor)),
    ):
        for number, before, after in zip(operation.tolist(), x, made):
            if OPERATIONS[number] not in names:
                assert torch.equal(before, after), OPERATIONS[number]
    assert ("identity", *MOVES, *LOOKS_UP, *BLENDS) == OPERATIONS


# ---- policies ---------------------------------------------------------------------------------


def test_policies_name_operations_and_stay_in_range():
    assert len(CIFAR_POLICY.rows) == 25
    assert len(rand_augment().rows) == 14
    for policy in (CIFAR_POLICY, rand_augment(), simple_pairs()):
        for row in policy.rows:
            for name, probability, level in row:
                assert name in OPERATIONS
                assert 0 <= probability <= 1
                assert 0 <= level <= 9


@pytest.mark.parametrize(
    "policy",
    [CIFAR_POLICY, rand_augment(9), simple_pairs()],
    ids=["autoaugment", "randaugment", "simple"],
)
def test_a_policy_is_two_operations_in_a_row(policy):
    """Against a loop over the images, with Pillow for the operations."""
    x = pictures(20, 3).repeat(12, 1, 1, 1)
    draws = torch.rand(len(x), DRAWS, generator=torch.Generator().manual_seed(0))
    made = apply_policy(x, policy, policy.table(torch.device("cpu")), draws)
    changed = 0
    for pixels, got, u in zip(x.numpy(), made.numpy(), draws.tolist()):
        rows = [int(u[0] * len(policy.rows))] * 2
        if not policy.together:
            rows[1] = int(u[1] * len(policy.rows))
        expected = pixels
        for slot in (0, 1):
            name, probability, level = policy.rows[rows[slot]][slot]
            if u[2 + slot] < probability:
                expected = reference(name, expected, level, -1 if u[4 + slot] < 0.5 else 1)
        np.testing.assert_array_equal(got, expected)
        changed += not np.array_equal(got, pixels)
    assert changed > len(x) / 3
