#!/usr/bin/env python3
"""Ranks of paragraphs and statistics of long ListOps, for tests/it/data/articles.rs and long_tasks.rs. Run by hand;
writes long_tasks.json.

Versions: Python 3.11 or later, scikit-learn 1.9, numpy 2.

Paragraphs: words are counted by scikit-learn's CountVectorizer; the score of a paragraph for a title is that of Liu et al.
2018, section 4.1, in numpy: the sum over the words of the title of N(w, d) * log(N / N(w)).

ListOps: trees are drawn as the generator of Tay et al. 2020 describes them (google-research/long-range-arena: an argument
is an operation with probability 1/4 down to a depth, 2 to 10 arguments, 500 to 2,000 tokens without parentheses), here
with a separate recursion. The file has the statistics of the trees within the bounds, from 20,000 of them.
"""
import json
import pathlib
import random

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

rng = random.Random(5)

WORDS = ("The the of Of a in river bridge Bridge old Kelvin tower 1879 1,000 Zürich Émile café <unk> @-@ storm II gate "
         "North north 's St. . , ( ) ; wall").split()


def text(low, high):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(low, high)))


def ranked(title, paragraphs):
    vectorizer = CountVectorizer(lowercase=True, token_pattern=r"(?u)[^\W_]+")
    counts = vectorizer.fit_transform(paragraphs).toarray()
    having = (counts > 0).sum(axis=0)
    scores = np.zeros(len(paragraphs))
    for word in set(vectorizer.build_analyzer()(title)):
        column = vectorizer.vocabulary_.get(word)
        if column is not None:
            scores += counts[:, column] * np.log(len(paragraphs) / having[column])
    order = sorted(range(len(paragraphs)), key=lambda i: (-round(scores[i], 9), i))
    return [round(float(s), 12) for s in scores], order


articles = []
for number in range(12):
    title = text(1, 5)
    paragraphs = [text(1, 40) for _ in range(rng.randint(1, 14))]
    if number % 3 == 0 and len(paragraphs) > 3:
        paragraphs[2] = paragraphs[0]
    scores, order = ranked(title, paragraphs)
    articles.append({"title": title, "paragraphs": paragraphs, "scores": scores, "order": order})

DEPTH, ARGS, LOW, HIGH = 10, 10, 500, 2000


def tree(depth):
    """Tokens, operations, the deepest operation, and the value."""
    if depth >= DEPTH or rng.random() > 0.25:
        return 1, 0, 0, rng.randrange(10)
    parts = [tree(depth + 1) for _ in range(rng.randint(2, ARGS))]
    values = [part[3] for part in parts]
    value = rng.choice([min, max, lambda v: int(np.median(v)), lambda v: sum(v) % 10])(values)
    deepest = max([depth] + [part[2] for part in parts])
    return 2 + sum(p[0] for p in parts), 1 + sum(p[1] for p in parts), deepest, value


drawn, operations_drawn, kept = 0, 0, []
while len(kept) < 20_000:
    one = tree(1)
    drawn += 1
    operations_drawn += one[1] > 0
    if LOW < one[0] < HIGH:
        kept.append(one)
kept = np.array(kept)
lengths = kept[:, 0]
listops = {
    "share_of_operations_within": round(len(kept) / operations_drawn, 5),
    "length": {"mean": round(float(lengths.mean()), 2), "quantiles": [int(q) for q in np.quantile(lengths, [0.1, 0.25, 0.5, 0.75, 0.9])]},
    "tokens_per_operation": round(float(lengths.sum() / kept[:, 1].sum()), 5),
    "deepest": [round(float((kept[:, 2] == d).mean()), 5) for d in range(1, DEPTH)],
    "values": [round(float((kept[:, 3] == v).mean()), 5) for v in range(10)],
}
print(listops)
file = pathlib.Path(__file__).parent / "long_tasks.json"
file.write_text(json.dumps({"articles": articles, "listops": listops}, ensure_ascii=False, indent=1) + "\n")
