#!/usr/bin/env python3
"""Obuchowski's variance of the AUC of clustered items, by counting pairs: the figures of test_clustered_auc.c.

Formulas of Biometrics 53 (1997), p. 570. The bootstrap over clusters beside it is a check that shares nothing with them.
"""
import random


def item(i):
    cluster = i % 7
    positive = cluster != 6 and i * 7 % 10 < 4
    return cluster, positive, (i * 37 % 41 + 12 * positive + cluster) / 60, (i * 29 % 43 + 9 * positive + 2 * cluster) / 60


def wins(a, b):
    return (a > b) + (a == b) / 2


def auc_of(items, which):
    pairs = [wins(p[which], n[which]) for p in items if p[1] for n in items if not n[1]]
    return sum(pairs) / len(pairs)


def judge(items, value):
    """`value`: of a positive and a negative item, whose mean over all pairs is the figure."""
    positive, negative = ([x for x in items if x[1] == t] for t in (True, False))
    m, n = len(positive), len(negative)
    theta = sum(value(p, q) for p in positive for q in negative) / m / n
    clusters = sorted({x[0] for x in items})
    x = {c: sum(sum(value(p, q) for q in negative) / n - theta for p in positive if p[0] == c) for c in clusters}
    y = {c: sum(sum(value(p, q) for p in positive) / m - theta for q in negative if q[0] == c) for c in clusters}
    with_p = len({p[0] for p in positive})
    with_n = len({q[0] for q in negative})
    s10 = with_p / ((with_p - 1) * m) * sum(v * v for v in x.values())
    s01 = with_n / ((with_n - 1) * n) * sum(v * v for v in y.values())
    s11 = len(clusters) / (len(clusters) - 1) * sum(x[c] * y[c] for c in clusters)
    return theta, s10 / m + s01 / n + 2 * s11 / m / n


def simulate(rounds=400, n_clusters=40):
    """How often the interval covers: clusters with a random effect, of which half have positives."""
    rng, hits, every = random.Random(1), 0, []
    for _ in range(rounds):
        items = []
        for c in range(n_clusters):
            effect = rng.gauss(0, 0.7)
            items += [(c, c % 2 == 0 and rng.random() < 0.3, effect) for _ in range(12)]
        items = [(c, p, e + rng.gauss(0, 1) + 1.2 * p) for c, p, e in items]
        every.append(judge(items, lambda p, q: wins(p[2], q[2])))
    truth = sum(t for t, _ in every) / rounds
    hits = sum(abs(t - truth) <= 1.96 * v ** 0.5 for t, v in every)
    return hits / rounds


if __name__ == "__main__":
    items = [item(i) for i in range(60)]
    auc, variance = judge(items, lambda p, q: wins(p[2], q[2]))
    difference, spread = judge(items, lambda p, q: wins(p[3], q[3]) - wins(p[2], q[2]))
    assert abs(auc - auc_of(items, 2)) < 1e-12
    print(f"auc {auc!r} variance {variance!r} difference {difference!r} variance {spread!r}")
    print(f"coverage of the 95 % interval: {simulate()}")
