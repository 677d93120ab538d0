#!/usr/bin/env python3
"""Oracles of the metrics of tags, of numbers and of answers, for tests/it/tag_metrics.rs. Run by hand; writes tags.json.

    pip install seqeval==1.2.2 scipy==1.17.1 numpy==2.4.6 torchmetrics==1.9.0 torch==2.15.0
    python make_tags.py

`tagged`: true and predicted tags of some texts, seqeval's entities of both (type, first and last word)
and its precision, recall and F1 over all types. Predictions break the rules of the schemes: they begin with `I-`, change
their type within an entity, end an entity that has not begun. `numbers`: true and predicted numbers, with ties, and scipy's
correlations; `null` if scipy has none because one side is constant. `answers`: an answer, the right ones, and the exact match
and F1 that torchmetrics' SQuAD gives them (in percent there, shares here).
"""

import json
import pathlib
import warnings

import numpy as np
from scipy import stats
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities
from torchmetrics.functional.text import squad

FILE = pathlib.Path(__file__).parent / "tags.json"
rng = np.random.default_rng(11)
warnings.simplefilter("ignore")


def tagged(places, kinds, texts, kept):
    """Random tags; a share `kept` of the true tags is predicted correctly."""
    names = ["O"] + [f"{place}-{kind}" for place in places for kind in kinds]
    weights = np.array([len(names)] + [1.5] * (len(names) - 1))
    weights = weights / weights.sum()
    truth = [[str(tag) for tag in rng.choice(names, length, p=weights)] for length in rng.integers(1, 15, texts)]
    other = lambda tag: tag if rng.random() < kept else str(rng.choice(names))
    predicted = [[other(tag) for tag in tags] for tags in truth]
    entities = lambda texts: [[[kind, int(a), int(b)] for kind, a, b in get_entities(tags)] for tags in texts]
    metrics = [float(f(truth, predicted)) for f in (precision_score, recall_score, f1_score)]
    return {"names": names, "truth": truth, "predicted": predicted, "entities": [entities(truth), entities(predicted)], "metrics": metrics}


def numbers(truth, predicted):
    truth, predicted = np.float32(truth), np.float32(predicted)
    found = [f(truth.astype(np.float64), predicted.astype(np.float64)).statistic for f in (stats.pearsonr, stats.spearmanr)]
    found = [None if np.isnan(x) else float(x) for x in found]
    return {"truth": [float(x) for x in truth], "predicted": [float(x) for x in predicted], "correlations": found}


def answer(given, right):
    found = squad(
        {"prediction_text": given, "id": "q"}, {"answers": {"answer_start": [0] * len(right), "text": right}, "id": "q"}
    )
    return {"given": given, "right": right, "scores": [float(found[name]) / 100 for name in ("exact_match", "f1")]}


def answers():
    words = ["the", "The", "a", "an", "cat", "cat's", "Cats", "U.S.", "1,000", "«the»", "“a", "naïve", "e-mail", "the-end", "x_y", "日本", "the.", "..."]
    text = lambda least: " ".join(str(w) for w in rng.choice(words, rng.integers(least, 6)))
    return [answer(text(1), [text(1) for _ in range(rng.integers(1, 4))]) for _ in range(80)]


def main():
    score = np.round(rng.uniform(0, 5, 40) * 5) / 5
    found = {
        "tagged": [
            tagged("BI", ["PER", "LOC", "creative-work"], 30, 0.7),
            tagged("BIES", ["PER", "LOC"], 30, 0.6),
            tagged("I", ["X", "Y"], 20, 0.8),
            tagged("BI", ["X"], 4, 1.0),
            tagged("BI", ["X", "Y"], 6, 0.0),
        ],
        "numbers": [
            numbers(score, score + rng.normal(0, 1, 40)),
            numbers(score, np.round(score + rng.normal(0, 1, 40))),
            numbers([1, 2, 3, 4], [4, 3, 2, 1]),
            numbers([1, 1, 1], [1, 2, 3]),
            numbers(rng.normal(0, 1e-3, 12) + 1e3, rng.normal(0, 1, 12)),
        ],
        "answers": answers(),
    }
    FILE.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(f"{FILE.name}: {FILE.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
