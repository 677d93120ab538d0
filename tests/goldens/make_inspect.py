#!/usr/bin/env python3
"""Oracles of `inspect`, for tests/it/inspect/goldens.rs. Run by hand; writes inspect.safetensors.

    pip install numpy==2.4.6 scipy==1.17.1 scikit-learn==1.9.1 safetensors==0.8.0
    python make_inspect.py

`weights`: attention of 3 layers with 2 heads over 13 positions, the first a class token and the others the patches of
3 rows by 4 columns, each 8 pixels high and 6 wide. Computed from it: `rollout` by Abnar and Zuidema's definition; `entropy` by
scipy; `line` and `grid`, mean distances in tokens and in pixels by scipy's cdist, the latter without the class token. `causal` are
causal weights, with `causal_by_distance`. `many` has more filters than a filter has elements, `few` has fewer: components, shares of
the variance and cosines by scikit-learn.
"""

import pathlib

import numpy as np
from safetensors.numpy import save_file
from scipy.spatial.distance import cdist
from scipy.special import softmax
from scipy.stats import entropy
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import cosine_similarity

FILE = pathlib.Path(__file__).parent / "inspect.safetensors"
rng = np.random.default_rng(5)
LAYERS, HEADS, ROWS, COLS = 3, 2, 3, 4
POSITIONS = 1 + ROWS * COLS


def signed(components):
    """Flips components so that the element of largest magnitude is positive."""
    largest = np.abs(components).argmax(axis=1)
    return components * np.sign(components[np.arange(len(components)), largest])[:, None]


weights = softmax(2 * rng.standard_normal((LAYERS, HEADS, POSITIONS, POSITIONS)), axis=-1).astype(np.float32)
exact = weights.astype(np.float64)

rollout = np.eye(POSITIONS)
for layer in exact:
    rollout = (0.5 * layer.mean(axis=0) + 0.5 * np.eye(POSITIONS)) @ rollout

tokens = np.arange(POSITIONS)[:, None]
line = (exact * cdist(tokens, tokens)).sum(axis=-1).mean(axis=-1)
places = np.array([(8 * row, 6 * col) for row in range(ROWS) for col in range(COLS)], dtype=np.float64)
patches = exact[..., 1:, 1:]
grid = ((patches / patches.sum(axis=-1, keepdims=True)) * cdist(places, places)).sum(axis=-1).mean(axis=-1)

scores = np.where(np.tri(6, dtype=bool), rng.standard_normal((2, 6, 6)), -np.inf)
causal = softmax(scores, axis=-1).astype(np.float32)
by_distance = np.stack([[np.diagonal(head, -d).astype(np.float64).mean() for d in range(6)] for head in causal])

arrays = {
    "weights": weights,
    "rollout": rollout,
    "entropy": entropy(exact, axis=-1).mean(axis=-1),
    "largest": exact.max(axis=-1).mean(axis=-1),
    "first": exact[..., 0].mean(axis=-1),
    "line": line,
    "grid": grid,
    "causal": causal,
    "causal_by_distance": by_distance,
}
for name, count, kept in [("many", 40, 5), ("few", 7, 6)]:
    filters = (rng.standard_normal((count, 18)) * np.linspace(0.2, 2, 18) + 1).astype(np.float32)
    pca = PCA(kept, svd_solver="full").fit(filters.astype(np.float64))
    arrays |= {
        f"{name}.filters": filters,
        f"{name}.components": signed(pca.components_),
        f"{name}.shares": pca.explained_variance_ratio_,
        f"{name}.cosines": cosine_similarity(filters.astype(np.float64)),
    }
save_file({name: np.ascontiguousarray(x, dtype=np.float32) for name, x in arrays.items()}, FILE)
