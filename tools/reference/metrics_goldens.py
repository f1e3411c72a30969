#!/usr/bin/env python3
"""Makes tests/golden/metrics/: random scores, and what scikit-learn says of them.

A case is a line "case N_ITEMS average_precision roc_auc", N_ITEMS lines "score positive", and the points of
scikit-learn's precision-recall curve, "point recall precision threshold", the highest threshold first.
"""
import sys

import numpy as np
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

random = np.random.default_rng(20)
with open(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/metrics/precision_recall.txt", "w") as out:
    for case in range(40):
        n = int(random.integers(2, 120))
        truth = random.random(n) < random.choice([0.05, 0.3, 0.5, 0.9])
        truth[0], truth[1] = True, False
        steps = int(random.choice([3, 10, 1000000]))  # few steps: many ties
        score = np.clip(random.normal(truth * random.choice([0.0, 1.0, 3.0]), 1.0) / 8 + 0.5, 0, 1)
        score = np.round(score * steps) / steps
        recall_points = precision_recall_curve(truth, score, drop_intermediate=False)
        print("case", n, repr(float(average_precision_score(truth, score))), repr(float(roc_auc_score(truth, score))), file=out)
        for s, t in zip(score, truth):
            print(repr(float(s)), int(t), file=out)
        for precision, recall, threshold in reversed(list(zip(*recall_points))):
            print("point", repr(float(recall)), repr(float(precision)), repr(float(threshold)), file=out)
