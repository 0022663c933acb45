"""The report in sentences: what a reader should know before any figure."""

from __future__ import annotations

from dataclasses import dataclass

from oneof.app.fit_page.facts import DECIDED, FitFacts, FitOutcome


@dataclass(frozen=True)
class Tile:
    """A number worth a glance."""

    value: str
    name: str
    detail: str


def headline(outcome: FitOutcome, facts: FitFacts) -> list[Tile]:
    """The four numbers at the top."""
    if facts.accuracy is not None:
        a = facts.accuracy
        accuracy = Tile(
            f"{a.value:.1%}",
            "right on rows with a known label",
            f"95 % interval {a.low:.1%} to {a.high:.1%}; {a.n} rows that nothing was learned from",
        )
    else:
        accuracy = Tile("unknown", "right on rows with a known label", "no such rows were kept aside")
    return [
        accuracy,
        Tile(
            f"{facts.covering.value:.1%}",
            "predictions among the candidates",
            "covering rate on the training rows; high values are necessary, not sufficient",
        ),
        Tile(
            f"{facts.confidence.mean():.1%}",
            "mean confidence",
            f"{(facts.confidence >= DECIDED).mean():.0%} of rows are predicted with {DECIDED:.0%} or more",
        ),
        Tile(
            f"{facts.mean_before:.2f} → {facts.mean_after:.2f}",
            "labels per row",
            "candidates given, and labels the model still considers",
        ),
    ]


def summary(outcome: FitOutcome, facts: FitFacts) -> list[str]:
    """Plain sentences, the most important first."""
    made = []
    rows = f"{facts.learned:,} rows with {outcome.candidates.n_classes} classes"
    if facts.accuracy is not None:
        a = facts.accuracy
        made.append(
            f"The model learned from the candidates of {rows}. On {a.n} rows with a trusted label that it "
            f"never saw it is right {a.value:.1%} of the time; with so many rows the true value lies between "
            f"{a.low:.1%} and {a.high:.1%} (95 %)."
        )
        assert facts.ece is not None
        made.append(_calibrated(facts.ece, _overconfident(facts), a.n))
    else:
        made.append(
            f"The model learned from the candidates of {rows}. Nobody can say how often it is right: there "
            "are no rows with a trusted label that it did not learn from. "
            + (outcome.clean or "No trusted labels were given.")
        )
    if facts.resolved.n:
        made.append(
            f"Of the {facts.resolved.n:,} rows with more than one candidate it has made up its mind about "
            f"{facts.resolved.value:.0%} (one label has at least {DECIDED:.0%} of the mass)."
        )
    if facts.changed.k:
        made.append(
            f"In {facts.changed.k:,} rows ({facts.changed.value:.1%}) it predicts another label than the one "
            f"it was trained towards, in {facts.outside.k:,} of them one outside the candidates."
        )
    if facts.pairs and facts.pairs[0].rows > 1:
        pair = facts.pairs[0]
        made.append(
            f"The classes that stand together most often are “{pair.a}” and “{pair.b}” ({pair.rows:,} rows)."
        )
    if outcome.n_doubtful:
        made.append(
            f"{outcome.n_doubtful:,} rows are worth a second look; the first of them are listed below."
        )
    return made


def _overconfident(facts: FitFacts) -> float:
    """Mean confidence minus accuracy on the checked rows."""
    n = sum(b.right.n for b in facts.bins)
    return sum(b.right.n * (b.confidence - b.right.value) for b in facts.bins) / max(1, n)


def _calibrated(error: float, excess: float, n: int) -> str:
    few = f" With {n} rows this is a rough figure." if n < 200 else ""
    if error < 0.05:
        return f"Its probabilities can be read as they are (calibration error {error:.1%}).{few}"
    if abs(excess) < 0.02:
        return f"Its probabilities are off in both directions (calibration error {error:.1%}).{few}"
    way = "surer than it should be" if excess > 0 else "less sure than it could be"
    return (
        f"It is {way}: its confidence is {abs(excess):.1%} {'above' if excess > 0 else 'below'} its accuracy "
        f"on average (calibration error {error:.1%}).{few}"
    )
