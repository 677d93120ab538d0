"""Metrics of multi-label examples, by scikit-learn: multi_label.json.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install scikit-learn==1.9.1 numpy
    python make_multi_label.py

Each case has `threshold`, `scores` [examples, classes], `truth` (the classes of each example) and f1_score micro and macro,
accuracy_score of whole rows and the mean of roc_auc_score over the classes that have both outcomes. Cases: plain, scores with
ties, a class that no example has, and a class that all have but none is predicted to have.
"""

import json
import os

import numpy as np
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

HERE = os.path.dirname(os.path.abspath(__file__))


def case(scores, truth, threshold):
    predicted = scores >= np.float32(threshold)
    both = [c for c in range(truth.shape[1]) if 0 < truth[:, c].sum() < len(truth)]
    areas = [roc_auc_score(truth[:, c], scores[:, c]) for c in both]
    f1 = lambda average: float(f1_score(truth, predicted, average=average, zero_division=0))
    return {
        "threshold": threshold,
        "scores": scores.tolist(),
        "truth": [np.flatnonzero(row).tolist() for row in truth],
        "micro_f1": f1("micro"),
        "macro_f1": f1("macro"),
        "exact_match": float(accuracy_score(truth, predicted)),
        "roc_auc": float(np.mean(areas)),
    }


def main():
    rng = np.random.default_rng(5)
    truth = rng.random((40, 5)) < [0.5, 0.3, 0.1, 0.7, 0.4]
    scores = (rng.normal(size=(40, 5)) + 1.5 * truth - 0.6).astype(np.float32)
    tied = (np.round(scores * 2) / 2).astype(np.float32)
    odd = truth[:20].copy()
    odd[:, 2], odd[:, 3] = False, True
    low = scores[:20].copy()
    low[:, 3] = -np.abs(low[:, 3]) - 1
    cases = {
        "plain": case(scores, truth, 0.0),
        "ties": case(tied, truth, 0.5),
        "one-sided": case(low, odd, -0.25),
    }
    with open(os.path.join(HERE, "multi_label.json"), "w") as file:
        json.dump(cases, file)
        file.write("\n")


if __name__ == "__main__":
    main()
