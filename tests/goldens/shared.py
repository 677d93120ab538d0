"""Code shared by the make_*.py of the encoders, encoder-decoders, vision models and their trajectories.

Conventions of their files (safetensors, one folder, one reader):

* `weight.<name>` is a parameter under the oracle's own name, tied parameters once; `grad.<name>` is the gradient of
  `loss` by it. Trajectories have `start.<name>` and `end.<name>` instead.
* Floats are F32 (F64 for the curves of a trajectory), ids and masks I64 (I8 in trajectories).
* `attention_mask` and `decoder_attention_mask` are 1 at tokens and 0 at padding. Rows of an output at padding mean
  nothing: they are zero in the file, and the reader zeroes its own before comparing.
* The configuration is JSON text in the metadata under the key `config`: config.json if the model is HF's.
"""

import json
import os
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
MADE_WITH = {"torch": "2.15.0", "torchvision": "0.29.2", "transformers": "4.57.1"}


def begin(*modules):
    """Sets one thread, and warns if a module's version differs from the one that made the files in the repository."""
    torch.set_num_threads(1)
    for module in modules:
        version, wanted = module.__version__.split("+")[0], MADE_WITH[module.__name__]
        if version != wanted:
            print(f"warning: the files in the repository were made with {module.__name__} {wanted}, not {version}")


def seeded(name):
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def redraw(model, generator):
    """Redraws weights, large enough that attention is far from uniform and every bias, gain and table has an effect."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith(("cls_token", "position_embeddings")):
                parameter.copy_(0.5 * noise)
            elif parameter.dim() == 1:
                parameter.copy_((1.0 if name.endswith("weight") else 0.0) + 0.2 * noise)
            else:
                parameter.copy_(noise * 1.3 * (parameter[0].numel()) ** -0.5)


def of_states(name, noise):
    """Values of a parameter of Mamba, Mamba-2 or RWKV with which states persist for some tokens and stay small; `None` for others."""
    last = name.rsplit(".", 1)[-1]
    if last == "A_log" and noise.dim() == 1:
        return 0.7 * noise - 0.5
    if last == "A_log":
        return torch.arange(1.0, noise.shape[1] + 1).log() + 0.3 * noise
    if name.endswith("x_proj.weight"):
        return noise * (0.7 * noise.shape[1] ** -0.5)
    if name.endswith("mixer.D"):
        return 1.0 + 0.3 * noise
    if name.endswith(("dt_proj.bias", "dt_bias")):
        return noise - 1.5
    if last == "time_decay":
        return 1.5 * noise - 1.0
    if last == "time_first":
        return noise
    if last.startswith("time_mix_"):
        return (1.5 * noise).sigmoid()
    return None


def weights(model, prefix="weight."):
    named = model.named_parameters()
    return {prefix + name: p.detach().clone().contiguous() for name, p in named if p.requires_grad}


def gradients(model, prefix="grad."):
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, f"{name} has no gradient"
            found[prefix + name] = parameter.grad.clone().contiguous()
    return found


def at_tokens(output, mask):
    """`output` [batch, token, …] with zeros at padding."""
    return (output * mask.to(output.dtype)[..., None]).detach().contiguous()


def padding(lengths, length):
    """A mask [row, token] of ones before each row's length."""
    return (torch.arange(length) < torch.tensor(lengths)[:, None]).long()


def config_text(config):
    """config.json of an HF configuration, or JSON of a dict."""
    if isinstance(config, dict):
        return json.dumps(config, indent=2, sort_keys=True)
    return config.to_json_string(use_diff=True)


def write(name, tensors, config):
    path = os.path.join(HERE, name + ".safetensors")
    tensors = {key: value.detach().contiguous() for key, value in tensors.items()}
    # A single key, since safetensors writes several in an order that changes from run to run.
    save_file(tensors, path, {"config": config_text(config)})
    loss = f"loss {tensors['loss'].item():.4f}  " if "loss" in tensors else ""
    print(f"{name:24} {loss}{os.path.getsize(path) // 1024} KB")
