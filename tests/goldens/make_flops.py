"""FLOPs of a forward pass as PyTorch counts them: flops.json, for tests/it/flops.rs.

Run by hand, on the CPU, in this folder; nothing is downloaded and no weight is drawn (meta device):

    pip install torch==2.15.0 torchvision==0.29.2 transformers==5.23.0 timm==1.0.31
    python make_flops.py [PRESET…]

`presets` has, for each preset of formwork, the FLOPs that `torch.utils.flop_counter.FlopCounterMode` counts in one forward pass of
the reference implementation over one example of the preset's length (for a pair: two such texts; for an image: its size),
with eager attention and without a cache. `angles` is to be subtracted: the part that HF spends on the angles of rotary
positions, a matrix product of positions and frequencies which formwork computes element by element; for Mamba, the part
that its convolution computes beyond the end of the text; for Mamba-2, before the token. Mamba-2 is counted in its recurrent form, token by
token: in chunks it computes more products, the longer they are. Networks are
counted without a task's head if formwork's preset has none: encoders give hidden states (and BERT's pooler), image
networks features; all networks that write text include the LM head, at all positions.

`heads` has the heads of tasks, each as the difference of two models, for one scored position or one text. `kinds` has layers that no preset has.
"""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import timm
import torch
import torchvision
import transformers as hf
import transformers.masking_utils
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

# Whether documents are packed in a row is read from values, which meta tensors lack.
hf.masking_utils.find_packed_sequence_indices = lambda *_: None
EAGER = {"attn_implementation": "eager"}


class Continued(int):
    """A text of this many tokens, read token by token."""


def continued(make, length):
    """FLOPs of a token after another one, times the length; the class's convolution gives one position too many."""
    with torch.device("meta"):
        model = make().eval()
        token = ids(1)
    with torch.no_grad():
        cache = model(input_ids=token, use_cache=True).cache_params
        with FlopCounterMode(display=False) as counter:
            model(input_ids=token, cache_params=cache, use_cache=True)
    mixer = model.backbone.layers[0].mixer
    twice = 2 * model.config.num_hidden_layers * mixer.conv_dim * mixer.conv_kernel_size
    return {"flops": length * counter.get_total_flops(), "angles": length * twice}


def counted(make, inputs):
    """Total FLOPs of a forward pass, and those of rotary angles; an integer input is the length of a text, for which the count is extrapolated linearly."""
    if isinstance(inputs, Continued):
        return continued(make, int(inputs))
    if isinstance(inputs, int):
        short, longer = (counted(make, text(length)) for length in (16, 32))
        flops = short["flops"] + (longer["flops"] - short["flops"]) // 16 * (inputs - 16)
        return {"flops": flops, "angles": short["angles"]}
    with torch.device("meta"):
        model = make().eval()
        given = inputs()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(**given) if isinstance(given, dict) else model(*given)
    modules = counter.get_flop_counts()
    angles = sum(sum(ops.values()) for name, ops in modules.items() if name.endswith("rotary_emb"))
    config = getattr(model, "config", None)
    if getattr(config, "model_type", None) == "mamba":
        angles += 2 * config.num_hidden_layers * config.intermediate_size * config.conv_kernel * (config.conv_kernel - 1)
    if getattr(config, "model_type", None) == "qwen3_next":
        mixers = [layer.linear_attn for layer in model.model.layers if hasattr(layer, "linear_attn")]
        angles += sum(2 * mixer.conv_dim * mixer.conv_kernel_size * (mixer.conv_kernel_size - 1) for mixer in mixers)
    return {"flops": counter.get_total_flops(), "angles": angles}


def ids(length):
    return torch.zeros([1, length], dtype=torch.int64)


def text(length):
    return lambda: {"input_ids": ids(length), "use_cache": False}


def encoded(length):
    return lambda: {"input_ids": ids(length)}


def pair(length):
    return lambda: {"input_ids": ids(length), "decoder_input_ids": ids(length), "use_cache": False}


def causal(config):
    return lambda: hf.AutoModelForCausalLM.from_config(config, **EAGER)


def gpt2(layers, width, heads, vocab=50257, length=1024):
    config = hf.GPT2Config(n_layer=layers, n_embd=width, n_head=heads, n_positions=length, vocab_size=vocab)
    return causal(config), text(length)


def gpt_neo(layers, width, heads):
    config = hf.GPTNeoConfig(
        num_layers=layers, hidden_size=width, num_heads=heads, attention_types=[[["global", "local"], layers // 2]]
    )
    return causal(config), text(2048)


def opt(layers, width, heads):
    config = hf.OPTConfig(
        num_hidden_layers=layers, hidden_size=width, word_embed_proj_dim=width, num_attention_heads=heads, ffn_dim=4 * width
    )
    return causal(config), text(2048)


def recurrence(model, config, vocab, length, layers, width):
    """Mamba or RWKV, whose loops over positions PyTorch goes through: two short texts are counted, and the count is extrapolated linearly."""
    make = lambda: model(config(vocab_size=vocab, num_hidden_layers=layers, hidden_size=width, use_cache=False))
    return make, length


def llama(layers, width, heads, inner, vocab, length, kv=None, kind=hf.LlamaConfig, **more):
    config = kind(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=kv or heads,
        intermediate_size=inner,
        vocab_size=vocab,
        max_position_embeddings=length,
        **more,
    )
    return causal(config), text(length)


def neox(layers, width, heads, inner, vocab=50304, length=2048):
    config = hf.GPTNeoXConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        vocab_size=vocab,
        max_position_embeddings=length,
    )
    return causal(config), text(length)


def bloom(layers, width, heads):
    config = hf.BloomConfig(n_layer=layers, hidden_size=width, n_head=heads, vocab_size=250880)
    return causal(config), text(2048)


def bert(layers, width, heads, inner):
    config = hf.BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        **EAGER,
    )
    return lambda: hf.BertModel(config), encoded(512)


def roberta(layers, width, heads, inner):
    config = hf.RobertaConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        vocab_size=50265,
        max_position_embeddings=514,
        type_vocab_size=1,
        **EAGER,
    )
    return lambda: hf.RobertaModel(config), encoded(512)


def roformer(layers, width, heads, inner):
    config = hf.RoFormerConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        **EAGER,
    )
    # Without a mask, the class looks for padding in ids, and meta tensors have no values.
    return lambda: hf.RoFormerModel(config), lambda: {"input_ids": ids(1536), "attention_mask": torch.zeros([1, 1, 1, 1536])}


