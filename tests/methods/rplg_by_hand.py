"""Slow twin of a whole RPLG step, written from the paper in NumPy: one row, one branch, one label at a time.

Qiao, Xu, Hu, Geng, NeurIPS 2025 (arXiv 2410.20797), Algorithm 1. The classifier is a linear head on features
that are given; for a linear classifier these are the inputs and the twin is exact. Where the paper leaves a
choice the twin takes that of the library: w is a softmax over the candidates, mu is that of the row's
previous visit, a singleton does not teach the branch of its own label, the slope of the look-ahead is taken
without the learning rate as a factor, and the meta-learner's learning rate falls as the classifier's does.
"""

from __future__ import annotations

import numpy as np

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8  # Adam, as in its paper and in torch


def softmax_over(scores, labels):
    """Softmax of the scores of some labels; exactly 0 for all others."""
    p = np.zeros(len(scores))
    top = max((scores[k] for k in labels), default=0.0)
    for k in labels:
        p[k] = np.exp(scores[k] - top)
    return p / p.sum() if len(labels) else p


def log_softmax(scores):
    top = scores.max()
    return scores - top - np.log(np.exp(scores - top).sum())


def meta_scores(gamma, z):
    """The meta-learner before its softmax: linear, or with one hidden layer of ReLUs."""
    for weight, bias in zip(gamma[:-2:2], gamma[1:-2:2]):
        z = np.maximum(weight @ z + bias, 0.0)
    return gamma[-2] @ z + gamma[-1]


def meta_backward(gamma, z, slope):
    """Gradient of (slope · scores) by every array of the meta-learner, for one row."""
    if len(gamma) == 2:
        return [np.outer(slope, z), slope]
    before = gamma[0] @ z + gamma[1]
    hidden = np.maximum(before, 0.0)
    into = (gamma[2].T @ slope) * (before > 0)
    return [np.outer(into, z), into, np.outer(slope, hidden), slope]


class Adam:
    """With weight decay as part of the gradient, as torch's `Adam` has it (not AdamW)."""

    def __init__(self, arrays, decay):
        self.decay, self.t = decay, 0
        self.first = [np.zeros_like(a) for a in arrays]
        self.second = [np.zeros_like(a) for a in arrays]

    def step(self, arrays, gradients, lr):
        self.t += 1
        for a, g, m, s in zip(arrays, gradients, self.first, self.second):
            g = g + self.decay * a
            m[...] = BETA_1 * m + (1 - BETA_1) * g
            s[...] = BETA_2 * s + (1 - BETA_2) * g**2
            mean, square = m / (1 - BETA_1**self.t), s / (1 - BETA_2**self.t)
            a -= lr * mean / (np.sqrt(square) + EPSILON)


