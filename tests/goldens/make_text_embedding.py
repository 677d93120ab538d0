"""Oracles of text embeddings: the losses, pooling and retrieval scores of sentence-transformers.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 sentence-transformers==6.2.0 safetensors
    python make_text_embedding.py

All is computed in float64 from the float32 values of the file, and rounded to float32 when written; only the labels
of the cosine loss are rounded to float32 earlier, by the library. Scalars have shape [1].

text_embedding.safetensors, losses: `u`, `v` [7, 12], pairs of embeddings with different norms; row 4 of `u` is 1000 times
smaller, row 3 of `v` nearly parallel to that of `u`. Each has `.loss`, `.grad_u` and `.grad_v`:

    in_batch    MultipleNegativesRankingLoss with scale 20: the v of each u among all v, mean over the pairs
    symmetric   MultipleNegativesRankingLoss with scale 1 / 0.07, directions query_to_doc and doc_to_query, partition_mode
                per_direction (once MultipleNegativesSymmetricRankingLoss): mean of u among v and v among u
    grouped     in_batch over rows 0..4 and 4..7 as separate batches, mean over the 7 pairs
    cosine      CosineSimilarityLoss: mean square of the cosine minus `scores` / 5; `scores` [7], `cosine.cosines` [7]

Pooling: `hidden` [3, 5, 12] with values at padding, too, `lengths` I64 [3]; `pooled.mean`, `pooled.cls`,
`pooled.mean_normalized` [3, 12].

Retrieval: `queries`, `documents` [40, 16]; document i belongs to query i. `recall_1`, `recall_10` and `mrr` (over all 40)
are those of InformationRetrievalEvaluator by cosines, `evaluator_ranks` I64 [40] the ranks it gives to the documents.
Documents 8 and 23 are the same and nearest to queries 8 and 23. The evaluator sorts ties by ascending id, a text (here of
two digits: the order of the indices), so document 8 is first for both queries, and the rank of query 23 is 2. `ranks` I64
[40] does not order ties: 1 + the number of documents whose cosine is greater, so 1 for both.
"""

import json
import os
import tempfile

import numpy as np
import sentence_transformers as st
import torch
import transformers as hf
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss, MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling
from sentence_transformers.util import cos_sim
from shared import begin, padding, seeded, write

MADE_WITH = {hf: "5.23.0", st: "6.2.0"}
SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}


def ranking(u, v, **options):
    return MultipleNegativesRankingLoss(None, **options).compute_loss_from_embeddings([u, v], None)


def defined(u, v, scale):
    """The ranking loss by definition."""
    unit = [x / x.norm(dim=1, keepdim=True) for x in (u, v)]
    return torch.nn.functional.cross_entropy(scale * unit[0] @ unit[1].T, torch.arange(len(u)))


def losses(generator):
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    u, v = draw(7, 12), draw(7, 12)
    v[3] = 1.5 * u[3] + 0.02 * v[3]
    u *= torch.tensor([1.0, 0.5, 2.0, 0.8, 1e-3, 3.0, 1.3])[:, None]
    v *= torch.tensor([0.7, 1.6, 1.0, 2.0, 0.9, 0.3, 4.0])[:, None]
    scores = torch.tensor([3.2, 0.0, 1.5, 5.0, 4.4, 2.5, 0.6])
    tensors = {"u": u, "v": v, "scores": scores}

    def of(name, loss):
        wide = [x.double().requires_grad_() for x in (u, v)]
        value = loss(*wide)
        assert value.dtype == torch.float64
        value.backward()
        assert all((x.grad != 0).all() for x in wide)
        tensors.update({f"{name}.loss": value.reshape(1), f"{name}.grad_u": wide[0].grad, f"{name}.grad_v": wide[1].grad})
        return value

    grouped = lambda u, v: (4 * ranking(u[:4], v[:4], scale=20.0) + 3 * ranking(u[4:], v[4:], scale=20.0)) / 7
    labels = scores.double() / 5
    in_batch = of("in_batch", lambda u, v: ranking(u, v, scale=20.0))
    symmetric = of("symmetric", lambda u, v: ranking(u, v, scale=1 / 0.07, **SYMMETRIC))
    of("grouped", grouped)
    of("cosine", lambda u, v: CosineSimilarityLoss(None).compute_loss_from_embeddings([u, v], labels))
    wide = [u.double(), v.double()]
    assert torch.allclose(in_batch, defined(*wide, 20.0), rtol=1e-12)
    both = (defined(*wide, 1 / 0.07) + defined(*wide[::-1], 1 / 0.07)) / 2
    assert torch.allclose(symmetric, both, rtol=1e-12)
    tensors["cosine.cosines"] = cos_sim(*wide).diagonal()
    return tensors


