"""Slow twin of a whole RPLG+ step in NumPy, one row, one branch, one label at a time.

Written from the description of the method, step by step. What RPLG+ has in common with RPLG (opinions, the
branches' SGD against given targets, g and its Adam) is that of RPLG's twin.
"""

from __future__ import annotations

import numpy as np

from tests.methods.rplg_by_hand import RplgByHand, meta_backward, meta_scores, softmax_over


class RplgPlusByHand(RplgByHand):
    """`gamma` is None where there are no clean rows: g is 0."""

    def __init__(self, candidates, weight, bias, gamma, base_lr, **options):
        super().__init__(candidates, weight, bias, gamma or [], base_lr, **options)

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
        """The candidate set of a training row with y among several candidates; None: nobody has it."""
        holders = [s for s in self.sets if y in s and len(s) > 1]
        return holders[int(draw * len(holders))] if holders else None

    def loss_of_g(self, clean, labels, sets):
        """(P2), mean over the rows whose set has more than one label."""
        losses = []
        for z, y, s in zip(clean, labels, sets):
            if s is not None:
                omega = softmax_over(meta_scores(self.gamma, z), s)
                losses.append(-np.log((1 - omega[y]) / (len(s) - 1)))
        return np.mean(losses)

    def gradient_of_g(self, clean, labels, sets):
        total = [np.zeros_like(a) for a in self.gamma]
        count = sum(s is not None for s in sets)
        for z, y, s in zip(clean, labels, sets):
            if s is None:
                continue
            scores = meta_scores(self.gamma, z)
            slope = softmax_over(scores, s) - softmax_over(scores, [k for k in s if k != y])
            for array, part in zip(total, meta_backward(self.gamma, z, slope)):
                array += part / count
        return total

    def branch_weights(self, i, z):
        """(P1)"""
        g = meta_scores(self.gamma, z) if self.gamma else np.zeros(self.c)
        return softmax_over(g + np.log(np.maximum(1 - self.mu[i], 1e-4)), self.sets[i])