def by_matrices(x):
    """The real part of the Fourier transform over positions and channels: one product along channels, one along positions."""
    length, width = x.shape[1:]
    both = x @ torch.empty(width, 2 * width, device=x.device)
    return torch.empty(length, 2 * length, device=x.device) @ torch.cat(both.chunk(2, -1), 1)


def fnet(layers, width, inner):
    """The class with transforms as matrix products; PyTorch does not count fast transforms."""
    config = hf.FNetConfig(num_hidden_layers=layers, hidden_size=width, intermediate_size=inner)

    def make():
        model = hf.FNetModel(config)
        for layer in model.encoder.layer:
            layer.fourier.self.fourier_transform = by_matrices
        return model

    return make, encoded(512)


def modernbert(layers, width, heads, inner):
    """Attention computes all pairs, including those hidden by a window."""
    config = hf.ModernBertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        **EAGER,
    )
    kinds = ("full_attention", "sliding_attention")
    return lambda: hf.ModernBertModel(config), lambda: {"input_ids": ids(8192), "attention_mask": dict.fromkeys(kinds, torch.zeros([1, 1, 1, 8192]))}


class Deberta(nn.Module):
    """He et al. 2021 for one row: each layer projects the relative position embeddings of the distances that occur, and each query and
    key is multiplied with one per token pair. (The released code and HF use those of all distances.)"""

    def __init__(self, layers, width, heads, inner, rows, length):
        super().__init__()
        self.heads, self.met = heads, min(rows, length)
        self.distances = nn.Parameter(torch.zeros(rows, width))
        linear = lambda d_in, d_out: nn.Linear(d_in, d_out)
        names = ["query", "key", "value", "out", "to_keys", "to_queries"]
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: linear(width, width) for name in names} | {"up": linear(width, inner), "down": linear(inner, width)})
            for _ in range(layers)
        )
        self.width = width

    def by_heads(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, ids):
        x = torch.zeros([*ids.shape, self.width], device=ids.device)
        for layer in self.layers:
            q, k, v = (self.by_heads(layer[name](x)) for name in ["query", "key", "value"])
            keys, queries = (self.by_heads(layer[name](self.distances))[:, : self.met] for name in ["to_keys", "to_queries"])
            scores = q @ k.transpose(2, 3)
            q @ keys.transpose(1, 2), k @ queries.transpose(1, 2)
            x = x + layer["out"]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            x = x + layer["down"](layer["up"](x))
        return x


def deberta(*shape, buckets=None):
    distances = torch.arange(-511, 512)
    found = distances.clamp(-512, 511) if buckets is None else make_log_bucket_position(distances, buckets, 512).clamp(-buckets, buckets - 1)
    rows = int(found.max() - found.min()) + 1
    return lambda: Deberta(*shape, rows, 512), lambda: (ids(512),)


def image(size):
    return lambda: (torch.zeros([1, 3, size, size]),)


def clip(text, vision, joint):
    """An image and a text of maximum length, with the product of their embeddings."""
    sizes = lambda layers, width, heads: dict(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width)
    config = hf.CLIPConfig(text_config=sizes(*text), vision_config=dict(sizes(*vision[:3]), patch_size=vision[3]), projection_dim=joint)
    return lambda: hf.AutoModel.from_config(config, **EAGER), lambda: {"input_ids": ids(77), "pixel_values": image(224)()[0]}


def siglip():
    """The base model with the class's default sizes: an image and a text of maximum length, with the product of their embeddings."""
    return lambda: hf.AutoModel.from_config(hf.SiglipConfig(), **EAGER), lambda: {"input_ids": ids(64), "pixel_values": image(224)()[0]}


def idefics():
    """Idefics-9B on an image and a text of maximum length, all of whose tokens see the image."""
    vision = dict(embed_dim=1280, intermediate_size=5120, num_hidden_layers=32, num_attention_heads=16, image_size=224, patch_size=14)
    perceiver = dict(resampler_n_latents=64, resampler_depth=6, resampler_n_heads=16, resampler_head_dim=96, qk_layer_norms_perceiver=True)
    config = hf.IdeficsConfig(
        vision_config=vision, perceiver_config=perceiver, use_resampler=True, cross_layer_interval=4, qk_layer_norms=True, **EAGER
    )  # fmt: skip
    inputs = lambda: {
        "input_ids": ids(2048),
        "pixel_values": torch.zeros([1, 1, 3, 224, 224]),
        "image_attention_mask": torch.ones([1, 2048, 1], dtype=torch.int64),
        "use_cache": False,
    }
    return lambda: hf.IdeficsForVisionText2Text(config), inputs


def vit(layers, width, heads, patch):
    config = hf.ViTConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        patch_size=patch,
        **EAGER,
    )
    return lambda: hf.ViTModel(config, add_pooling_layer=False), image(224)


def deit(width, heads):
    config = hf.DeiTConfig(hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width, **EAGER)
    return lambda: hf.DeiTModel(config, add_pooling_layer=False), image(224)


def swin(width, depths, heads):
    config = hf.SwinConfig(embed_dim=width, depths=depths, num_heads=heads, **EAGER)
    return lambda: hf.SwinModel(config), image(224)


def swinv2(width, depths, heads):
    config = hf.Swinv2Config(embed_dim=width, depths=depths, num_heads=heads, window_size=8, image_size=256)
    return lambda: hf.Swinv2Model(config), image(256)


def dinov2(layers, width, heads, gated=False):
    config = hf.Dinov2Config(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, image_size=518, use_swiglu_ffn=gated, **EAGER
    )  # fmt: skip
    return lambda: hf.Dinov2Model(config), image(518)


def dinov3(layers, width, heads, inner, gated=False):
    config = hf.DINOv3ViTConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=inner, use_gated_mlp=gated, num_register_tokens=4,
        **EAGER,
    )  # fmt: skip
    return lambda: hf.DINOv3ViTModel(config), image(224)


def beit(layers, width, heads):
    config = hf.BeitConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width, use_relative_position_bias=True, **EAGER
    )  # fmt: skip
    return lambda: hf.BeitModel(config), image(224)


def hybrid(name):
    def make():
        timm.layers.set_fused_attn(False)
        return timm.create_model(name, num_classes=0)

    return make, image(224)


def resnet(name):
    def make():
        model = getattr(torchvision.models, name)(weights=None)
        model.fc = nn.Identity()
        return model

    return make, image(224)


