"""Which operations an image gets: AutoAugment's learned pairs for CIFAR-10, RandAugment's, or simple ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from oneof.views.operations import MOVES, OPERATIONS, apply_operations


@dataclass(frozen=True)
class Policy:
    """Rows of two operations, each (name, probability, strength).

    With `together` an image draws a row and gets its two operations; otherwise it draws a row for each.
    """

    rows: tuple[tuple[tuple[str, float, float], tuple[str, float, float]], ...]
    together: bool = True

    def table(self, device: torch.device) -> Tensor:
        """(rows, 2, 3): number of the operation, probability, strength."""
        return torch.tensor(
            [[[OPERATIONS.index(name), p, level] for name, p, level in row] for row in self.rows],
            dtype=torch.float32,
            device=device,
        )


DRAWS = 8
"""Random numbers set aside for a policy per image; six are used, and changing it would change all views."""


def apply_policy(x: Tensor, policy: Policy, table: Tensor, draws: Tensor) -> Tensor:
    """Every image after its two operations; `draws` (B, 8) are uniform random numbers."""
    first = (draws[:, 0] * len(table)).long()
    second = first if policy.together else (draws[:, 1] * len(table)).long()
    for slot, row in enumerate((first, second)):
        operation, probability, level = table[:, slot].index_select(0, row).unbind(dim=1)
        gate, direction = draws[:, 2 + slot], draws[:, 4 + slot]
        operation = torch.where(gate < probability, operation, torch.zeros_like(operation))
        x = apply_operations(x, operation.long(), level, 1 - 2 * (direction < 0.5).float())
    return x


CIFAR_POLICY = Policy(
    (
        (("invert", 0.1, 7), ("contrast", 0.2, 6)),
        (("rotate", 0.7, 2), ("translate-x", 0.3, 9)),
        (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
        (("shear-y", 0.5, 8), ("translate-y", 0.7, 9)),
        (("autocontrast", 0.5, 8), ("equalize", 0.9, 2)),
        (("shear-y", 0.2, 7), ("posterize", 0.3, 7)),
        (("colour", 0.4, 3), ("brightness", 0.6, 7)),
        (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
        (("equalize", 0.6, 5), ("equalize", 0.5, 1)),
        (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
        (("colour", 0.7, 7), ("translate-x", 0.5, 8)),
        (("equalize", 0.3, 7), ("autocontrast", 0.4, 8)),
        (("translate-y", 0.4, 3), ("sharpness", 0.2, 6)),
        (("brightness", 0.9, 6), ("colour", 0.2, 8)),
        (("solarize", 0.5, 2), ("invert", 0.0, 3)),
        (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
        (("equalize", 0.2, 8), ("equalize", 0.6, 4)),
        (("colour", 0.9, 9), ("equalize", 0.6, 6)),
        (("autocontrast", 0.8, 4), ("solarize", 0.2, 8)),
        (("brightness", 0.1, 3), ("colour", 0.7, 0)),
        (("solarize", 0.4, 5), ("autocontrast", 0.9, 3)),
        (("translate-y", 0.9, 9), ("translate-y", 0.7, 9)),
        (("autocontrast", 0.9, 2), ("solarize", 0.8, 3)),
        (("equalize", 0.8, 8), ("invert", 0.1, 3)),
        (("translate-y", 0.7, 9), ("autocontrast", 0.9, 1)),
    )
)
"""The 25 pairs that AutoAugment found on CIFAR-10."""


def rand_augment(level: float = 4.5) -> Policy:
    """Two of fourteen operations, all equally likely, at one strength (Cubuk et al. 2020)."""
    rows = [((name, 1.0, level), (name, 1.0, level)) for name in OPERATIONS if name != "invert"]
    return Policy(tuple(rows), together=False)


def simple_pairs() -> Policy:
    """One change of colour and one move, each at one of two strengths.

    Milder than AutoAugment: no inversion, no solarization, no shift by almost half the image.
    """
    colours = ("autocontrast", "equalize", "contrast", "brightness", "colour", "sharpness")
    pairs = product(colours, MOVES, (3, 6), (3, 6))
    return Policy(tuple(((colour, 1.0, first), (move, 1.0, second)) for colour, move, first, second in pairs))
