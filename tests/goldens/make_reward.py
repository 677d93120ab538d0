"""Oracle of reward models: TRL's loss, rewards and gradients of a tiny random LLaMA with a head of one number.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 trl==1.16.0 safetensors
    python make_reward.py

reward.safetensors: the weights of a `LlamaForSequenceClassification` with num_labels = 1; five pairs as TRL's
`DataCollatorForPreference` of rewards puts them side by side, first all chosen and then all rejected texts: `input_ids`,
`attention_mask` I64 [10, longest]; `margin` [5]. `rewards` [10], `accuracy` and `reward_margin` [1] are what TRL tells. For each loss
`NAME.loss` [1], a mean over pairs, and `NAME.grad.<weight>`:

    plain      -log sigmoid of the difference
    margins    of the difference without the margin
    centered   plain, with center_rewards_coefficient = 0.3

All of it comes out of `RewardTrainer.compute_loss`, called on what it reads of a trainer, in float64 from the float32 weights of the
file, and rounded when written. Id 0 fills rows up and stands in no text, so that the class reads the last token of each.
"""

from collections import defaultdict
from types import SimpleNamespace

import torch
import transformers as hf
import trl
from shared import MADE_WITH, begin, redraw, seeded, weights, write
from trl.trainer.reward_trainer import DataCollatorForPreference, RewardTrainer

MADE_WITH |= {"transformers": "5.24.0", "trl": "1.16.0"}
# Tokens of the chosen and the rejected text of each pair.
LENGTHS = [(9, 7), (5, 8), (7, 10), (10, 10), (3, 1)]
VOCAB, CENTER = 31, 0.3


def trainer(model, center):
    same = lambda x: x
    return SimpleNamespace(
        model=model,
        accelerator=SimpleNamespace(gather=same, gather_for_metrics=same),
        args=SimpleNamespace(center_rewards_coefficient=center),
        _metrics={"train": defaultdict(list)},
        _total_train_tokens=0,
        _tp_size=1,
    )


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters()}
    assert all((gradient != 0).any() for gradient in found.values())
    return found


def main():
    generator = seeded("rewards")
    config = hf.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        pad_token_id=0,
        num_labels=1,
        attn_implementation="eager",
    )
    config.architectures = ["LlamaForSequenceClassification"]
    model = hf.LlamaForSequenceClassification(config).train()
    redraw(model, generator)
    tensors = weights(model, "")
    draw = lambda count: torch.randint(1, VOCAB, (count,), generator=generator).tolist()
    examples = [dict(zip(("chosen_ids", "rejected_ids"), map(draw, lengths))) for lengths in LENGTHS]
    margins = [0.5, 1.25, 0.0, 2.0, -0.75]
    batch = DataCollatorForPreference(pad_token_id=0)([e | {"margin": m} for e, m in zip(examples, margins)])
    tensors |= batch
    texts = {key: batch[key] for key in ("input_ids", "attention_mask")}
    model = model.double()

    def of(name, inputs, center=None):
        made = trainer(model, center)
        loss, outputs = RewardTrainer.compute_loss(made, model, dict(inputs), return_outputs=True)
        assert loss.dtype == torch.float64
        tensors[f"{name}.loss"] = loss.detach().clone().reshape(1)
        tensors.update({f"{name}.grad.{key}": value for key, value in gradients(model, loss).items()})
        print(f"  {name:10} {loss.item():.4f}")
        return made._metrics["train"], outputs.logits.detach().reshape(-1)

    told, rewards = of("plain", texts)
    tensors["rewards"] = rewards
    tensors["accuracy"], tensors["reward_margin"] = (torch.tensor(told[key]) for key in ("accuracy", "margin"))
    of("margins", texts | {"margin": batch["margin"].double()})
    of("centered", texts, CENTER)
    chosen, rejected = rewards.chunk(2)
    log = torch.nn.functional.logsigmoid
    assert abs(-log(chosen - rejected).mean() - tensors["plain.loss"]).item() < 1e-12
    assert 0 < tensors["accuracy"].item() < 1
    whole = (torch.int64, torch.int32)
    write("reward", {key: x if x.dtype in whole else x.float() for key, x in tensors.items()}, config)


if __name__ == "__main__":
    begin(torch, hf, trl)
    main()