class RplgByHand:
    """All that RPLG keeps: head of the classifier, branches, meta-learner, and a table per quantity.

    `gamma` lists the arrays of the meta-learner, weight and bias in turn. `base_lr` is the learning rate the
    schedule of the classifier starts from.
    """

    def __init__(self, candidates, weight, bias, gamma, base_lr, *, alpha, meta_lr, meta_decay, branch_lr,
                 branch_momentum, branch_decay):  # fmt: skip
        n, c = candidates.shape
        self.sets = [[k for k in range(c) if row[k]] for row in candidates]
        self.c, self.base_lr = c, base_lr
        self.weight, self.bias = weight.copy(), bias.copy()
        self.gamma = [a.copy() for a in gamma]
        self.alpha, self.meta_lr = alpha, meta_lr
        self.branch_lr, self.branch_momentum, self.branch_decay = branch_lr, branch_momentum, branch_decay
        self.adam = Adam(self.gamma, meta_decay)
        self.omega = np.zeros((c, c, weight.shape[1]))  # branch, label, feature: all undecided at first
        self.omega_bias = np.zeros((c, c))
        self.speed, self.speed_bias = np.zeros_like(self.omega), np.zeros_like(self.omega_bias)
        self.visited = np.zeros(n, dtype=bool)
        self.mu = np.array([softmax_over(np.zeros(c), s) for s in self.sets])  # uniform at first
        self.v, self.q, self.w = self.mu.copy(), self.mu.copy(), self.mu.copy()

    # ---- one step, in the order of Algorithm 1 ------------------------------------------------

    def step(self, index, views, clean, clean_sets, lr, move=True):
        """One mini-batch. Returns the loss and its gradient by weight and bias of the classifier's head.

        `views` are the features of the rows in each view, the first one being that which makes the targets;
        `clean` those of the clean rows. With `move` the head takes a step of plain SGD.
        """
        z = views[0]
        u = [self.opinions(i, z_i) for i, z_i in zip(index, z)]  # line 5, eq. U: frozen from here on
        self.branch_step(index, z, u)  # line 6

        w = [self.branch_weights(i, z_i) for i, z_i in zip(index, z)]
        v = [w_i @ u_i for w_i, u_i in zip(w, u)]  # line 7, before the meta-learner moves
        if clean is not None:  # lines 8 and 9
            target = self.look_ahead_target(index, v)
            slope_v = self.look_ahead_slope(z, target, clean, clean_sets, lr)
            gradient = self.meta_gradient(z, w, u, slope_v)
            self.adam.step(self.gamma, gradient, self.meta_lr * lr / self.base_lr)

        return self.real_step(
            index, views, self.real_opinions(index, z, u), self.real_head(z, v, lr), lr, move
        )

    def real_step(self, index, views, u, head, lr, move):
        """Lines 10 and 11, with opinions that are given and from a head that is given."""
        z, m = views[0], len(index)
        loss, to_weight, to_bias = 0.0, np.zeros_like(self.weight), np.zeros_like(self.bias)
        for place, i in enumerate(index):  # line 10: new w, same U
            own = softmax_over(self.weight @ z[place] + self.bias, self.sets[i])
            self.w[i] = self.branch_weights(i, z[place])
            self.v[i] = self.w[i] @ u[place]
            self.q[i] = self.alpha * self.mu[i] + (1 - self.alpha) * self.v[i]
            self.mu[i], self.visited[i] = own, True  # for the next visit
            for view in views:  # line 11
                scores = head[0] @ view[place] + head[1]
                loss -= self.q[i] @ log_softmax(scores) / m / len(views)
                error = (np.exp(log_softmax(scores)) - self.q[i]) / m / len(views)
                to_weight += np.outer(error, view[place])
                to_bias += error
        if move:
            self.weight = head[0] - lr * to_weight
            self.bias = head[1] - lr * to_bias
        return loss, to_weight, to_bias

    def real_opinions(self, index, z, u):
        """Those of the virtual step."""
        return u

    def real_head(self, z, v, lr):
        """Rolled back: the old Theta."""
        return self.weight, self.bias

    # ---- branches -----------------------------------------------------------------------------

    def opinions(self, i, z):
        """U_i: row j is what branch j thinks of the candidates other than j; uniform at the first visit."""
        u = np.zeros((self.c, self.c))
        for j in range(self.c):
            others = [k for k in self.sets[i] if k != j]
            scores = self.omega[j] @ z + self.omega_bias[j]
            u[j] = softmax_over(scores if self.visited[i] else np.zeros(self.c), others)
            if not others:  # S = {j}: a labelled row, whose v is to be its label
                u[j, j] = 1.0
        return u

    def skips(self, i, j):
        """Branch j has nothing to learn from a row whose only label it does not know."""
        return self.sets[i] == [j]

    def branch_step(self, index, z, u):
        """SGD with momentum and weight decay on the mean cross-entropy of every branch against its row."""
        for j in range(self.c):
            known = [k for k in range(self.c) if k != j]
            slope = self.branch_decay * self.omega[j]
            slope_bias = self.branch_decay * self.omega_bias[j]
            for i, z_i, u_i in zip(index, z, u):
                if not self.skips(i, j):
                    error = softmax_over(self.omega[j] @ z_i + self.omega_bias[j], known) - u_i[j]
                    slope = slope + np.outer(error, z_i) / len(index)
                    slope_bias = slope_bias + error / len(index)
            self.speed[j] = self.branch_momentum * self.speed[j] + slope
            self.speed_bias[j] = self.branch_momentum * self.speed_bias[j] + slope_bias
            self.omega[j] = self.omega[j] - self.branch_lr * self.speed[j]
            self.omega_bias[j] = self.omega_bias[j] - self.branch_lr * self.speed_bias[j]

    # ---- meta-learner -------------------------------------------------------------------------

    def branch_weights(self, i, z):
        return softmax_over(meta_scores(self.gamma, z), self.sets[i])

    def look_ahead_target(self, index, v):
        """The virtual step is taken against v alone, not against q (eq. inner)."""
        return v

    def virtual_head(self, z, target, lr):
        """The head after one plain step against the targets."""
        weight, bias = self.weight.copy(), self.bias.copy()
        for z_i, t_i in zip(z, target):
            error = np.exp(log_softmax(self.weight @ z_i + self.bias)) - t_i
            weight -= lr / len(z) * np.outer(error, z_i)
            bias -= lr / len(z) * error
        return weight, bias

    def look_ahead_loss(self, z, target, clean, clean_sets, lr):
        """Mean loss of the clean rows after the virtual step; of a row with one label its cross-entropy."""
        weight, bias = self.virtual_head(z, target, lr)
        losses = []
        for z_m, s_m in zip(clean, clean_sets):
            p = np.exp(log_softmax(weight @ z_m + bias))
            losses.append(-np.log(p[s_m].sum()))
        return np.mean(losses)

    def look_ahead_slope(self, z, target, clean, clean_sets, lr):
        """d look_ahead_loss / d target, divided by the learning rate.

        The virtual head is linear in the target, with factor lr / m · z_i for row i.
        """
        to_weight, to_bias = self.clean_slope(z, target, clean, clean_sets, lr)
        return [(to_weight @ z_i + to_bias) / len(z) for z_i in z]

    def clean_slope(self, z, target, clean, clean_sets, lr):
        """Gradient of the clean rows' mean loss by the virtual head."""
        weight, bias = self.virtual_head(z, target, lr)
        to_weight, to_bias = np.zeros_like(weight), np.zeros_like(bias)
        for z_m, s_m in zip(clean, clean_sets):
            scores = weight @ z_m + bias
            residual = np.exp(log_softmax(scores)) - softmax_over(scores, np.flatnonzero(s_m))
            to_weight += np.outer(residual, z_m) / len(clean)
            to_bias += residual / len(clean)
        return to_weight, to_bias

    def meta_gradient(self, z, w, u, slope_v):
        """Through v = w U, through the softmax over the candidates, into the arrays of the meta-learner."""
        total = [np.zeros_like(a) for a in self.gamma]
        for z_i, w_i, u_i, g_i in zip(z, w, u, slope_v):
            slope_w = u_i @ g_i
            slope = w_i * (slope_w - w_i @ slope_w)
            for array, part in zip(total, meta_backward(self.gamma, z_i, slope)):
                array += part
        return total
