"""Theorems 1 and 2 with errors of chosen size, and the reference values."""

import numpy as np
import pytest

from oneof.lab.theory.posteriors import POSTERIORS, RandomLogits
from oneof.lab.theory.reference import REFERENCE, compare
from oneof.lab.theory.report import Findings, as_markdown, as_values, verdicts
from oneof.lab.theory.theorems import check_theorems, fit_margin, known_gaps, running_bound


@pytest.fixture(scope="module")
def full_size():
    """As many draws as the reference values, from the same posteriors."""
    return check_theorems(RandomLogits(), rows=200_000, seed=0)


def test_reference_values_within_monte_carlo_error(full_size):
    compared = [comparison for check in full_size for comparison in compare(check)]
    assert len(compared) == 39
    wrong = [comparison for comparison in compared if not comparison.agrees]
    assert not wrong


@pytest.mark.parametrize("seed", [11, 12])
def test_reference_values_from_other_draws(seed):
    checks = check_theorems(RandomLogits(), rows=60_000, seed=seed, sweep=(0.01, 0.05, 0.1, 0.2))
    assert [c for check in checks for c in compare(check) if not c.agrees] == []


def test_the_comparison_notices_a_wrong_error_size():
    """A probe with errors 15 % too large must not pass."""
    (check,) = check_theorems(RandomLogits(), rows=60_000, seed=1, epsilons=(0.1,), sweep=(0.115, 0.23))
    check.sweep[0].epsilon_reduced, check.sweep[1].epsilon_reduced = 0.1, 0.2
    assert sum(not c.agrees for c in compare(check)) >= 3


def test_exact_figures_are_those_of_the_reference(full_size):
    """Without random errors nothing but rounding is left: the posteriors are the probe's own."""
    for check in full_size:
        reference = REFERENCE[check.epsilon]
        assert check.p_j == pytest.approx(reference.p_j, abs=5.1e-4)
        assert check.bound == pytest.approx(reference.bound, rel=0.02)
        assert check.margin.constant == pytest.approx(reference.constant, abs=0.051)
        for row in check.sweep:
            if row.epsilon_reduced in reference.reduced:
                assert row.worst == pytest.approx(reference.reduced[row.epsilon_reduced][1], abs=5.5e-4)


def test_equal_errors_favour_the_model_without_the_disturbing_label(full_size):
    for check in full_size:
        row = next(r for r in check.sweep if r.epsilon_reduced == check.epsilon)
        assert row.random > check.f_random + 0.1


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("excluded", [1, 2])
def test_every_statement_holds(name, excluded):
    checks = check_theorems(POSTERIORS[name], rows=20_000, seed=7, excluded=excluded)
    for check in checks:
        assert check.f_worst == check.guaranteed_f == 0
        assert check.at_bound_random == check.at_bound_worst == 1 >= check.f_random
        for row in check.sweep:
            assert row.worst == row.identity <= row.random
            assert row.worst_apart >= row.pointwise >= row.bound
    found = Findings("oneof theory", 1.0, {name: checks}, {}, 0.05, 7, {})
    assert all(verdict.holds for verdict in verdicts(found))


def test_four_labels_and_all_but_two_excluded():
    (check,) = check_theorems(RandomLogits(4), rows=20_000, seed=0, epsilons=(0.1,), excluded=2)
    assert check.at_bound_worst == 1
    assert [row.worst for row in check.sweep] == [row.identity for row in check.sweep]


def test_margin_fit_recovers_known_constants():
    """Margins with P(margin ≤ t) = (t / 0.3)^0.8, so C = 0.3^-0.8; errors as large as they say."""
    misses = []
    for seed in range(40):
        margin = 0.3 * np.random.default_rng(seed).random(20_000) ** (1 / 0.8)
        fit = fit_margin(margin)
        misses.append([(fit.exponent - 0.8) / fit.exponent_se, (fit.constant - 0.3**-0.8) / fit.constant_se])
        shares = [(t, np.mean(margin <= t)) for t in np.quantile(margin, [0.01, 0.1, 0.5, 1.0])]
        assert all(share <= fit.holding_constant * t**fit.exponent * 1.05 for t, share in shares)
    assert np.abs(np.mean(misses, axis=0)).max() < 0.6
    assert np.std(misses, axis=0) == pytest.approx([1.0, 1.0], abs=0.35)


def test_too_few_margins_to_fit():
    with pytest.raises(ValueError, match="draw more"):
        fit_margin(np.full(50, 0.5))


def test_the_bound_vanishes_with_the_sample():
    counts, bounds = running_bound(known_gaps(RandomLogits(), 50_000, seed=2), epsilon=0.1)
    assert counts[0] == 1
    assert (np.diff(bounds) <= 0).all()
    assert bounds[-1] < 1e-4 < bounds[0]


def test_c_of_j_cancels_epsilon_in_theorem_2(full_size):
    """On J the margin is at most 2 epsilon, so C grows like (2 epsilon)^-lambda: nothing is gained."""
    products = [c.margin.constant * (2 * c.epsilon) ** c.margin.exponent for c in full_size]
    assert all(0.9 < product < 1.5 for product in products)


def test_the_tables_and_values_of_a_run(full_size):
    found = Findings("oneof theory", 1.0, {"random logits": full_size}, {}, 0.05, 0, {})
    text = as_markdown(found)
    assert "| yes" in text
    assert "NO" not in text
    values = as_values(found)
    assert values["theorems"]["random logits"][1]["epsilon"] == 0.1
    assert values["versions"]["numpy"] == np.__version__
    full_size[0].f_worst = 0.5
    assert not verdicts(found)[0].holds
    full_size[0].f_worst = 0.0
