"""Views of images, made in batches where the images are: bytes in, normalised numbers out.

`weak`: mirrored with probability ½, a random crop of the image padded by reflection. `strong`: moves and
colours of `bilinear.py`, then Cutout; or the weak view, then a policy of pairs and Cutout (PLCR's recipe has
AutoAugment). `plain`: neither, for evaluation and RPLG's look-ahead. Cutout's square has the value 0 after
normalisation, which is the mean colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from oneof.views import bilinear
from oneof.views.geometry import flip_and_crop, square_mask
from oneof.views.policies import CIFAR_POLICY, DRAWS, Policy, apply_policy, rand_augment, simple_pairs

PAIRS: dict[str, Policy] = {
    "autoaugment": CIFAR_POLICY,
    "randaugment": rand_augment(),
    "simple": simple_pairs(),
}
POLICIES = ("bilinear", *PAIRS, "none")


class ImageViews:
    """Weak and strong views of images.

    Parameters
    ----------
    mean, std : sequences, one number per channel
        Of the training pixels, pixels between 0 and 1.
    policy : {"bilinear", "autoaugment", "randaugment", "simple", "none"}
        What the strong view does beside mirroring and Cutout. bilinear: moves between pixels with reflection
        at the border, and a change of colour; the others come after a crop and move whole pixels.
    cutout : int
        Side of Cutout's square in the strong view; 0: none.
    pad : int
        By how many pixels the crop may move.
    flip : bool
        Whether images may be mirrored.
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        policy: str = "bilinear",
        cutout: int = 16,
        pad: int = 4,
        flip: bool = True,
    ) -> None:
        if policy not in POLICIES:
            raise ValueError(f"policy is {policy!r}; it must be one of {', '.join(map(repr, POLICIES))}.")
        self.mean = torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1) * 255
        self.std = torch.tensor(std, dtype=torch.float32).view(-1, 1, 1) * 255
        self.policy, self.cutout, self.pad, self.flip = policy, cutout, pad, flip
        self._constants: dict[torch.device, tuple[Tensor, Tensor, Tensor]] = {}

    def describe(self) -> dict[str, Any]:
        """Settings, for records."""
        return {
            "policy": self.policy,
            "cutout": self.cutout,
            "pad": self.pad,
            "flip": self.flip,
            "mean": [round(float(v) / 255, 5) for v in self.mean.flatten()],
            "std": [round(float(v) / 255, 5) for v in self.std.flatten()],
        }

    def plain(self, x: Tensor) -> Tensor:
        """Bytes, or numbers from 0 to 255, with every channel normalised."""
        mean, slope, _ = self._on(x.device)
        return ((x.float() - mean) * slope).contiguous()

    def train(self, x: Tensor, roles: tuple[str, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
        if not (self.flip or self.pad or self.cutout or self.policy != "none"):
            return (self.plain(x),)  # nothing varies: one view serves all roles
        return tuple(self._view(x, role, generator) for role in roles)

    def _view(self, x: Tensor, role: str, generator: torch.Generator) -> Tensor:
        if role == "plain":
            return self.plain(x)
        strong = role != "weak"
        between = strong and self.policy == "bilinear"
        n_draws = 3 + bilinear.DRAWS if between else 5 + DRAWS
        draws = torch.rand(len(x), n_draws, generator=generator, device=x.device)
        flip = (draws[:, 0] < 0.5) & self.flip
        if between:
            hole, x = draws[:, 1:3], bilinear.bilinear_view(x, flip, draws[:, 3:], self.pad)
        else:
            down, right = (draws[:, 1:3] * (2 * self.pad + 1)).long().unbind(dim=1)
            hole, x = draws[:, 3:5], flip_and_crop(x, flip, down, right, self.pad)
            if strong and self.policy in PAIRS:
                x = apply_policy(x, PAIRS[self.policy], self._on(x.device)[2], draws[:, 5:])
        view = self.plain(x)
        if strong and self.cutout:
            height, width = view.shape[2:]
            down, right = (hole[:, 0] * height).long(), (hole[:, 1] * width).long()
            view.masked_fill_(square_mask(view, down, right, self.cutout), 0)
        return view

    def _on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, 1/std and the policy's table, copied to a device once."""
        if device not in self._constants:
            pairs = PAIRS.get(self.policy)
            table = torch.zeros(1) if pairs is None else pairs.table(device)
            self._constants[device] = (self.mean.to(device), (1 / self.std).to(device), table)
        return self._constants[device]