class Transformer(nn.Module):
    """torch's `nn.Transformer` with an LM head."""

    def __init__(self, layers, width, heads, inner, vocab):
        super().__init__()
        self.embedding = nn.Embedding(vocab, width)
        self.transformer = nn.Transformer(width, heads, layers, layers, inner, batch_first=True)

    def forward(self, source, target):
        # In training mode, so that torch does not take its fused path, which is not counted.
        self.transformer.train()
        hidden = self.transformer(self.embedding(source), self.embedding(target))
        return hidden @ self.embedding.weight.T


def transformer(layers, width, heads, inner, vocab, length):
    return lambda: Transformer(layers, width, heads, inner, vocab), lambda: (ids(length), ids(length))


class TransformerXl(nn.Module):
    """Dai et al. 2019 in one row with a full memory: content and distance scores of all pairs."""

    def __init__(self, memory, layers, width, heads, d_head, inner, vocab):
        super().__init__()
        self.memory, self.heads, self.d_head = memory, heads, d_head
        self.embedding = nn.Embedding(vocab, width)
        linear = lambda d_in, d_out: nn.Linear(d_in, d_out, bias=False)
        make = lambda: nn.ModuleDict(
            {
                "query": linear(width, heads * d_head),
                "keys_values": linear(width, 2 * heads * d_head),
                "distances": linear(width, heads * d_head),
                "out": linear(heads * d_head, width),
                "feed_forward": nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)),
            }
        )
        self.layers = nn.ModuleList(make() for _ in range(layers))

    def by_heads(self, x):
        return x.unflatten(-1, (self.heads, self.d_head)).transpose(-3, -2)

    def forward(self, ids):
        x = self.embedding(ids)
        earlier = x.new_zeros(len(x), self.memory, x.shape[2])
        vectors = x.new_zeros(self.memory + x.shape[1], x.shape[2])
        for layer in self.layers:
            q = self.by_heads(layer["query"](x))
            source = torch.cat([earlier, x], 1)
            k, v = (self.by_heads(part) for part in layer["keys_values"](source).chunk(2, -1))
            scores = q @ k.transpose(2, 3) + q @ self.by_heads(layer["distances"](vectors)).transpose(1, 2)
            x = x + layer["out"]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            x = x + layer["feed_forward"](x)
        return x @ self.embedding.weight.T


def xl(length, *shape):
    return lambda: TransformerXl(length, *shape, 204), lambda: (ids(length),)