def pooled(generator):
    hidden, lengths = torch.randn(3, 5, 12, generator=generator), [5, 3, 1]
    found = {"hidden": hidden, "lengths": torch.tensor(lengths)}

    def through(*modules):
        features = {"token_embeddings": hidden.double(), "attention_mask": padding(lengths, 5)}
        for module in modules:
            features = module(features)
        return features["sentence_embedding"]

    found["pooled.mean"] = through(Pooling(12, "mean"))
    found["pooled.cls"] = through(Pooling(12, "cls"))
    found["pooled.mean_normalized"] = through(Pooling(12, "mean"), Normalize())
    return found


class Vectors:
    """A model whose texts are row numbers of an embedding matrix."""

    def __init__(self, queries, documents):
        self.queries, self.documents = queries, documents

    def encode_query(self, texts, **_):
        return self.queries[[int(text) for text in texts]]

    def encode_document(self, texts, **_):
        return self.documents[[int(text) for text in texts]]


def retrieval(generator):
    count, width, one, other = 40, 16, 8, 23
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    queries = draw(count, width)
    queries[other] = queries[one] + 0.2 * draw(width)
    noise = 1.4 * draw(count, width)
    noise[one] *= 0.2
    documents = queries + noise
    documents[other] = documents[one]
    names = {f"{i:02}": f"{i:02}" for i in range(count)}
    evaluator = InformationRetrievalEvaluator(
        names,
        names,
        {name: {name} for name in names},
        mrr_at_k=[count],
        precision_recall_at_k=[1, 10],
        score_functions={"cosine": cos_sim},
        write_predictions=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        found = evaluator.compute_all_metrics(Vectors(queries.double(), documents.double()), output_path=folder)["cosine"]
        with open(os.path.join(folder, evaluator.predictions_file.replace(".jsonl", "_cosine.jsonl"))) as file:
            lists = [[hit["corpus_id"] for hit in json.loads(line)["results"]] for line in file]
    places = [hits.index(name) + 1 for name, hits in zip(names, lists)]
    q, d = (x.double().numpy() for x in (queries, documents))
    unit = [x / np.sqrt((x * x).sum(axis=1, keepdims=True)) for x in (q, d)]
    cosines = np.array([[(a * b).sum() for b in unit[1]] for a in unit[0]])
    own = cosines.diagonal()[:, None]
    assert (cosines[:, one] == cosines[:, other]).all()
    ranks = 1 + (cosines > own).sum(axis=1)
    # Cosines in float32 have the same order.
    margin = np.abs(cosines - own)[cosines != own].min()
    assert margin > 1e-5, margin
    assert (ranks[one], ranks[other], places[one], places[other]) == (1, 1, 1, 2)
    assert all(place == rank for i, (place, rank) in enumerate(zip(places, ranks)) if i != other)
    recall = found["recall@k"]
    assert np.isclose(found["mrr@k"][count], np.mean([1 / place for place in places]))
    print(f"  recall@1 {recall[1]}, by ranks {(ranks == 1).mean()}; margin {margin:.0e}")
    print(f"  mrr {found['mrr@k'][count]:.6f}, by ranks {(1 / ranks).mean():.6f}")
    return {
        "queries": queries,
        "documents": documents,
        "recall_1": torch.tensor([recall[1]]),
        "recall_10": torch.tensor([recall[10]]),
        "mrr": torch.tensor([found["mrr@k"][count]]),
        "evaluator_ranks": torch.tensor(places),
        "ranks": torch.tensor(ranks),
    }


if __name__ == "__main__":
    begin(torch)
    for module, version in MADE_WITH.items():
        if module.__version__ != version:
            print(f"warning: the file in the repository was made with {module.__name__} {version}, not {module.__version__}")
    parts = [make(seeded("text_embedding." + make.__name__)) for make in (losses, pooled, retrieval)]
    tensors = parts[0] | parts[1] | parts[2]
    narrow = lambda x: x.float() if x.is_floating_point() else x.long()
    write("text_embedding", {name: narrow(x) for name, x in tensors.items()}, {})
