"""The gallery: figures that the build draws from records, each with a line and its report."""

from __future__ import annotations

from pathlib import Path

FIGURES = {
    "table1/figures/images-by-data-curves.png": "images: test accuracy per epoch",
    "table1/figures/images-by-data-consistency.png": "images: right pseudo-labels per epoch",
    "table2/figures/table2-mlp-ranks.png": "three real-world sets, MLP: mean ranks and critical difference",
    "table2/figures/table2-mlp-accuracies.png": "the same three sets: test accuracy",
    "rplg_plus/figures/plus-equal-mlp-accuracies.png": "RPLG+ with the same clean rows in every loss",
    "clean_share/figures/clean-share-mlp-clean-share.png": "test accuracy by the share of clean rows",
    "ablations/figures/sensitivity-mlp-sensitivity.png": "RPLG by alpha, the weight of its own opinion",
    "ablations/figures/convergence-mlp-convergence.png": "how fast pseudo-labels stop changing",
    "table2/figures/sizes.png": "how large the candidate sets are",
    "theory/theory.png": "the theorems of RPLG where the posterior is known",
}


def gallery(folder: Path) -> str:
    """Markdown for the figures that are in the folder of generated results."""
    parts = ["---\norphan: true\n---"]
    for place, words in FIGURES.items():
        if (folder / place).is_file():
            name = place.split("/")[0]
            report = f"{name}/{'theory' if name == 'theory' else 'report'}.md"
            parts.append(
                f"```{{figure}} /generated/results/{place}\n:alt: {words}\n:class: gallery\n\n"
                f"{words[0].upper()}{words[1:]}. From [{name}](/generated/results/{report}).\n```"
            )
    return "\n\n".join(parts) + "\n"