class XlNet(nn.Module):
    """Yang et al. 2019 in one row without a memory: each query is multiplied with its keys, their distances, and the columns of
    three segments. HF's class computes the embedding of one distance too many, and multiplies each query with all of them."""

    def __init__(self, layers, width, heads, inner, vocab=32000):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(vocab, width)
        linear = lambda: nn.Linear(width, width, bias=False)
        make = lambda: nn.ModuleDict(
            {name: linear() for name in ["query", "key", "value", "distances", "out"]}
            | {"feed_forward": nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))}
        )
        self.layers = nn.ModuleList(make() for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def by_heads(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(-3, -2)

    def forward(self, ids):
        x = self.embedding(ids)
        batch, length, width = x.shape
        vectors, kinds = x.new_zeros(2 * length - 1, width), x.new_zeros(batch, 1, length, 3)
        for layer in self.layers:
            q, k, v = (self.by_heads(layer[name](x)) for name in ["query", "key", "value"])
            distances = self.by_heads(layer["distances"](vectors))[:, :length]
            told = q @ q.new_zeros(self.heads, width // self.heads, 1)
            scores = q @ k.transpose(2, 3) + q @ distances.transpose(1, 2) + (told * kinds) @ kinds.transpose(2, 3)
            x = x + layer["out"]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
            x = x + layer["feed_forward"](x)
        return self.pooler(x[:, -1])


def xlnet(*shape):
    return lambda: XlNet(*shape), lambda: (ids(512),)


class Retro(nn.Module):
    """Borgeaud et al. 2022 in one row: a decoder with distances as in Transformer-XL, some blocks of which attend to the encoded
    neighbours of the chunk before. The first m - 1 queries see none; their positions are padded, as in the paper's listing."""

    def __init__(self, layers, width, heads, d_head, inner, crossed, chunk=64, k=2, vocab=128_000):
        super().__init__()
        self.heads, self.d_head, self.chunk, self.k, self.narrow = heads, d_head, chunk, k, 896
        self.embedding = nn.Embedding(vocab, width)
        self.input = nn.Linear(width, self.narrow, bias=False) if width != self.narrow else nn.Identity()
        self.crossed = crossed
        self.layers = nn.ModuleList(
            self.block(width, heads * d_head, inner, self.narrow if number + 1 in crossed else None) for number in range(layers)
        )
        self.encoder = nn.ModuleList(
            self.block(self.narrow, 16 * 64, 3584, width if number == 0 else None) for number in range(2)
        )

    @staticmethod
    def block(width, inside, inner, memory):
        linear = lambda d_in, d_out: nn.Linear(d_in, d_out, bias=False)
        parts = {name: linear(width, inside) for name in ["query", "key", "value", "distances"]}
        parts |= {"out": linear(inside, width), "feed_forward": nn.Sequential(nn.Linear(width, inner), nn.Linear(inner, width))}
        if memory is not None:
            parts |= {"cross_query": linear(width, inside), "cross_out": linear(inside, width)}
            parts |= {"cross_key": linear(memory, inside), "cross_value": linear(memory, inside)}
        return nn.ModuleDict(parts)

    @staticmethod
    def by_heads(x, d_head):
        return x.unflatten(-1, (x.shape[-1] // d_head, d_head)).transpose(-3, -2)

    def attended(self, layer, x, rows, d_head):
        q, k, v = (self.by_heads(layer[name](x), d_head) for name in ["query", "key", "value"])
        r = self.by_heads(layer["distances"](x.new_zeros(rows, x.shape[2])), d_head)
        # Each query is multiplied with one distance embedding per key.
        r = r[:, : x.shape[1]]
        scores = q @ k.transpose(2, 3) + q @ r.transpose(1, 2)
        return x + layer["out"]((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def across(self, layer, x, memory, d_head):
        q = self.by_heads(layer["cross_query"](x), d_head)
        k, v = (self.by_heads(layer[name](memory), d_head) for name in ["cross_key", "cross_value"])
        return x + layer["cross_out"](((q @ k.transpose(2, 3)).softmax(-1) @ v).transpose(1, 2).flatten(2))

    def encoded(self, x):
        chunks, width = x.shape[1] // self.chunk, 2 * self.chunk
        hidden = x.unflatten(1, (chunks, self.chunk))[0].repeat_interleave(self.k, 0)
        e = self.input(self.embedding(torch.zeros(chunks * self.k, width, dtype=torch.int64)))
        for layer in self.encoder:
            e = self.attended(layer, e, 2 * width - 1, 64)
            if "cross_query" in layer:
                e = self.across(layer, e, hidden, 64)
            e = e + layer["feed_forward"](e)
        return e.reshape(chunks, self.k * width, self.narrow)

    def forward(self, ids):
        x, found = self.embedding(ids), None
        for layer in self.layers:
            x = self.attended(layer, x, x.shape[1], self.d_head)
            if "cross_query" in layer:
                found = self.encoded(x) if found is None else found
                queries = x.unflatten(1, (len(found), self.chunk))[0]
                x = self.across(layer, queries, found, self.d_head).reshape(x.shape)
            x = x + layer["feed_forward"](x)
        return x @ self.embedding.weight.T


def retro(*shape):
    return lambda: Retro(*shape), lambda: (ids(2048),)


def t5(layers, width, heads, d_head, inner, length=512, kind=hf.T5ForConditionalGeneration, config=hf.T5Config, **more):
    shape = config(
        num_layers=layers,
        d_model=width,
        num_heads=heads,
        d_kv=d_head,
        d_ff=inner,
        **({"vocab_size": 32128} | more),
        **EAGER,
    )
    return lambda: kind(shape), pair(length)


def whisper(encoder, decoder, width, heads, bands=80, vocab=51865):
    sides = ("encoder", "decoder")
    config = hf.WhisperConfig(
        d_model=width, encoder_layers=encoder, decoder_layers=decoder, num_mel_bins=bands, vocab_size=vocab,
        **{f"{side}_attention_heads": heads for side in sides}, **{f"{side}_ffn_dim": 4 * width for side in sides}, **EAGER,
    )  # fmt: skip
    spoken = lambda: {"input_features": torch.zeros([1, bands, 3000]), "decoder_input_ids": ids(448), "use_cache": False}
    return lambda: hf.WhisperForConditionalGeneration(config), spoken


def samples(kind, config, **shape):
    """The network of wav2vec 2.0 or HuBERT on 15.6 s of sound, the length to which its authors cut recordings."""
    shape = config(**shape, **EAGER)
    return lambda: kind(shape), lambda: {"input_values": torch.zeros([1, 249_600])}


def of_bart_s_kin(kind, config, layers, vocab):
    """At the default sizes of the classes related to BART."""
    shape = config(encoder_layers=layers, decoder_layers=layers, vocab_size=vocab, **EAGER)
    return lambda: kind(shape), pair(1024)


def m2m_100(layers, width, inner, vocab):
    shape = hf.M2M100Config(
        encoder_layers=layers,
        decoder_layers=layers,
        d_model=width,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        vocab_size=vocab,
        **EAGER,
    )
    return lambda: hf.M2M100ForConditionalGeneration(shape), pair(1024)


def electra(layers, width, heads, inner, embedding):
    config = hf.ElectraConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        embedding_size=embedding,
        **EAGER,
    )
    return lambda: hf.ElectraModel(config), encoded(512)


def albert(layers, width, heads, inner):
    config = hf.AlbertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=inner,
        **EAGER,
    )
    return lambda: hf.AlbertModel(config), encoded(512)


def reformer():
    """With the class's configuration of google/reformer-enwik8. Outside training it reads positions from values, which meta tensors lack."""
    config = hf.ReformerConfig(
        vocab_size=258,
        hidden_size=1024,
        num_attention_heads=8,
        attention_head_size=128,
        feed_forward_size=4096,
        is_decoder=True,
        max_position_embeddings=65536,
        axial_pos_shape=[128, 512],
        axial_pos_embds_dim=[256, 768],
        attn_layers=["local", "local", "lsh", "local"] * 3,
        lsh_attn_chunk_length=256,
        local_attn_chunk_length=128,
        num_hashes=4,
        num_buckets=512,
        pad_token_id=None,
    )

    def make():
        model = hf.ReformerModelWithLMHead(config)
        model.eval = model.train
        return model

    return make, text(65536)


def qwen3_next(length):
    """As published. Products of a state with a key and with a query are counted as for a text that is read token by token: the
    class's own products within chunks are more, and depend on the chunks' length."""
    rope = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}
    config = hf.Qwen3NextConfig(max_position_embeddings=length, rope_parameters=rope, experts_implementation="batched_mm")

    def rule(query, key, value, **_):
        rows, width = value.shape[:-1].numel(), value.shape[-1]
        key, query = (x.repeat_interleave(value.shape[2] // x.shape[2], dim=2) for x in (key, query))
        state = key.new_zeros([rows, key.shape[-1], width])
        reads = [torch.bmm(x.reshape(rows, 1, -1), state) for x in (key, query)]
        return reads[1].reshape(value.shape), None

    hf.models.qwen3_next.modeling_qwen3_next.torch_chunk_gated_delta_rule = rule
    return causal(config), text(length)


def deepseek(kind, vocab, **shape):
    config = kind(vocab_size=vocab, max_position_embeddings=4096, experts_implementation="batched_mm", **shape)
    return causal(config), text(4096)


LARGE_LISTENER = dict(
    hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, feat_extract_norm="layer", conv_bias=True,
    do_stable_layer_norm=True,
)  # fmt: skip

PRESETS = {
    "reformer-enwik8": reformer(),
    "nano": llama(4, 128, 4, 344, 256, 256),
    "openai-gpt": (
        causal(hf.OpenAIGPTConfig(n_layer=12, n_embd=768, n_head=12, n_positions=512, vocab_size=40478)),
        encoded(512),
    ),
    "gpt2": gpt2(12, 768, 12),
    "gpt2-medium": gpt2(24, 1024, 16),
    "gpt2-large": gpt2(36, 1280, 20),
    "gpt2-xl": gpt2(48, 1600, 25),
    "llama-7b": llama(32, 4096, 32, 11008, 32000, 2048),
    "llama-13b": llama(40, 5120, 40, 13824, 32000, 2048),
    "llama-33b": llama(60, 6656, 52, 17920, 32000, 2048),
    "llama-65b": llama(80, 8192, 64, 22016, 32000, 2048),
    "llama2-7b": llama(32, 4096, 32, 11008, 32000, 4096),
    "llama2-13b": llama(40, 5120, 40, 13824, 32000, 4096),
    "llama2-70b": llama(80, 8192, 64, 28672, 32000, 4096, kv=8),
    "llama3-8b": llama(32, 4096, 32, 14336, 128256, 8192, kv=8),
    "llama3-70b": llama(80, 8192, 64, 28672, 128256, 8192, kv=8),
    "llama3.1-8b": llama(32, 4096, 32, 14336, 128256, 131072, kv=8),
    "llama3.2-1b": llama(16, 2048, 32, 8192, 128256, 131072, kv=8),
    "llama3.2-3b": llama(28, 3072, 24, 8192, 128256, 131072, kv=8),
    "tinyllama-1.1b": llama(22, 2048, 32, 5632, 32000, 2048, kv=4),
    "smollm2-135m": llama(30, 576, 9, 1536, 49152, 8192, kv=3),
    "mistral-7b-v0.2": llama(32, 4096, 32, 14336, 32000, 32768, kv=8, kind=hf.MistralConfig, sliding_window=None),
    "mixtral-8x7b": llama(
        32,
        4096,
        32,
        14336,
        32000,
        32768,
        kv=8,
        kind=hf.MixtralConfig,
        sliding_window=None,
        num_local_experts=8,
        num_experts_per_tok=2,
        experts_implementation="batched_mm",
    ),
    "deepseek-v2-lite": deepseek(
        hf.DeepseekV2Config,
        102400,
        hidden_size=2048,
        intermediate_size=10944,
        moe_intermediate_size=1408,
        num_hidden_layers=27,
        num_attention_heads=16,
        num_key_value_heads=16,
        n_shared_experts=2,
        n_routed_experts=64,
        num_experts_per_tok=6,
        norm_topk_prob=False,
        routed_scaling_factor=1.0,
        n_group=1,
        topk_group=1,
        topk_method="greedy",
        first_k_dense_replace=1,
        kv_lora_rank=512,
        q_lora_rank=None,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
    ),
    "deepseek-v2": deepseek(
        hf.DeepseekV2Config,
        102400,
        hidden_size=5120,
        intermediate_size=12288,
        moe_intermediate_size=1536,
        num_hidden_layers=60,
        num_attention_heads=128,
        num_key_value_heads=128,
        n_shared_experts=2,
        n_routed_experts=160,
        num_experts_per_tok=6,
        routed_scaling_factor=16.0,
        n_group=8,
        topk_group=3,
        topk_method="group_limited_greedy",
        first_k_dense_replace=1,
    ),
    "deepseek-v3": deepseek(hf.DeepseekV3Config, 129280),
    "gpt-oss-20b": (causal(hf.GptOssConfig(num_hidden_layers=24, num_local_experts=32, experts_implementation="batched_mm")), text(131072)),
    "gpt-oss-120b": (causal(hf.GptOssConfig(experts_implementation="batched_mm")), text(131072)),
    "qwen2-0.5b": llama(24, 896, 14, 4864, 151936, 131072, kv=2, kind=hf.Qwen2Config),
    "qwen3-0.6b": llama(28, 1024, 16, 3072, 151936, 40960, kv=8, kind=hf.Qwen3Config, head_dim=128),
    "qwen3-next-80b-a3b": qwen3_next(262144),
    "olmo-1b": llama(16, 2048, 16, 8192, 50304, 2048, kind=hf.OlmoConfig, tie_word_embeddings=True),
    "olmo-7b": llama(32, 4096, 32, 11008, 50304, 2048, kind=hf.OlmoConfig),
    "olmo2-1b": llama(16, 2048, 16, 8192, 100352, 4096, kind=hf.Olmo2Config),
    "olmoe-1b-7b": llama(
        16, 2048, 16, 1024, 50304, 4096, kind=hf.OlmoeConfig, experts_implementation="batched_mm"
    ),
    "opt-125m": opt(12, 768, 12),
    "opt-1.3b": opt(24, 2048, 32),
    "phi-1.5": llama(24, 2048, 32, 8192, 51200, 2048, kind=hf.PhiConfig),
    "phi-2": llama(32, 2560, 32, 10240, 51200, 2048, kind=hf.PhiConfig),
    # Attention computes all pairs here: no window.
    "phi-3-mini-4k": llama(32, 3072, 32, 8192, 32064, 4096, kind=hf.Phi3Config),
    "starcoder2-3b": llama(30, 3072, 24, 12288, 49152, 16384, kv=2, kind=hf.Starcoder2Config),
    "stablelm-2-1.6b": llama(24, 2048, 32, 5632, 100352, 4096, kind=hf.StableLmConfig, use_qkv_bias=True),
    "diff-transformer-3b": llama(28, 3072, 24, 8192, 100288, 4096, kind=hf.DiffLlamaConfig),
    "smollm3-3b": llama(36, 2048, 16, 11008, 128256, 65536, kv=4, kind=hf.SmolLM3Config),
    "gemma-2b": llama(18, 2048, 8, 16384, 256000, 8192, kv=1, kind=hf.GemmaConfig),
    "gemma2-2b": llama(26, 2304, 8, 9216, 256000, 8192, kv=4, kind=hf.Gemma2Config),
    "gemma3-270m": llama(18, 640, 4, 2048, 262144, 32768, kv=1, kind=hf.Gemma3TextConfig),
    "gemma3-1b": llama(26, 1152, 4, 6912, 262144, 32768, kv=1, kind=hf.Gemma3TextConfig),
    "falcon-7b": (
        causal(
            hf.FalconConfig(
                num_hidden_layers=32, hidden_size=4544, num_attention_heads=71, vocab_size=65024, multi_query=True
            )
        ),
        text(2048),
    ),
    "gpt-neox-20b": neox(44, 6144, 64, 24576, vocab=50432),
    "pythia-70m": neox(6, 512, 8, 2048),
    "pythia-160m": neox(12, 768, 12, 3072),
    "pythia-410m": neox(24, 1024, 16, 4096),
    "pythia-1.4b": neox(24, 2048, 16, 8192),
    "mpt-7b": (causal(hf.MptConfig(d_model=4096, n_heads=32, n_layers=32, vocab_size=50432)), text(2048)),
    "bloom-560m": bloom(24, 1024, 16),
    "bloom-7b1": bloom(30, 4096, 32),
    "bloom": bloom(70, 14336, 112),
    "transformer-xl-enwik8-12": xl(512, 12, 512, 8, 64, 2048),
    "transformer-xl-enwik8-18": xl(512, 18, 640, 8, 64, 2560),
    "transformer-xl-enwik8-24": xl(768, 24, 1024, 8, 128, 3072),
    "retro-172m": retro(12, 896, 16, 64, 3584, range(6, 13, 3)),
    "retro-425m": retro(12, 1536, 12, 128, 6144, range(6, 13, 3)),
    "retro-1.5b": retro(24, 2048, 16, 128, 8192, range(6, 25, 3)),
    "retro-7.5b": retro(32, 4096, 32, 128, 16384, range(6, 33, 3)),
    "vit-tiny-16": vit(12, 192, 3, 16),
    "vit-small-16": vit(12, 384, 6, 16),
    "vit-base-16": vit(12, 768, 12, 16),
    "vit-base-32": vit(12, 768, 12, 32),
    "vit-large-16": vit(24, 1024, 16, 16),
    "vit-huge-14": vit(32, 1280, 16, 14),
    "deit-small": deit(384, 6),
    "deit-base": deit(768, 12),
    "swin-tiny": swin(96, [2, 2, 6, 2], [3, 6, 12, 24]),
    "swin-small": swin(96, [2, 2, 18, 2], [3, 6, 12, 24]),
    "swin-base": swin(128, [2, 2, 18, 2], [4, 8, 16, 32]),
    "swin-large": swin(192, [2, 2, 18, 2], [6, 12, 24, 48]),
    "swinv2-tiny": swinv2(96, [2, 2, 6, 2], [3, 6, 12, 24]),
    "swinv2-small": swinv2(96, [2, 2, 18, 2], [3, 6, 12, 24]),
    "swinv2-base": swinv2(128, [2, 2, 18, 2], [4, 8, 16, 32]),
    "dinov2-small": dinov2(12, 384, 6),
    "dinov2-base": dinov2(12, 768, 12),
    "dinov2-large": dinov2(24, 1024, 16),
    "dinov2-giant": dinov2(40, 1536, 24, gated=True),
    "clip-vit-b-32": clip((12, 512, 8), (12, 768, 12, 32), 512),
    "clip-vit-b-16": clip((12, 512, 8), (12, 768, 12, 16), 512),
    "clip-vit-l-14": clip((12, 768, 12), (24, 1024, 16, 14), 768),
    "siglip-base": siglip(),
    "idefics-9b": idefics(),
    "dinov3-small": dinov3(12, 384, 6, 1536),
    "dinov3-small-plus": dinov3(12, 384, 6, 1536, gated=True),
    "dinov3-base": dinov3(12, 768, 12, 3072),
    "dinov3-large": dinov3(24, 1024, 16, 4096),
    "dinov3-huge-plus": dinov3(32, 1280, 20, 5120, gated=True),
    "dinov3-7b": dinov3(40, 4096, 32, 8192, gated=True),
    "beit-base": beit(12, 768, 12),
    "beit-large": beit(24, 1024, 16),
    "vit-r26-small-32": hybrid("vit_small_r26_s32_224"),
    "vit-r50-base-16": hybrid("vit_base_r50_s16_224"),
    "vit-r50-large-32": hybrid("vit_large_r50_s32_224"),
    "resnet18": resnet("resnet18"),
    "resnet34": resnet("resnet34"),
    "resnet50": resnet("resnet50"),
    "resnet101": resnet("resnet101"),
    "bit-r50x1": hybrid("resnetv2_50x1_bit"),
    "bit-r50x3": hybrid("resnetv2_50x3_bit"),
    "bit-r101x1": hybrid("resnetv2_101x1_bit"),
    "bit-r101x3": hybrid("resnetv2_101x3_bit"),
    "bit-r152x2": hybrid("resnetv2_152x2_bit"),
    "bit-r152x4": hybrid("resnetv2_152x4_bit"),
    "bert-tiny": bert(2, 128, 2, 512),
    "bert-mini": bert(4, 256, 4, 1024),
    "bert-small": bert(4, 512, 8, 2048),
    "bert-medium": bert(8, 512, 8, 2048),
    "bert-base": bert(12, 768, 12, 3072),
    "bert-large": bert(24, 1024, 16, 4096),
    "roberta-base": roberta(12, 768, 12, 3072),
    "roberta-large": roberta(24, 1024, 16, 4096),
    "modernbert-base": modernbert(22, 768, 12, 1152),
    "modernbert-large": modernbert(28, 1024, 16, 2624),
    "roformer-base": roformer(12, 768, 12, 3072),
    "deberta-base": deberta(12, 768, 12, 3072),
    "deberta-large": deberta(24, 1024, 16, 4096),
    "deberta-xlarge": deberta(48, 1024, 16, 4096),
    "deberta-v3-xsmall": deberta(12, 384, 6, 1536, buckets=256),
    "deberta-v3-small": deberta(6, 768, 12, 3072, buckets=256),
    "deberta-v3-base": deberta(12, 768, 12, 3072, buckets=256),
    "deberta-v3-large": deberta(24, 1024, 16, 4096, buckets=256),
    "transformer-tiny": transformer(4, 128, 4, 256, 10000, 256),
    "transformer-base": transformer(6, 512, 8, 2048, 37000, 512),
    "transformer-big": transformer(6, 1024, 16, 4096, 37000, 1024),
    "bart-base": (
        lambda: hf.BartForConditionalGeneration(
            hf.BartConfig(
                d_model=768,
                encoder_layers=6,
                decoder_layers=6,
                encoder_attention_heads=12,
                decoder_attention_heads=12,
                encoder_ffn_dim=3072,
                decoder_ffn_dim=3072,
                vocab_size=50265,
                **EAGER,
            )
        ),
        pair(1024),
    ),
    "marian-base": (
        lambda: hf.MarianMTModel(
            hf.MarianConfig(
                d_model=512,
                encoder_layers=6,
                decoder_layers=6,
                encoder_attention_heads=8,
                decoder_attention_heads=8,
                encoder_ffn_dim=2048,
                decoder_ffn_dim=2048,
                vocab_size=58101,
                max_position_embeddings=512,
                pad_token_id=58100,
                **EAGER,
            )
        ),
        pair(512),
    ),
    "t5-small": t5(6, 512, 8, 64, 2048),
    "t5-base": t5(12, 768, 12, 64, 3072),
    "t5-large": t5(24, 1024, 16, 64, 4096),
    "t5-3b": t5(24, 1024, 32, 128, 16384),
    "t5-11b": t5(24, 1024, 128, 128, 65536),
    "pegasus-large": of_bart_s_kin(hf.PegasusForConditionalGeneration, hf.PegasusConfig, 16, 96103),
    "mbart-large-50": of_bart_s_kin(hf.MBartForConditionalGeneration, hf.MBartConfig, 12, 250054),
    "m2m100-418m": m2m_100(12, 1024, 4096, 128112),
    "m2m100-1.2b": m2m_100(24, 1024, 8192, 128112),
    "nllb-200-600m": m2m_100(12, 1024, 4096, 256206),
    "nllb-200-1.3b": m2m_100(24, 1024, 8192, 256206),
    "nllb-200-3.3b": m2m_100(24, 2048, 8192, 256206),
    "bart-large": (lambda: hf.BartForConditionalGeneration(hf.BartConfig(vocab_size=50265, **EAGER)), pair(1024)),
    "whisper-tiny": whisper(4, 4, 384, 6),
    "whisper-base": whisper(6, 6, 512, 8),
    "whisper-small": whisper(12, 12, 768, 12),
    "whisper-medium": whisper(24, 24, 1024, 16),
    "whisper-large-v3": whisper(32, 32, 1280, 20, 128, 51866),
    "whisper-large-v3-turbo": whisper(32, 4, 1280, 20, 128, 51866),
    "wav2vec2-base": samples(hf.Wav2Vec2ForCTC, hf.Wav2Vec2Config),
    "wav2vec2-large-lv60": samples(hf.Wav2Vec2ForCTC, hf.Wav2Vec2Config, **LARGE_LISTENER),
    "hubert-base": samples(hf.HubertForCTC, hf.HubertConfig),
    "hubert-large": samples(hf.HubertForCTC, hf.HubertConfig, **LARGE_LISTENER),
    "falcon-40b": (
        causal(
            hf.FalconConfig(
                num_hidden_layers=60,
                hidden_size=8192,
                num_attention_heads=128,
                num_kv_heads=8,
                vocab_size=65024,
                new_decoder_architecture=True,
            )
        ),
        text(2048),
    ),
    "distilbert-base": (lambda: hf.DistilBertModel(hf.DistilBertConfig(**EAGER)), encoded(512)),
    "electra-small": electra(12, 256, 4, 1024, 128),
    "electra-base": electra(12, 768, 12, 3072, 768),
    "electra-large": electra(24, 1024, 16, 4096, 1024),
    "roformer-small": roformer(6, 384, 6, 1536),
    "fnet-base": fnet(12, 768, 3072),
    "fnet-large": fnet(24, 1024, 4096),
    "xlnet-base": xlnet(12, 768, 12, 3072),
    "xlnet-large": xlnet(24, 1024, 16, 4096),
    "albert-base-v2": albert(12, 768, 12, 3072),
    "albert-large-v2": albert(24, 1024, 16, 4096),
    "albert-xlarge-v2": albert(24, 2048, 16, 8192),
    "albert-xxlarge-v2": albert(12, 4096, 64, 16384),
    # Its differences from GPT-2, norms and positions, have no products.
    "al-rfou-12": gpt2(12, 512, 2, vocab=256, length=512),
    "al-rfou-64": gpt2(64, 512, 2, vocab=256, length=512),
}

# Table 2.1 of the GPT-3 paper; 13B as the preset rounds its heads.
GPT3 = {
    "gpt3-small": (12, 768, 12),
    "gpt3-medium": (24, 1024, 16),
    "gpt3-large": (24, 1536, 16),
    "gpt3-xl": (24, 2048, 16),
    "gpt3-2.7b": (32, 2560, 32),
    "gpt3-6.7b": (32, 4096, 32),
    "gpt3-13b": (40, 5120, 40),
    "gpt3-175b": (96, 12288, 96),
}
PRESETS |= {name: gpt2(*shape, length=2048) for name, shape in GPT3.items()}

GPT_NEO = {"gpt-neo-125m": (12, 768, 12), "gpt-neo-1.3b": (24, 2048, 16), "gpt-neo-2.7b": (32, 2560, 20)}
PRESETS |= {name: gpt_neo(*shape) for name, shape in GPT_NEO.items()}

MAMBA = {"130m": (24, 768), "370m": (48, 1024), "790m": (48, 1536), "1.4b": (48, 2048), "2.8b": (64, 2560)}
PRESETS |= {f"mamba-{name}": recurrence(hf.MambaForCausalLM, hf.MambaConfig, 50280, 2048, *shape) for name, shape in MAMBA.items()}

MAMBA2 = {"130m": (24, 768), "370m": (48, 1024), "780m": (48, 1536), "1.3b": (48, 2048), "2.7b": (64, 2560)}


def by_heads(layers, width):
    """Mamba-2 as its authors published it."""
    config = hf.Mamba2Config(
        vocab_size=50288, hidden_size=width, num_hidden_layers=layers, num_heads=width // 32, n_groups=1, tie_word_embeddings=True
    )
    return lambda: hf.Mamba2ForCausalLM(config), Continued(2048)


PRESETS |= {f"mamba2-{name}": by_heads(*shape) for name, shape in MAMBA2.items()}

RWKV = {"169m": (12, 768), "430m": (24, 1024), "1.5b": (24, 2048), "3b": (32, 2560), "7b": (32, 4096), "14b": (40, 5120)}
PRESETS |= {f"rwkv-4-{name}": recurrence(hf.RwkvForCausalLM, hf.RwkvConfig, 50277, 1024, *shape) for name, shape in RWKV.items()}


class Linformer(nn.Module):
    """Wang et al. 2020: RoBERTa's layers, whose keys and values are projected along positions, and a pooler."""

    def __init__(self, layers, width, heads, inner, length, k):
        super().__init__()
        self.heads, self.width = heads, width
        self.projection = nn.Parameter(torch.zeros(k, length))
        names = ["query", "key", "value", "out"]
        self.layers = nn.ModuleList(
            nn.ModuleDict({name: nn.Linear(width, width) for name in names} | {"up": nn.Linear(width, inner), "down": nn.Linear(inner, width)})
            for _ in range(layers)
        )
        self.pooler = nn.Linear(width, width)

    def forward(self, ids):
        x = torch.zeros([*ids.shape, self.width], device=ids.device)
        by_heads = lambda x: x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        for layer in self.layers:
            q, k, v = (layer[name](x) for name in ["query", "key", "value"])
            q, k, v = (by_heads(part) for part in [q, self.projection @ k, self.projection @ v])
            x = x + layer["out"](((q @ k.transpose(2, 3)).softmax(-1) @ v).transpose(1, 2).flatten(2))
            x = x + layer["down"](layer["up"](x))
        return self.pooler(x[:, 0])


class Tdmca(nn.Module):
    """Liu et al. 2018, section 4.2.3: layers with blocks of 256 and with keys compressed by three in turn, experts in the middle."""

    def __init__(self, width, heads, inner, vocab, experts=None):
        super().__init__()
        self.heads, self.experts = heads, experts
        self.embedding = nn.Embedding(vocab, width)
        plain = lambda: nn.Linear(width, width, bias=False)
        fewer = lambda: nn.Conv1d(width, width, 3, stride=3)
        names = ["query", "key", "value", "out"]
        self.layers = nn.ModuleList(nn.ModuleDict({name: plain() for name in names}) for _ in range(5))
        for layer in [1, 3]:
            self.layers[layer].update({"fewer_keys": fewer(), "fewer_values": fewer()})
        for number, layer in enumerate(self.layers):
            if not experts or number != 2:
                layer.update({"up": nn.Linear(width, inner), "down": nn.Linear(inner, width)})
        if experts:
            self.router = nn.Linear(width, experts, bias=False)
            self.up, self.down = (nn.Parameter(torch.zeros(experts, *shape)) for shape in [(width, inner), (inner, width)])

    def by_heads(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attended(self, layer, q, k, v):
        if "fewer_keys" in layer:
            k, v = (layer[name](part.transpose(1, 2)).transpose(1, 2) for name, part in [("fewer_keys", k), ("fewer_values", v)])
        q, k, v = (self.by_heads(part) for part in [q, k, v])
        if "fewer_keys" not in layer:
            q, k, v = (part.unflatten(2, (-1, 256)) for part in [q, k, v])
        out = (q @ k.transpose(-2, -1)).softmax(-1) @ v
        return (out if "fewer_keys" in layer else out.flatten(2, 3)).transpose(1, 2).flatten(2)

    def fed(self, layer, x):
        if "up" in layer:
            return layer["down"](layer["up"](x).relu())
        chosen = self.router(x).topk(2, -1).indices.flatten()
        rows = x[0].repeat_interleave(2, 0)[:, None]
        return (rows @ self.up[chosen]).relu().bmm(self.down[chosen]).unflatten(0, (-1, 2)).sum(1).transpose(0, 1)

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers:
            x = x + layer["out"](self.attended(layer, *(layer[name](x) for name in ["query", "key", "value"])))
            x = x + self.fed(layer, x)
        return x @ self.embedding.weight.T


def tdmca(length, experts=None):
    return lambda: Tdmca(1024, 8, 2048, 32000, experts), lambda: (ids(length),)


PRESETS |= {
    "linformer-base": (lambda: Linformer(12, 768, 12, 3072, 512, 128), lambda: (ids(512),)),
    "t-dmca": tdmca(11008),
    "t-dmca-moe-128": tdmca(11008, 128),
    "t-dmca-moe-256": tdmca(7680, 256),
}

# T5.1.1 and mT5, whose heads are 64 wide.
GATED = {
    "small": (8, 512, 6, 64, 1024),
    "base": (12, 768, 12, 64, 2048),
    "large": (24, 1024, 16, 64, 2816),
    "xl": (24, 2048, 32, 64, 5120),
    "xxl": (24, 4096, 64, 64, 10240),
}
of_gated = dict(feed_forward_proj="gated-gelu", tie_word_embeddings=False)
PRESETS |= {f"t5-v1.1-{name}": t5(*shape, **of_gated) for name, shape in GATED.items()}
of_mt5 = dict(of_gated, kind=hf.MT5ForConditionalGeneration, config=hf.MT5Config, vocab_size=250112)
PRESETS |= {f"mt5-{name}": t5(*shape, length=1024, **of_mt5) for name, shape in GATED.items()}


def difference(large, small):
    return counted(*large)["flops"] - counted(*small)["flops"]


def heads():
    """FLOPs that heads of BERT-mini add, per scored position or per text."""
    config = hf.BertConfig(
        num_hidden_layers=1, hidden_size=256, num_attention_heads=4, intermediate_size=1024, num_labels=3, **EAGER
    )
    bare = lambda: hf.BertModel(config, add_pooling_layer=False)
    pooled = lambda: hf.BertModel(config)
    classes = lambda: hf.BertForSequenceClassification(config)
    masked = lambda: hf.BertForMaskedLM(config)
    pairs = lambda: hf.BertForNextSentencePrediction(config)
    text = encoded(64)
    return {
        "masked_position": difference((masked, text), (bare, text)) // 64,
        "pooler": difference((pooled, text), (bare, text)),
        "three_classes": difference((classes, text), (pooled, text)),
        "next_sentence": difference((pairs, text), (pooled, text)),
    }


class Recurrent(nn.Module):
    def __init__(self, cell, bias=True):
        super().__init__()
        self.embedding = nn.Embedding(50, 24)
        self.cell = cell(24, 24, num_layers=2, batch_first=True, bias=bias)

    def forward(self, ids):
        return self.cell(self.embedding(ids))[0] @ self.embedding.weight.T


def kinds():
    """Two layers, width 24, a vocabulary of 50, 16 tokens; recurrent cells, and experts on rotary decoders."""
    made = {}
    for name, cell in [("elman", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)]:
        # The meta device does not support these recurrent layers: real tensors, with the same count.
        model = Recurrent(cell)
        with torch.no_grad(), FlopCounterMode(display=False) as counter, torch.backends.mkldnn.flags(enabled=False):
            model(ids(16))
        made[name] = counter.get_total_flops()
    # Switch's experts and Mixtral's, each token using one of three and two of four.
    for name, chosen, experts in [("one of three", 1, 3), ("two of four", 2, 4)]:
        model = llama(
            2,
            24,
            4,
            40,
            50,
            16,
            kv=2,
            kind=hf.MixtralConfig,
            sliding_window=None,
            num_local_experts=experts,
            num_experts_per_tok=chosen,
            experts_implementation="batched_mm",
        )
        found = counted(*model)
        made[name] = found["flops"] - found["angles"]
    # Distances clipped to 4: eight embeddings are projected twice, and multiplied with all queries and keys.
    config = hf.DebertaConfig(
        vocab_size=50,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        type_vocab_size=0,
        position_biased_input=False,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        max_relative_positions=4,
    )
    # HF computes the range of distances from values: real tensors again.
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hf.DebertaModel(config).eval().requires_grad_(False)(ids(16), torch.ones_like(ids(16)))
    made["disentangled"] = counter.get_total_flops()
    return made


def main():
    found = {"presets": {}}
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flops.json")
    with open(path) as file:
        known = json.load(file)["presets"]
    for name, (make, inputs) in PRESETS.items():
        # If names are given, only those presets are counted again.
        again = not sys.argv[1:] or name in sys.argv[1:] or name not in known
        found["presets"][name] = counted(make, inputs) if again else known[name]
        print(name, found["presets"][name], flush=True)
    found["heads"] = heads()
    found["kinds"] = kinds()
    print(found["heads"], found["kinds"])
    with open(path, "w") as file:
        json.dump(found, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
