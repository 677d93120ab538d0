"""Oracles for tests/it/goldens.rs: tiny random language models of HF transformers, their outputs and gradients.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_language_models.py [NAME ...]

(`gemma2`, `gpt_neo`, `gpt_neo_windows`, `latent`, `latent_plain`, `mamba`, `mamba2`, `qwen3_next` and `rwkv` were made with transformers 5.23.0.)

Each NAME.safetensors holds the weights under their HF names, `input_ids` [2, 13] or [2, LENGTHS], `logits`, `loss` (mean next-token
cross-entropy over all positions), `grad.<weight>` of that loss for every weight, and config.json in the metadata
(key `config`). Everything is float32 with eager attention, except one model. Weights are redrawn so that biases, gains and every position
scheme have an effect: a fresh HF model has zero biases, gains of one and attention that is nearly uniform.

In qwen3_next, the projections that HF keeps in two matrices, key head by key head, are separate: `qkv_proj`, `z_proj`, `b_proj` and
`a_proj`.

t5_buckets.safetensors holds tables of T5's relative position buckets.
"""

import json
import os
import sys
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers as hf
from safetensors.torch import save_file
from shared import of_states
from transformers.models.t5.modeling_t5 import T5Attention, T5Stack

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH, LENGTH, VOCAB = 2, 13, 61
# Long enough for states to matter.
LENGTHS = {"mamba": 24, "mamba2": 24, "qwen3_next": 70, "rwkv": 24}


def causal(config_class, **options):
    """A causal language model of HF with eager attention."""
    options = {"attn_implementation": "eager"} | options
    config = config_class(vocab_size=VOCAB, **options)
    return hf.AutoModelForCausalLM.from_config(config)


class T5Decoder(torch.nn.Module):
    """Only T5's decoder stack: no encoder, so its cross-attention is skipped; the head of T5 v1.0 or of v1.1."""

    def __init__(self, tied, **options):
        super().__init__()
        config = hf.T5Config(
            vocab_size=VOCAB,
            is_decoder=True,
            is_encoder_decoder=False,
            tie_word_embeddings=tied,
            attn_implementation="eager",
            **options,
        )
        config.architectures = ["T5Stack"]
        self.config = config
        self.stack = T5Stack(config, torch.nn.Embedding(VOCAB, config.d_model))
        self.lm_head = None if tied else torch.nn.Linear(config.d_model, VOCAB, bias=False)

    def forward(self, input_ids):
        hidden = self.stack(input_ids=input_ids, use_cache=False).last_hidden_state
        if self.lm_head is None:
            hidden = hidden * self.config.d_model**-0.5
            return hidden @ self.stack.embed_tokens.weight.T
        return self.lm_head(hidden)

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            if ".layer.1." not in name:
                yield name.removeprefix("stack."), parameter


LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
}


def llama(**options):
    return causal(hf.LlamaConfig, **(LLAMA | options))


def stretched(**scaling):
    """Base 100, so that wavelengths (6, 20, 63, 199) lie on both sides of a context of 32."""
    return llama(rope_theta=100.0, rope_scaling=scaling, max_position_embeddings=128)


def falcon(**options):
    shape = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_hidden_size=40)
    return causal(hf.FalconConfig, **(shape | options))


def latent(**options):
    """DeepSeek-V3 without experts: latent attention between dense layers."""
    shape = dict(
        hidden_size=24, intermediate_size=40, num_hidden_layers=2, first_k_dense_replace=2, num_attention_heads=4, num_key_value_heads=4,
        kv_lora_rank=9, q_lora_rank=10, qk_rope_head_dim=4, qk_nope_head_dim=5, v_head_dim=6, max_position_embeddings=64,
    )
    return causal(hf.DeepseekV3Config, **(shape | options))


def gpt_neo(**options):
    shape = dict(hidden_size=24, num_heads=4, intermediate_size=40, max_position_embeddings=16)
    return causal(hf.GPTNeoConfig, **(shape | options))


