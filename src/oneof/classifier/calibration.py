"""Confidence that means something: one temperature for a network's logits, and how many labels are wrong.

A temperature T divides the logits: the order of the classes stays, only how sure the model is changes. It
is the T under which rows that the model has not learned from are most likely: with known labels their
log-probability (Guo et al., ICML 2017), with candidate sets that of the whole set, which is the likelihood of
the labels where a set says nothing beyond "one of these". Sets whose wrong labels look like the right one
leave the model too sure; known labels do not, but a few of them say little: they correct what the sets say.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from oneof.candidates.compact import restricted
from oneof.methods.targets import EXPONENT

if TYPE_CHECKING:  # most fits compare nothing
    from oneof.classifier.contenders import ChoiceData, Contender

COOLEST, HOTTEST = 0.05, 20.0
TINY = 1e-12
ENOUGH = 20
"""Known labels from which on a temperature can go by them alone."""
PRIOR_WIDTH = 0.5
"""How far, in logarithms, a temperature may be from the expected one: little changes between 0.3 and 1."""


def temperature(probabilities: np.ndarray, mask: np.ndarray, expected: float | None = None) -> float:
    """The temperature under which labels or sets (`mask`) of rows that are new to the model are likeliest.

    The fewer rows, the nearer is the result to the temperature `expected` without them, where one is given.
    """
    logits = np.log(np.maximum(probabilities, TINY))
    told = mask.any(axis=1) & ~mask.all(axis=1)  # other rows say nothing about any temperature
    if not told.any():
        return 1.0 if expected is None else expected
    logits, mask = logits[told], mask[told]

    def unlikely(log_t: float) -> float:
        z = logits / np.exp(log_t)
        inside = logsumexp(np.where(mask, z, -np.inf), axis=1)
        far = 0.0 if expected is None else (log_t - np.log(expected)) / PRIOR_WIDTH
        return float((logsumexp(z, axis=1) - inside).mean()) + far**2 / 2 / len(mask)

    def too_sure(log_t: float) -> float:
        """Mean confidence above what the right rows allow; by Laplace's rule 20 of 20 are no certainty."""
        z = logits / np.exp(log_t)
        right = mask[np.arange(len(mask)), logits.argmax(axis=1)].sum()
        return float(np.exp(z.max(axis=1) - logsumexp(z, axis=1)).mean() - (right + 1) / (len(mask) + 2))

    hottest = np.log(HOTTEST)
    best = minimize_scalar(unlikely, bounds=(np.log(COOLEST), hottest), method="bounded").x
    if expected is None and too_sure(best) > 0:
        best = brentq(too_sure, best, hottest) if too_sure(hottest) < 0 else hottest
    return float(np.exp(best))


def tempered(probabilities: np.ndarray, t: float, log_evidence: np.ndarray | float = 0.0) -> np.ndarray:
    """Probabilities as they are after their logits were divided by t and evidence was added."""
    z = np.log(np.maximum(probabilities, TINY)) / t + log_evidence
    return np.exp(z - logsumexp(z, axis=1, keepdims=True))


def cool(nets: Iterable[nn.Module], t: float) -> bool:
    """Divide the logits of networks by t, inside their last layer: a saved or exported model has it too.

    Says whether it was possible: the head must be an `nn.Linear` that has its weights, not makes them.
    """
    heads: dict[int, Any] = {id(net.head): net.head for net in nets}
    if not all(isinstance(head, nn.Linear) and not is_parametrized(head) for head in heads.values()):
        warnings.warn(
            "probabilities stay as they are: a temperature needs a network whose head is an nn.Linear, "
            "without weight_norm or another parametrization.",
            stacklevel=3,
        )
        return False
    with torch.no_grad():
        for head in heads.values():
            for value in (head.weight, head.bias):
                if value is not None:
                    value.div_(t)
    return True


