"""Oracle of reward models: TRL's loss, rewards and gradients of a tiny random LLaMA with a scalar head.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 trl==1.16.0 safetensors
    python make_reward.py

reward.safetensors: the weights of a `LlamaForSequenceClassification` with num_labels = 1; five pairs as TRL's
`DataCollatorForPreference` of rewards puts them side by side, first all chosen and then all rejected texts: `input_ids`,
`attention_mask` I64 [10, longest]; `margin` [5]. `rewards` [10], `accuracy` and `reward_margin` [1] are the metrics that TRL
reports. For each loss `NAME.loss` [1], a mean over pairs, and `NAME.grad.<weight>`:

    plain      -log sigmoid of the difference
    margins    of the difference minus the margin
    centered   plain, with center_rewards_coefficient = 0.3

All values come from `RewardTrainer.compute_loss`, called on a stand-in with the trainer's attributes, in float64 from the file's
float32 weights, and rounded when written. Id 0 is the padding and occurs in no text, so that the class reads each last token.
"""

from collections import defaultdict
from types import SimpleNamespace

import torch
from shared import seeded, weights
from trl.trainer.reward_trainer import DataCollatorForPreference, RewardTrainer
from trl_shared import VOCAB, loss_and_gradients, start, write_rounded
from trl_shared import model as tiny

# Tokens of the chosen and the rejected text of each pair.
LENGTHS = [(9, 7), (5, 8), (7, 10), (10, 10), (3, 1)]
CENTER = 0.3


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


def main():
    generator = seeded("rewards")
    model = tiny("LlamaForSequenceClassification", generator, pad_token_id=0, num_labels=1)
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
        tensors.update(loss_and_gradients(name, model, loss))
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
    write_rounded("reward", tensors, model.config)


if __name__ == "__main__":
    start()
    main()