MODELS = {
    "gpt2": lambda: causal(hf.GPT2Config, n_positions=16, n_embd=24, n_layer=3, n_head=4, n_inner=40),
    "openai_gpt": lambda: causal(hf.OpenAIGPTConfig, n_positions=16, n_embd=24, n_layer=2, n_head=4),
    "llama": lambda: llama(),
    "llama_gqa": lambda: llama(num_key_value_heads=2, attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    "llama_head_dim": lambda: llama(num_attention_heads=4, num_key_value_heads=1, head_dim=6, hidden_size=20),
    "llama_linear": lambda: stretched(rope_type="linear", factor=4.0),
    "llama_yarn": lambda: stretched(rope_type="yarn", factor=4.0, original_max_position_embeddings=32),
    "llama_llama3": lambda: stretched(
        rope_type="llama3",
        factor=8.0,
        original_max_position_embeddings=32,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
    ),
    # HF's dynamic scaling of 13 tokens at a context of 10 is an NTK base for a factor of 2 * 13/10 - 1 = 1.6.
    "llama_dynamic": lambda: llama(
        rope_theta=100.0, rope_scaling={"rope_type": "dynamic", "factor": 2.0}, max_position_embeddings=10
    ),
    "mistral": lambda: causal(
        hf.MistralConfig, **(LLAMA | {"num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 32})
    ),
    # Each of the 13 tokens sees 5 keys.
    "mistral_window": lambda: causal(
        hf.MistralConfig, **(LLAMA | {"num_key_value_heads": 2, "max_position_embeddings": 64, "sliding_window": 5})
    ),
    "qwen2": lambda: causal(hf.Qwen2Config, **(LLAMA | {"num_key_value_heads": 2})),
    "qwen3": lambda: causal(hf.Qwen3Config, **(LLAMA | {"num_key_value_heads": 2, "head_dim": 6})),
    # Gemma 2 has sandwich norms, capped scores and scaled embeddings; its gains begin at 0.
    "gemma2": lambda: causal(
        hf.Gemma2Config,
        **(LLAMA | {"num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 11, "sliding_window": 64}),
        attn_logit_softcapping=2.0,
        final_logit_softcapping=None,
    ),
    "falcon": lambda: falcon(num_hidden_layers=3),
    "falcon_grouped": lambda: falcon(new_decoder_architecture=True, num_kv_heads=2),
    # Eager Falcon of this version adds ALiBi twice (in the mask and to the scores); its default, SDPA, does not.
    "falcon_alibi": lambda: falcon(
        alibi=True, multi_query=False, parallel_attn=False, bias=True, attn_implementation="sdpa"
    ),
    "gpt_neox": lambda: causal(
        hf.GPTNeoXConfig,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        rotary_pct=0.5,
        max_position_embeddings=64,
    ),
    "gpt_neox_sequential": lambda: causal(
        hf.GPTNeoXConfig,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
        rotary_pct=0.25,
        max_position_embeddings=64,
        use_parallel_residual=False,
    ),
    "gptj": lambda: causal(
        hf.GPTJConfig, n_positions=64, n_embd=32, n_layer=2, n_head=4, n_inner=40, rotary_dim=4
    ),
    # Of the 13 tokens a local layer sees 5.
    "gpt_neo": lambda: gpt_neo(num_layers=4, attention_types=[[["global", "local"], 2]], window_size=5),
    "gpt_neo_windows": lambda: gpt_neo(
        num_layers=3, attention_types=[[["local"], 2], [["global"], 1]], window_size=3, tie_word_embeddings=False
    ),
    "latent": lambda: latent(
        rope_parameters=dict(
            rope_type="yarn", rope_theta=100.0, factor=4.0, original_max_position_embeddings=8, mscale=0.5, mscale_all_dim=1.5
        )
    ),
    # Values wider than keys.
    "latent_plain": lambda: latent(
        q_lora_rank=None, v_head_dim=11, attention_bias=True, rope_interleave=False, tie_word_embeddings=True
    ),
    "bloom": lambda: causal(hf.BloomConfig, hidden_size=24, n_layer=2, n_head=6),
    "mpt": lambda: causal(hf.MptConfig, d_model=24, n_heads=4, n_layers=2, max_seq_len=64),
    # All computed by the classes' own operations: no kernel is installed.
    "mamba": lambda: causal(
        hf.MambaConfig, hidden_size=24, num_hidden_layers=3, state_size=5, expand=2, conv_kernel=4, time_step_rank=3
    ),
    "mamba2": lambda: causal(
        hf.Mamba2Config, hidden_size=24, num_hidden_layers=3, num_heads=8, head_dim=6, state_size=5, n_groups=2, chunk_size=8
    ),
    # Only gated delta networks, with dense feed-forward layers; 70 tokens are more than a chunk.
    "qwen3_next": lambda: causal(
        hf.Qwen3NextConfig,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=6,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=5,
        linear_value_head_dim=6,
        num_experts=0,
        layer_types=["linear_attention"] * 2,
    ),
    # The class halves weights in place every `rescale_every` layers when it evaluates.
    "rwkv": lambda: causal(
        hf.RwkvConfig,
        hidden_size=24,
        attention_hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=3,
        context_length=32,
        rescale_every=0,
    ),
    "t5_stack": lambda: T5Decoder(
        tied=True,
        d_model=24,
        d_kv=5,
        d_ff=40,
        num_layers=3,
        num_heads=4,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=10,
    ),
    "t5_stack_gated": lambda: T5Decoder(
        tied=False, d_model=24, d_kv=6, d_ff=32, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu"
    ),
}


def from_zero(model, name):
    """Whether the class adds one to this gain, so that it is drawn around 0."""
    return model == "gemma2" or model == "qwen3_next" and not name.endswith("linear_attn.norm.weight")


def redraw(model, seed, gains_from_zero):
    """Redraws weights, large enough that attention is far from uniform and every bias and gain has an effect."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            state = of_states(name, noise)
            if state is not None:
                parameter.copy_(state)
            elif parameter.dim() == 1:
                gain = 1.0 if name.endswith("weight") and not gains_from_zero(name) else 0.0
                parameter.copy_(gain + 0.2 * noise)
            elif "relative_attention_bias" in name:
                parameter.copy_(noise)
            else:
                parameter.copy_(noise * (1.3 * parameter.shape[-1] ** -0.5))


def apart(model, name, values):
    """Splits a matrix into named parts: qwen3_next's joint projections, stored key head by key head."""
    config = model.config
    if not name.endswith(("in_proj_qkvz.weight", "in_proj_ba.weight")):
        return {name: values}
    heads, per = config.linear_num_key_heads, config.linear_num_value_heads // config.linear_num_key_heads
    key, value = config.linear_key_head_dim, per * config.linear_value_head_dim
    before, last = name.rsplit("in_proj_", 1)
    heights = [key, key, value, value] if last == "qkvz.weight" else [per, per]
    parts = values.unflatten(0, (heads, -1)).split(heights, 1)
    parts = [part.flatten(0, 1) for part in parts]
    if last == "qkvz.weight":
        parts = [torch.cat(parts[:3]), parts[3]]
    names = ["qkv", "z"] if last == "qkvz.weight" else ["b", "a"]
    return {f"{before}{own}_proj.weight": part for own, part in zip(names, parts, strict=True)}


def logits_of(model, ids):
    out = model(ids) if isinstance(model, T5Decoder) else model(input_ids=ids, use_cache=False).logits
    return out.float()


def write(name, model, seed):
    model = model.float().eval()
    redraw(model, seed, gains_from_zero=lambda key: from_zero(name, key))
    length = LENGTHS.get(name, LENGTH)
    ids = torch.randint(0, VOCAB, (BATCH, length), generator=torch.Generator().manual_seed(seed + 1000))
    logits = logits_of(model, ids)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
    loss.backward()
    tensors = {"input_ids": ids, "logits": logits.detach().contiguous(), "loss": loss.detach()}
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, f"{name}: {key} has no gradient"
        values = parameter.detach().contiguous().clone()
        tensors |= apart(model, key, values)
        tensors |= {"grad." + own: part for own, part in apart(model, key, parameter.grad.contiguous().clone()).items()}
    config = model.config
    config.architectures = config.architectures or [type(model).__name__]
    path = os.path.join(HERE, name + ".safetensors")
    # A single key, since safetensors writes several in an order that changes from run to run.
    save_file(tensors, path, {"config": config.to_json_string(use_diff=True)})
    print(f"{name:20} loss {loss.item():.4f}  logits sd {logits.std().item():.2f}  {os.path.getsize(path) // 1024} KB")


def write_buckets():
    relative = torch.arange(-300, 301)
    tensors = {"relative": relative}
    for buckets, distance in [(32, 128), (8, 20), (16, 50), (6, 9)]:
        for bidirectional in [False, True]:
            kind = "both" if bidirectional else "causal"
            tensors[f"{kind}.{buckets}.{distance}"] = T5Attention._relative_position_bucket(
                relative, bidirectional=bidirectional, num_buckets=buckets, max_distance=distance
            ).contiguous()
    save_file(tensors, os.path.join(HERE, "t5_buckets.safetensors"))


def main():
    torch.set_num_threads(1)
    made = f"torch {torch.__version__.split('+')[0]}, transformers {hf.__version__}"
    if made != "torch 2.15.0, transformers 4.57.1":
        print(f"warning: the files in the repository were made with other versions than {made}")
    wanted = sys.argv[1:] or [*MODELS, "t5_buckets"]
    for name in wanted:
        if name == "t5_buckets":
            write_buckets()
        else:
            write(name, MODELS[name](), seed=zlib.crc32(name.encode()))


if __name__ == "__main__":
    main()
