"""Oracle of group-relative policy optimisation: TRL's losses, metrics and gradients of a tiny random LLaMA beside a reference.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 trl==1.16.0 safetensors
    python make_grpo.py

grpo.safetensors: `policy.<weight>` and `reference.<weight>` of two `LlamaForCausalLM` of one config; three prompts with four completions
each, padded with zeros on the right: `prompts` I64 [3, longest], `completions` I64 [12, longest], their lengths `prompt_lengths` [3] and
`lengths` [12], `ended` [12]; `rewards` [12], which are all equal in one group; `old` [12, longest], log-probabilities under a slightly
different policy. For each case `NAME.loss` [1], `NAME.grad.<weight>`, and where TRL reports them `NAME.kl` and `NAME.clip_ratio` [1]:

    grpo       loss_type "grpo", beta = 0.04, epsilon = 0.2
    dapo       loss_type "dapo", no reference, epsilon = 0.2 below and 0.28 above
    dr_grpo    loss_type "dr_grpo" over 8 tokens, rewards not scaled within a group, beta = 0.1, epsilon = 0.1
    on_policy  loss_type "grpo", with the policy that sampled, at temperature 0.7, beta = 0.04
    masked     loss_type "dapo" as above, completions without an end left out

All values come from `GRPOTrainer._compute_loss`, called on a stand-in with the trainer's attributes, and prompts padded on the
left. Only log-probabilities are computed here, from transformers' logits in float64; advantages follow TRL's lines (rewards less
the mean of their group, over its deviation + 1e-4). All is float64 from the float32 weights of the file, and rounded when written.
"""

from collections import defaultdict
from types import SimpleNamespace

import torch
from shared import padding, seeded, weights
from trl.trainer.grpo_trainer import GRPOTrainer
from trl_shared import VOCAB, loss_and_gradients, policy_and_reference, start, write_rounded

GROUP = 4
PROMPTS = [4, 2, 6]
LENGTHS = [5, 3, 1, 4, 2, 6, 4, 4, 3, 7, 1, 2]
ENDED = [1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1]
REWARDS = [1.0, 0.0, 0.5, 0.0, 0.0, 2.0, 1.0, -1.0, 1.0, 1.0, 1.0, 1.0]


def likelihoods(model, ids, mask, keep, temperature):
    """Reads each text by itself without padding: log-probabilities of the last `keep` positions `[texts, keep]`, zero at padding."""
    found = []
    for row, own in zip(ids, mask.bool()):
        text, count = row[own], int(own[-keep:].sum())
        logits = model(input_ids=text[None], use_cache=False).logits[0, :-1] / temperature
        assert logits.dtype == torch.float64
        told = logits.log_softmax(-1).gather(-1, text[1:, None])[-count:, 0]
        found.append(torch.nn.functional.pad(told, (0, keep - count)))
    return torch.stack(found)


def trainer(loss, beta, epsilon, high, longest, temperature, mask):
    none = torch.zeros(mask.shape).double()
    told = lambda model, ids, _, keep, **__: (likelihoods(model, ids, mask, keep, temperature), none[:, -keep:], None)
    same = lambda x, **_: x
    return SimpleNamespace(
        _get_per_token_logps_and_entropies=told,
        model=SimpleNamespace(training=True),
        accelerator=SimpleNamespace(num_processes=1, gather=same, reduce=same, gather_for_metrics=same, sync_gradients=True),
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1),
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        use_vllm=False,
        _entropy_bonus_enabled=False,
        current_gradient_accumulation_steps=1,
        loss_type=loss,
        beta=beta,
        epsilon_low=epsilon,
        epsilon_high=high,
        max_completion_length=longest,
        _metrics=defaultdict(lambda: defaultdict(list)),
    )


def advantages(rewards, scaled):
    groups = rewards.view(-1, GROUP)
    found = groups - groups.mean(1, keepdim=True)
    return (found / (groups.std(1, keepdim=True) + 1e-4) if scaled else found).view(-1)


def main():
    generator = seeded("groups_of_completions")
    policy, reference = policy_and_reference(generator)
    tensors = weights(policy, "policy.") | weights(reference, "reference.")
    policy, reference = policy.double(), reference.double().eval()

    def draw(lengths):
        mask = padding(lengths, max(lengths))
        return torch.randint(1, VOCAB, mask.shape, generator=generator) * mask, mask

    (prompts, _), (completions, mask) = draw(PROMPTS), draw(LENGTHS)
    whole = lambda values: torch.tensor(values)
    tensors |= {"prompts": prompts, "completions": completions, "prompt_lengths": whole(PROMPTS), "lengths": whole(LENGTHS), "ended": whole(ENDED)}
    # TRL pads prompts on the left.
    width = max(PROMPTS)
    left = torch.stack([row.roll(width - length) for row, length in zip(prompts, PROMPTS)]).repeat_interleave(GROUP, 0)
    left_mask = padding(PROMPTS, width).flip(1).repeat_interleave(GROUP, 0)
    ids, both = torch.cat([left, completions], 1), torch.cat([left_mask, mask], 1)
    keep = completions.shape[1]
    rewards = torch.tensor(REWARDS).double()
    tensors["rewards"] = rewards
    with torch.no_grad():
        noise = 0.2 * torch.randn(completions.shape, generator=generator)
        old = ((likelihoods(policy, ids, both, keep, 1.0) + noise) * mask).float().double()
    tensors["old"] = old

    cases = {
        "grpo": ("grpo", 0.04, 0.2, 0.2, True, 1.0, False),
        "dapo": ("dapo", 0.0, 0.2, 0.28, True, 1.0, False),
        "dr_grpo": ("dr_grpo", 0.1, 0.1, 0.1, False, 1.0, False),
        "on_policy": ("grpo", 0.04, 0.2, 0.2, True, 0.7, False),
        "masked": ("dapo", 0.0, 0.2, 0.28, True, 1.0, True),
    }
    for name, (loss, beta, epsilon, high, scaled, temperature, masked) in cases.items():
        counted = mask * whole(ENDED)[:, None] if masked else mask
        made = trainer(loss, beta, epsilon, high, 8, temperature, both)
        inputs = {
            "prompt_ids": left,
            "prompt_mask": left_mask,
            "completion_ids": completions,
            "completion_mask": counted,
            "advantages": advantages(rewards, scaled),
            "num_items_in_batch": counted.sum(),
        }
        if name != "on_policy":
            inputs["old_per_token_logps"] = old
        if beta:
            with torch.no_grad():
                inputs["ref_per_token_logps"] = likelihoods(reference, ids, both, keep, temperature)
        found = GRPOTrainer._compute_loss(made, policy, inputs)
        tensors.update(loss_and_gradients(name, policy, found))
        told = made._metrics["train"]
        clipped = told["clip_ratio/region_mean"][0]
        assert (clipped > 0) == (name != "on_policy"), (name, clipped)
        if not masked:
            tensors[f"{name}.clip_ratio"] = torch.tensor([clipped])
        if beta:
            tensors[f"{name}.kl"] = torch.tensor(told["kl"])
        print(f"  {name:10} {found.item():.5f}  cut off {clipped:.3f}")
    write_rounded("grpo", tensors, reference.config)


if __name__ == "__main__":
    start()
    main()
