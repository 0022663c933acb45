"""Questions about the columns of a training table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from oneof.candidates.annotations import Answers
from oneof.candidates.questions import Question, about_features


def about_columns(columns: Mapping[str, Any], mask: np.ndarray, people: Collection[str]) -> list[Question]:
    """Columns that tell the label; an annotator's is to be ignored, as its labels cannot be trusted."""
    others = {name: values for name, values in columns.items() if name not in people}
    theirs = [
        Question(
            f'column "{name}" holds the answers of an annotator, from which the candidates come: '
            f"new rows will not have it.\n  Leave it out: --ignore {name}.",
            question.answers,
        )
        for name, values in columns.items()
        if name in people
        for question in about_features({name: values}, mask)
    ]
    return [*theirs, *about_features(others, mask)]


def people_in(answers: Answers | None) -> set[str]:
    """The annotators, where the file of candidates names them; a table may have a column of each."""
    return set(answers.workers) if answers is not None and answers.named else set()
