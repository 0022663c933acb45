"""Risk against coverage: the same as counting rows one by one, and thresholds that keep their promise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneof.classifier.scoring import risk_coverage


def by_hand(confidences, wrong):
    """Slow twin: for every distinct confidence the rows at least as sure."""
    points = []
    for t in sorted(set(confidences), reverse=True):
        answered = [w for c, w in zip(confidences, wrong) if c >= t]
        points.append((t, len(answered) / len(wrong), sum(answered) / len(answered)))
    aurc = 0.0
    for c in confidences:
        answered = [w for other, w in zip(confidences, wrong) if other >= c]
        aurc += sum(answered) / len(answered) / len(wrong)
    return points, aurc


def two_classes(confidences, wrong):
    """Probabilities with these confidences for class 0, and labels that make some of them wrong."""
    c = np.asarray(confidences, dtype=float)
    return np.column_stack([c, 1 - c]), np.asarray(wrong, dtype=int)


@given(
    st.lists(st.tuples(st.sampled_from([0.55, 0.6, 0.7, 0.9, 1.0]), st.booleans()), min_size=1, max_size=12)
)
def test_the_curve_matches_the_slow_twin(rows):
    confidences, wrong = zip(*rows)
    curve = risk_coverage(*two_classes(confidences, wrong))
    points, aurc = by_hand(confidences, wrong)
    np.testing.assert_allclose(np.column_stack([curve.thresholds, curve.coverage, curve.risk]), points)
    assert curve.aurc == pytest.approx(aurc)
    assert curve.coverage[-1] == 1


@given(st.lists(st.tuples(st.floats(0.51, 1.0), st.booleans()), min_size=1, max_size=30), st.floats(0, 0.99))
def test_thresholds_keep_the_risk_and_no_lower_one_does(rows, risk):
    confidences, wrong = map(np.array, zip(*rows))
    threshold = risk_coverage(*two_classes(confidences, wrong)).threshold_for(risk)
    answered = confidences >= threshold
    assert not answered.any() or wrong[answered].mean() <= risk
    for lower in confidences[confidences < threshold]:
        assert wrong[confidences >= lower].mean() > risk


def test_names_and_unknown_labels():
    p = [[0.9, 0.1], [0.2, 0.8]]
    assert risk_coverage(p, ["ant", "bee"], ["ant", "bee"]).risk.tolist() == [0, 0]
    assert risk_coverage(p, ["ant", "cow"], np.array(["ant", "bee"])).risk.tolist() == [0, 0.5]


def test_a_sure_threshold_keeps_the_risk_on_new_rows():
    """In at most 5 % of the repetitions (in fact far fewer) the true risk is above the one asked for."""
    rng = np.random.default_rng(0)
    broken = found = 0
    for _ in range(200):
        c = rng.uniform(0.5, 1, 800)
        wrong = rng.random(800) > c  # calibrated: the risk of answering above t is (1 - t) / 2
        t = risk_coverage(*two_classes(c, wrong)).threshold_for(0.15, sure=0.95)
        found += np.isfinite(t)
        broken += np.isfinite(t) and (1 - max(t, 0.5)) / 2 > 0.15
    assert found > 190
    assert broken <= 10


def test_no_threshold_will_do():
    curve = risk_coverage(*two_classes([0.6, 0.9], [True, True]))
    assert curve.threshold_for(0.5) == float("inf")
    assert curve.threshold_for(0.5, sure=0.9) == float("inf")
    assert curve.aurc == 1


@pytest.mark.parametrize(
    ("p", "labels", "words"),
    [
        ([0.1, 0.9], [0, 1], "shape"),
        ([[0.1, np.nan]], [0], "finite"),
        (np.zeros((0, 2)), [], "shape"),
        ([[0.1, 0.9]], [0, 1], "1 rows of probabilities, but 2 labels"),
        ([[0.1, 0.9]], [[0]], "one label per row"),
    ],
)
def test_inputs_that_cannot_be_meant(p, labels, words):
    with pytest.raises(ValueError, match=words):
        risk_coverage(p, np.array(labels))


def test_settings_that_cannot_be_meant():
    curve = risk_coverage([[0.1, 0.9]], [1])
    with pytest.raises(ValueError, match="risk is 5"):
        curve.threshold_for(5)
    with pytest.raises(ValueError, match="sure is 95"):
        curve.threshold_for(0.1, sure=95)
