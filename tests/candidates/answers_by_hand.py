"""Slow twins of the rules and of Dawid-Skene: one answer at a time, with plain dictionaries."""

import math


def by_row(answers, n_rows):
    """For every row {worker: set of labels}."""
    found = [{} for _ in range(n_rows)]
    for row, worker, label in zip(answers.row.tolist(), answers.worker.tolist(), answers.label.tolist()):
        found[row].setdefault(worker, set()).add(label)
    return found


def votes(people, n_classes):
    return [sum(k in said for said in people.values()) for k in range(n_classes)]


def union(people, n_classes):
    return {k for said in people.values() for k in said}


def vaguest(people, n_classes):
    if not people:
        return set()
    count = votes(people, n_classes)
    best = max(people, key=lambda w: (len(people[w]), sum(count[k] for k in people[w]), -w))
    return people[best]


def majority(people, n_classes):
    count = votes(people, n_classes)
    return {k for k, v in enumerate(count) if v == max(count) and v > 0}


def share(people, n_classes, at_least):
    count = votes(people, n_classes)
    enough = {k for k, v in enumerate(count) if v > 0 and v / len(people) >= at_least - 1e-12}
    return enough or majority(people, n_classes)


def dawid_skene(answers, n_rows, n_classes, iterations, smoothing):
    """Posterior after some iterations, straight from the formulas of 1979."""
    people = by_row(answers, n_rows)
    weights = [{(w, k): 1 / len(said) for w, said in row.items() for k in said} for row in people]
    posterior = []
    for row in weights:
        total = sum(row.values())
        counts = [sum(v for (_, k), v in row.items() if k == t) for t in range(n_classes)]
        posterior.append([v / total if total else 1 / n_classes for v in counts])
    for _ in range(iterations):
        answered = [p for p, row in zip(posterior, weights) if row]
        mass = [sum(p[t] for p in answered) + smoothing for t in range(n_classes)]
        prior = [m / sum(mass) for m in mass]
        confusion = {}
        for w in range(len(answers.workers)):
            for t in range(n_classes):
                counts = [
                    sum(p[t] * row.get((w, k), 0) for p, row in zip(posterior, weights)) + smoothing
                    for k in range(n_classes)
                ]
                for k in range(n_classes):
                    confusion[w, t, k] = counts[k] / sum(counts)
        renewed = []
        for row in weights:
            joint = [
                math.log(prior[t]) + sum(v * math.log(confusion[w, t, k]) for (w, k), v in row.items())
                for t in range(n_classes)
            ]
            top = max(joint)
            likely = [math.exp(j - top) for j in joint]
            renewed.append([v / sum(likely) for v in likely])
        posterior = renewed
    return posterior