@dataclass(frozen=True, eq=False)
class LabelErrors:
    """Which labels of the training rows are probably wrong."""

    labels: np.ndarray
    """(n,): column of the label of every row."""
    wrong: np.ndarray
    """(n,): probability that it is wrong; 0 where the label is known."""

    @property
    def expected(self) -> int:
        """How many labels are wrong, by expectation."""
        return round(float(self.wrong.sum()))

    @cached_property
    def rows(self) -> np.ndarray:
        """All rows, the most doubtful label first."""
        return np.argsort(-self.wrong, kind="stable")

    @property
    def first(self) -> np.ndarray:
        """The rows to look at first: as many as are expected to be wrong."""
        return self.rows[: self.expected]


def label_errors(
    probabilities: Any,
    mask: np.ndarray,
    *,
    labels: np.ndarray | None = None,
    trusted: np.ndarray | None = None,
) -> LabelErrors:
    """How many labels of the training rows are wrong, and which ones first.

    Parameters
    ----------
    probabilities : array (n, c)
        Of the training rows, by models that have not seen the row (`out_of_fold_`).
    mask : bool array (n, c)
        The labels that are possible.
    labels : int array (n,), optional
        Columns of the labels in question; default: the most probable one.
    trusted : bool array (n,), optional
        Rows whose label is known.

    Examples
    --------
    >>> sets = np.array([[True, True, False], [True, True, False]])
    >>> found = label_errors([[0.9, 0.1, 0.0], [0.5, 0.4, 0.1]], sets)
    >>> found.wrong.round(2).tolist(), found.expected, found.first.tolist()
    ([0.1, 0.44], 1, [1])
    """
    p = np.asarray(probabilities, dtype=np.float64)
    inside = restricted(p, mask)
    if labels is None:
        labels = np.where(mask, inside, -1.0).argmax(axis=1)
    wrong = 1 - inside[np.arange(len(p)), labels]
    if trusted is not None:
        wrong = np.where(trusted, 0.0, wrong)
    return LabelErrors(labels, np.clip(wrong, 0.0, 1.0))


# ---- of the winner of a choice ----------------------------------------------------------------


def temperatures(judged: Contender, data: ChoiceData) -> tuple[float, float]:
    """What the sets tell of the winner's temperature; and this, corrected by the known labels, the more the
    more of them there are."""
    by_sets = temperature(judged.probabilities, data.candidates.mask)
    if data.clean is None:
        return by_sets, by_sets
    held = ~np.isnan(judged.clean_probabilities[:, 0])
    told = judged.clean_probabilities[held], data.clean.mask[held]
    return by_sets, temperature(*told, expected=by_sets)


def calibrated(fitted: Any, judged: Contender, data: ChoiceData) -> tuple[np.ndarray, LabelErrors]:
    """Make the model as sure as it was right out of fold. The rows' probabilities, and what these say about
    the labels that the model gave them (`transduction_`)."""
    mask, p, clean = data.candidates.mask, judged.probabilities, data.clean
    if np.isnan(p).any():
        return p, label_errors(fitted.transduction_, mask)
    by_sets, t = temperatures(judged, data)
    possible = np.ones_like(mask) if data.candidates.truth_may_be_outside else mask
    evidence = 0.0 if data.likelihoods is None else EXPONENT * data.likelihoods

    def belief(said: np.ndarray, t: float) -> np.ndarray:
        return restricted(tempered(said, t, evidence), possible)

    believed, trusted = belief(p, by_sets), np.zeros(len(p), dtype=bool)
    if clean is not None:
        # models out of fold knew fewer rows: they doubt too much; the last one knew the row: too little
        both = np.sqrt(p * fitted.prepared_proba(fitted.prepare(data.x)))
        if clean.of_x is None:
            believed = belief(both, t)
        else:  # wrong candidates look like the right one: among them alone a model is right less often
            trusted[clean.of_x] = True
            inside = temperature(believed[clean.of_x], clean.mask, expected=1.0)
            believed = restricted(tempered(belief(both, by_sets), inside), possible)
    fitted.set_temperature(t)
    labels = fitted.transduction_.argmax(axis=1)
    return tempered(p, t), label_errors(believed, possible, labels=labels, trusted=trusted)
