"""Code shared by make_preference.py, make_reward.py and make_grpo.py: TRL's trainers are called on tiny random LLaMAs in float64.

Weights are drawn in float32, as stored in the files; everything computed from them is float64 and rounded when written.
"""

import copy

import torch
import transformers as hf
import trl
from shared import MADE_WITH, begin, redraw, write

MADE_WITH |= {"transformers": "5.24.0", "trl": "1.16.0"}
VOCAB = 31
WHOLE = (torch.int64, torch.int32)


def start():
    begin(torch, hf, trl)


def model(name, generator, **more):
    """A model of this class, in training mode."""
    config = hf.LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        attn_implementation="eager",
        **more,
    )
    config.architectures = [name]
    made = getattr(hf, name)(config).train()
    redraw(made, generator)
    return made


def policy_and_reference(generator):
    reference = model("LlamaForCausalLM", generator)
    policy = copy.deepcopy(reference)
    with torch.no_grad():
        # Close to its reference, as after some steps.
        for parameter in policy.parameters():
            parameter += 0.15 * parameter.abs().mean() * torch.randn(parameter.shape, generator=generator)
    return policy, reference


def loss_and_gradients(name, model, loss):
    """`NAME.loss` [1] and `NAME.grad.<weight>`."""
    assert loss.dtype == torch.float64
    model.zero_grad()
    loss.backward()
    found = {f"{name}.grad.{key}": p.grad.clone() for key, p in model.named_parameters()}
    assert all((gradient != 0).any() for gradient in found.values())
    return {f"{name}.loss": loss.detach().clone().reshape(1)} | found


def write_rounded(name, tensors, config):
    write(name, {key: x if x.dtype in WHOLE else x.float() for key, x in tensors.items()}, config)
