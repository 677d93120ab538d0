"""The oracle of attention with random blocks: a tiny random BigBird of HF transformers, with the blocks that it drew.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.23.0 safetensors
    python make_big_bird.py

Conventions (names, padding, configuration) are those of shared.py.

big_bird.safetensors, `BigBirdForPreTraining` with blocks of 4 and one random block, `gelu_new`: `input_ids`, `token_type_ids`,
`attention_mask`, `labels` [3, 38] (rows of 38, 33 and 30 tokens: the model pads them to 40, so that the last block is partial
or only padding), `next_sentence_label` [3]; `last_hidden_state`, `pooler_output`, `logits`, `seq_relationship_logits`;
`loss_mlm`, `loss_nsp` and `loss`, their sum, with its gradients. The model is in training, where it draws random blocks
(numpy's generator, seeded by the layer's number), with all dropouts 0. `plan` [layers, heads, blocks, 1]: the random block of
each block of queries, -1 for the first and the last, which see all blocks.
"""

import numpy as np
import torch
import transformers as hf
from make_encoders import SHAPE, VOCAB, cross_entropy
from shared import at_tokens, gradients, padding, redraw, seeded, weights, write
from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention

LENGTHS, LENGTH, BLOCK = [38, 33, 30], 38, 4


def keep_plans(found):
    """Makes the layers record each draw of random blocks."""
    draw = BigBirdBlockSparseAttention._bigbird_block_rand_mask_with_head

    def noted(self, *args, **keys):
        plan = draw(self, *args, **keys)
        found.append(np.stack(plan))
        return plan

    BigBirdBlockSparseAttention._bigbird_block_rand_mask_with_head = noted


def main():
    torch.set_num_threads(1)
    generator = seeded("big_bird")
    shape = SHAPE | dict(max_position_embeddings=40, attn_implementation="eager")
    config = hf.BigBirdConfig(
        type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0, hidden_act="gelu_new", block_size=BLOCK, num_random_blocks=1, **shape
    )
    config.architectures = ["BigBirdForPreTraining"]
    model = hf.BigBirdForPreTraining(config).train()
    redraw(model, generator)
    mask = padding(LENGTHS, LENGTH)
    ids = torch.randint(4, VOCAB, (3, LENGTH), generator=generator)
    types = (torch.arange(LENGTH)[None] >= torch.tensor([[20], [12], [7]])).long() * mask
    labels = torch.full_like(ids, -100)
    for row, length in enumerate(LENGTHS):
        places = torch.randperm(length, generator=generator)[:6]
        labels[row, places] = ids[row, places]
        ids[row, places[:4]] = 3
    ids = ids * mask
    order = torch.tensor([0, 1, 1])
    plans = []
    keep_plans(plans)
    out = model(ids, mask, types, labels=labels, next_sentence_label=order)
    assert len(plans) == config.num_hidden_layers, "each layer draws once"
    again = list(plans)
    body = model.bert(ids, mask, types)
    assert all((a == b).all() for a, b in zip(again, plans[len(again) :])), "a layer draws the same blocks again"
    plan = np.full((len(again), config.num_attention_heads, 10, 1), -1)
    plan[:, :, 1:-1] = np.stack(again)
    for block in range(1, 9):
        own = {0, block - 1, block, block + 1, 9}
        assert not set(plan[:, :, block].ravel()) & own, "a key counts once"
    loss_mlm = cross_entropy(out.prediction_logits, labels)
    loss_nsp = cross_entropy(out.seq_relationship_logits, order)
    out.loss.backward()
    tensors = {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": mask,
        "labels": labels,
        "next_sentence_label": order,
        "plan": torch.tensor(plan),
        "last_hidden_state": at_tokens(body.last_hidden_state, mask),
        "pooler_output": body.pooler_output,
        "logits": at_tokens(out.prediction_logits, mask),
        "seq_relationship_logits": out.seq_relationship_logits,
        "loss_mlm": loss_mlm,
        "loss_nsp": loss_nsp,
        "loss": out.loss,
    }
    assert torch.allclose(loss_mlm + loss_nsp, out.loss)
    write("big_bird", tensors | weights(model) | gradients(model), config)


if __name__ == "__main__":
    main()
