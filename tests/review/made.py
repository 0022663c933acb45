"""Small made-up review data."""

import numpy as np

from oneof.app.review import ReviewData
from oneof.candidates import Candidates
from oneof.candidates.annotations import Answers

CLASSES = ("ant", "bee", "cow", "<b>dog</b>")


def review_data(n=12, seed=0, ids=True, images=None, **more):
    """Rows whose candidates, beliefs and answers are drawn at random."""
    draw = np.random.default_rng(seed)
    c = len(CLASSES)
    mask = draw.random((n, c)) < 0.4
    mask[np.arange(n), draw.integers(c, size=n)] = True
    mask[mask.all(axis=1), 0] = False
    p = draw.dirichlet(np.full(c, 0.5), size=n).astype(np.float32)
    q = np.where(mask, p + 1e-3, 0)
    rows = np.repeat(np.arange(n), 3)
    said = np.array([draw.choice(np.flatnonzero(mask[i])) for i in rows])
    settings = {
        "candidates": Candidates(mask, CLASSES, truth_may_be_outside=True),
        "probabilities": p,
        "transduction": q / q.sum(axis=1, keepdims=True),
        "ids": tuple(f"row-{i}" for i in range(n)) if ids else None,
        "answers": Answers(rows, np.tile([0, 1, 2], n), said, ("ann", "bob", "cy")),
        "features": {"size": draw.normal(size=n).tolist(), "place": ["<i>barn</i>"] * n},
        "images": images,
    }
    return ReviewData(**{**settings, **more})
