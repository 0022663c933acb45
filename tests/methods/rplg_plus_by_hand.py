"""Slow twin of a whole RPLG+ step in NumPy, one row, one branch, one label at a time.

Written from the description of the method, step by step. What RPLG+ has in common with RPLG (opinions, the
branches' SGD against given targets, g and its Adam) is that of RPLG's twin.
"""

from __future__ import annotations

import numpy as np

from tests.methods.rplg_by_hand import RplgByHand, meta_backward, meta_scores, softmax_over


class RplgPlusByHand(RplgByHand):
    """`gamma` is None where there are no clean rows: g is 0. `counts`: clean rows per label."""

    def __init__(self, candidates, weight, bias, gamma, base_lr, counts=None, shrink=1.0, **options):
        super().__init__(candidates, weight, bias, gamma or [], base_lr, **options)
        if counts is not None:
            self.known = {k for k in range(self.c) if counts[k] > 0}
            self.shrink = shrink * self.c / sum(counts)

    def step(self, index, views, clean, labels, draws, lr, move=True):
        """One mini-batch; `clean` are features of the clean rows (evaluation mode), None: there are none.

        Returns the loss and its gradient by weight and bias of the classifier's head.
        """
        z = views[0]
        u = [self.opinions(i, z_i) for i, z_i in zip(index, z)]
        self.branch_step(index, z, [self.branch_targets(i, u_i) for i, u_i in zip(index, u)])
        if clean is not None:
            gradient = self.gradient_of_g(clean, labels, [self.borrowed(y, d) for y, d in zip(labels, draws)])
            self.adam.step(self.gamma, gradient, self.meta_lr * lr / self.base_lr)
        return self.real_step(index, views, u, (self.weight, self.bias), lr, move)

    def branch_targets(self, i, u):
        """Row j: half the branch's opinion, half the last target without label j; without g its opinion."""
        if not self.gamma:
            return u
        target = np.zeros_like(u)
        for j in range(self.c):
            others = [k for k in self.sets[i] if k != j]
            rest = np.zeros(self.c)
            for k in others:
                rest[k] = self.q[i, k] + 1e-6
            if others:
                target[j] = 0.5 * u[j] + 0.5 * rest / rest.sum()
        return target

    def borrowed(self, y, draw):
        """The candidates, as far as clean rows have them, of a row with y among several; else y alone."""
        holders = [s for s in self.sets if y in s and len(s) > 1]
        return [k for k in holders[int(draw * len(holders))] if k in self.known] if holders else [y]

    def loss_of_g(self, clean, labels, sets):
        """(P2) and what holds g at 0, mean over the rows."""
        losses = []
        for z, y, s in zip(clean, labels, sets):
            scores = meta_scores(self.gamma, z)
            misled = -np.log((1 - softmax_over(scores, s)[y]) / (len(s) - 1)) if len(s) > 1 else 0.0
            losses.append(misled + self.shrink * np.mean([scores[k] ** 2 for k in s]))
        return np.mean(losses)

    def gradient_of_g(self, clean, labels, sets):
        total = [np.zeros_like(a) for a in self.gamma]
        for z, y, s in zip(clean, labels, sets):
            scores = meta_scores(self.gamma, z)
            slope = np.zeros(self.c)
            if len(s) > 1:
                slope += softmax_over(scores, s) - softmax_over(scores, [k for k in s if k != y])
            for k in s:
                slope[k] += 2 * self.shrink * scores[k] / len(s)
            for array, part in zip(total, meta_backward(self.gamma, z, slope)):
                array += part / len(sets)
        return total

    def branch_weights(self, i, z):
        """(P1)"""
        g = meta_scores(self.gamma, z) if self.gamma else np.zeros(self.c)
        return softmax_over(g + np.log(np.maximum(1 - self.mu[i], 1e-4)), self.sets[i])
