"""Oracle of preference optimisation: TRL's losses, rewards and gradients of a tiny random LLaMA beside a reference.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 trl==1.16.0 safetensors
    python make_preference.py

preference.safetensors: `policy.<weight>` and `reference.<weight>` of two `LlamaForCausalLM` of one config; four pairs as TRL's
`DataCollatorForPreference` puts them side by side, first all chosen and then all rejected texts: `input_ids`, `attention_mask`,
`completion_mask` I64 [8, longest]. `logps` and `reference_logps` [8] are the log-probabilities of completions, `reward_accuracy` and
`reward_margin` [1] with beta = 0.1. For each loss `NAME.loss` [1], a mean over pairs, and `NAME.grad.<weight>`:

    sigmoid    loss_type "sigmoid", beta = 0.1
    hinge      loss_type "hinge", beta = 0.5, with some pairs beyond the margin
    ipo        loss_type "ipo", beta = 0.3
    smoothed   the conservative form of "sigmoid" with label_smoothing = 0.2, beta = 0.1. TRL 1.16 has it only for loss_type "aot", which
               sorts the pairs of a batch; it is given one pair at a time here, so that there is nothing to sort

All values come from `DPOTrainer._compute_loss`, called on a stand-in with the trainer's attributes. Only log-probabilities are
computed here, from transformers' logits in float64, since TRL's own head works in float32; all is float64 from the float32 weights
of the file, and rounded when written.
"""

from collections import defaultdict
from types import SimpleNamespace

import torch
from shared import seeded, weights
from trl.trainer.dpo_trainer import DataCollatorForPreference, DPOTrainer
from trl_shared import VOCAB, loss_and_gradients, policy_and_reference, start, write_rounded

# Prompt, chosen and rejected tokens of each pair.
LENGTHS = [(4, 5, 3), (2, 3, 6), (6, 1, 4), (3, 7, 7)]
BETA = 0.1


class Scored(torch.nn.Module):
    """A stand-in for the model that `_compute_loss` calls."""

    is_gradient_checkpointing = False

    def __init__(self, model):
        super().__init__()
        self.model = model
        self.config = model.config

    def forward(self, input_ids, attention_mask, labels, use_cache, fused_lm_head):
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=use_cache).logits[:, :-1]
        assert logits.dtype == torch.float64 and fused_lm_head
        labels = labels[:, 1:]
        found = logits.log_softmax(-1).gather(-1, labels.clamp(min=0)[..., None])[..., 0]
        none = torch.zeros_like(found)
        return SimpleNamespace(
            log_probs=found.masked_fill(labels == -100, 0), entropy=none, mean_logits=none, is_top1=none.bool(), aux_loss=None
        )


def trainer(policy, reference, loss, beta, smoothing=0.0):
    same = lambda x: x
    return SimpleNamespace(
        model=policy,
        ref_model=reference,
        accelerator=SimpleNamespace(device=torch.device("cpu"), gather=same, gather_for_metrics=same),
        args=SimpleNamespace(gradient_checkpointing_kwargs=None),
        loss_types=[loss],
        loss_weights=[1.0],
        beta=beta,
        label_smoothing=smoothing,
        f_divergence_type="reverse_kl",
        aux_loss_enabled=False,
        ld_alpha=None,
        precompute_ref_logps=False,
        use_weighting=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _total_train_tokens=0,
        _tp_size=1,
    )


def likelihoods(scored, batch):
    labels = batch["input_ids"].masked_fill(batch["completion_mask"] == 0, -100)
    with torch.no_grad():
        out = scored(batch["input_ids"], batch["attention_mask"], labels, False, True)
    return out.log_probs.sum(1)


def main():
    generator = seeded("better_and_worse")
    policy, reference = policy_and_reference(generator)
    tensors = weights(policy, "policy.") | weights(reference, "reference.")
    draw = lambda count: torch.randint(1, VOCAB, (count,), generator=generator).tolist()
    examples = [dict(zip(("prompt_ids", "chosen_ids", "rejected_ids"), map(draw, lengths))) for lengths in LENGTHS]
    collate = DataCollatorForPreference(pad_token_id=0)
    batch = collate(examples)
    tensors |= batch
    policy, reference = Scored(policy.double()), Scored(reference.double().eval())
    tensors["logps"], tensors["reference_logps"] = likelihoods(policy, batch), likelihoods(reference, batch)

    def of(name, made, loss):
        tensors.update(loss_and_gradients(name, policy.model, loss))
        print(f"  {name:10} {loss.item():.4f}")
        return {key: torch.tensor(values[0]).reshape(1) for key, values in made._metrics["train"].items() if key != "num_tokens"}

    for name, beta in (("sigmoid", BETA), ("hinge", 0.5), ("ipo", 0.3)):
        made = trainer(policy, reference, name, beta)
        told = of(name, made, DPOTrainer._compute_loss(made, policy, dict(batch), False))
        if name == "sigmoid":
            tensors["reward_accuracy"], tensors["reward_margin"] = told["rewards/accuracies"], told["rewards/margins"]
    made = trainer(policy, reference, "aot", BETA, 0.2)
    alone = [DPOTrainer._compute_loss(made, policy, collate([example]), False) for example in examples]
    of("smoothed", made, torch.stack(alone).mean())

    ratios = tensors["logps"] - tensors["reference_logps"]
    scaled = BETA * (ratios[:4] - ratios[4:])
    log = torch.nn.functional.logsigmoid
    smoothed = -(0.8 * log(scaled) + 0.2 * log(-scaled)).mean()
    assert abs(smoothed - tensors["smoothed.loss"]).item() < 1e-12
    assert 0 < tensors["reward_accuracy"].item() < 1
    print(f"  scaled differences {[round(x, 3) for x in scaled.tolist()]}")
    write_rounded("preference", tensors, reference.config)


if __name__ == "__main__":
    start()
    main()
