#!/usr/bin/env python3
"""Newcombe's method 5 for the AUC, solved by scipy.optimize.brentq (the values of test_metrics), and
how often it and the percentile bootstrap hold the true AUC of normal scores; wanted: 0.95."""
from math import sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

Z = 1.959963984540054


def variance(auc, m, n):
    half = (m + n) / 2 - 1
    return auc * (1 - auc) * (1 + half * (1 - auc) / (2 - auc) + half * auc / (1 + auc)) / (m * n)


def newcombe(auc, m, n):
    low = 0.0 if auc == 0 else brentq(lambda t: auc - t - Z * sqrt(variance(t, m, n)), 0, auc - 1e-9, xtol=1e-15)
    high = 1.0 if auc == 1 else brentq(lambda t: t - auc - Z * sqrt(variance(t, m, n)), auc + 1e-9, 1, xtol=1e-15)
    return low, high


for case in ((1, 5, 5), (0.9839285714285714, 49, 80), (0.5, 10, 10), (1, 1, 1), (0, 3, 8)):
    print(case, newcombe(*case))
rng = np.random.default_rng(1)
for m, n, rounds in ((5, 5, 1500), (10, 10, 1500), (49, 80, 400)):
    for true in (0.8, 0.95, 0.99):
        shift, held, held_bootstrap = norm.ppf(true) * sqrt(2), 0, 0
        for _ in range(rounds):
            wins = (rng.standard_normal(m) + shift)[:, None] > rng.standard_normal(n)[None]
            low, high = newcombe(wins.mean(), m, n)
            held += low <= true <= high
            again = [wins[np.ix_(rng.integers(0, m, m), rng.integers(0, n, n))].mean() for _ in range(200)]
            low, high = np.quantile(again, [0.025, 0.975])
            held_bootstrap += low <= true <= high
        print(f"{m} and {n} slides, AUC {true}: Newcombe {held / rounds:.3f}, bootstrap {held_bootstrap / rounds:.3f}")
