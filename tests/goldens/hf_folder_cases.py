"""The folders that make_hf_folders.py makes: class and configuration of each, and what is unusual about the folder."""

import json
import os
import tempfile

import torch
import transformers


def cases():
    found = {}
    for part in (gpts, reformers, llamas, kin_of_llama, layer_normed, opts_and_phis, linear_biases, encoders, kin_of_bert, fnets, xlnets, modernberts, disentangled, encoder_decoders, images, experts, sinks, deltas, latents, sparse, windows, states, roberta_by_other_names, bodies, deciders, compared, spoken):
        found |= part()
    return found


def case(model, config, **rest):
    """A folder: the model's class, its configuration's class and keys, and keys of `make_hf_folders.make`."""
    names = (model, MODELS[model])
    return {"class": names, "config": config, **rest}


MODELS = {
    "CLIPModel": "CLIPConfig",
    "WhisperForConditionalGeneration": "WhisperConfig",
    "SiglipModel": "SiglipConfig",
    "GPT2LMHeadModel": "GPT2Config",
    "OpenAIGPTLMHeadModel": "OpenAIGPTConfig",
    "GPTNeoXForCausalLM": "GPTNeoXConfig",
    "GPTJForCausalLM": "GPTJConfig",
    "ReformerModelWithLMHead": "ReformerConfig",
    "GPTNeoForCausalLM": "GPTNeoConfig",
    "LlamaForCausalLM": "LlamaConfig",
    "MistralForCausalLM": "MistralConfig",
    "Qwen2ForCausalLM": "Qwen2Config",
    "Qwen3ForCausalLM": "Qwen3Config",
    "OlmoForCausalLM": "OlmoConfig",
    "OlmoForSequenceClassification": "OlmoConfig",
    "DiffLlamaForCausalLM": "DiffLlamaConfig",
    "DiffLlamaForSequenceClassification": "DiffLlamaConfig",
    "DeepseekV2ForCausalLM": "DeepseekV2Config",
    "DeepseekV2ForSequenceClassification": "DeepseekV2Config",
    "Olmo2ForCausalLM": "Olmo2Config",
    "OlmoeForCausalLM": "OlmoeConfig",
    "OPTForCausalLM": "OPTConfig",
    "OPTForSequenceClassification": "OPTConfig",
    "PhiForCausalLM": "PhiConfig",
    "PhiForSequenceClassification": "PhiConfig",
    "Phi3ForCausalLM": "Phi3Config",
    "Phi3ForSequenceClassification": "Phi3Config",
    "SmolLM3ForCausalLM": "SmolLM3Config",
    "StableLmForCausalLM": "StableLmConfig",
    "StableLmForSequenceClassification": "StableLmConfig",
    "Starcoder2ForCausalLM": "Starcoder2Config",
    "Starcoder2ForSequenceClassification": "Starcoder2Config",
    "GemmaForCausalLM": "GemmaConfig",
    "Gemma2ForCausalLM": "Gemma2Config",
    "Gemma3ForCausalLM": "Gemma3TextConfig",
    "FalconForCausalLM": "FalconConfig",
    "BloomForCausalLM": "BloomConfig",
    "MptForCausalLM": "MptConfig",
    "MambaForCausalLM": "MambaConfig",
    "Mamba2ForCausalLM": "Mamba2Config",
    "RwkvForCausalLM": "RwkvConfig",
    "MixtralForCausalLM": "MixtralConfig",
    "Qwen3NextForCausalLM": "Qwen3NextConfig",
    "Qwen3NextForSequenceClassification": "Qwen3NextConfig",
    "GptOssForCausalLM": "GptOssConfig",
    "GptOssForSequenceClassification": "GptOssConfig",
    "DeepseekV3ForCausalLM": "DeepseekV3Config",
    "DeepseekV3ForSequenceClassification": "DeepseekV3Config",
    "BertForMaskedLM": "BertConfig",
    "BertForPreTraining": "BertConfig",
    "BertForSequenceClassification": "BertConfig",
    "BertForTokenClassification": "BertConfig",
    "BertForQuestionAnswering": "BertConfig",
    "RobertaForMaskedLM": "RobertaConfig",
    "RobertaForSequenceClassification": "RobertaConfig",
    "RobertaForTokenClassification": "RobertaConfig",
    "RobertaForQuestionAnswering": "RobertaConfig",
    "RoFormerForMaskedLM": "RoFormerConfig",
    "RoFormerForSequenceClassification": "RoFormerConfig",
    "RoFormerForTokenClassification": "RoFormerConfig",
    "RoFormerForQuestionAnswering": "RoFormerConfig",
    "AlbertForMaskedLM": "AlbertConfig",
    "AlbertForPreTraining": "AlbertConfig",
    "AlbertForSequenceClassification": "AlbertConfig",
    "AlbertForTokenClassification": "AlbertConfig",
    "AlbertForQuestionAnswering": "AlbertConfig",
    "DebertaForMaskedLM": "DebertaConfig",
    "DebertaForSequenceClassification": "DebertaConfig",
    "DebertaForTokenClassification": "DebertaConfig",
    "DebertaForQuestionAnswering": "DebertaConfig",
    "DebertaV2ForMaskedLM": "DebertaV2Config",
    "DebertaV2ForSequenceClassification": "DebertaV2Config",
    "DebertaV2ForTokenClassification": "DebertaV2Config",
    "DebertaV2ForQuestionAnswering": "DebertaV2Config",
    "ModernBertForMaskedLM": "ModernBertConfig",
    "ModernBertForSequenceClassification": "ModernBertConfig",
    "ModernBertForTokenClassification": "ModernBertConfig",
    "ModernBertForQuestionAnswering": "ModernBertConfig",
    "ModernBertModel": "ModernBertConfig",
    "T5ForConditionalGeneration": "T5Config",
    "MT5ForConditionalGeneration": "MT5Config",
    "BartForConditionalGeneration": "BartConfig",
    "MarianMTModel": "MarianConfig",
    "MBartForConditionalGeneration": "MBartConfig",
    "PegasusForConditionalGeneration": "PegasusConfig",
    "M2M100ForConditionalGeneration": "M2M100Config",
    "LongformerForMaskedLM": "LongformerConfig",
    "LongformerForSequenceClassification": "LongformerConfig",
    "LongformerForTokenClassification": "LongformerConfig",
    "LEDForConditionalGeneration": "LEDConfig",
    "ViTForImageClassification": "ViTConfig",
    "DeiTForImageClassificationWithTeacher": "DeiTConfig",
    "SwinForImageClassification": "SwinConfig",
    "Swinv2ForImageClassification": "Swinv2Config",
    "Dinov2ForImageClassification": "Dinov2Config",
    "Dinov2WithRegistersForImageClassification": "Dinov2WithRegistersConfig",
    "DINOv3ViTModel": "DINOv3ViTConfig",
    "BeitForImageClassification": "BeitConfig",
    "BitForImageClassification": "BitConfig",
    "ResNetForImageClassification": "ResNetConfig",
    "DistilBertForMaskedLM": "DistilBertConfig",
    "DistilBertForSequenceClassification": "DistilBertConfig",
    "DistilBertForTokenClassification": "DistilBertConfig",
    "DistilBertForQuestionAnswering": "DistilBertConfig",
    "ElectraForMaskedLM": "ElectraConfig",
    "ElectraForPreTraining": "ElectraConfig",
    "ElectraForSequenceClassification": "ElectraConfig",
    "ElectraForTokenClassification": "ElectraConfig",
    "ElectraForQuestionAnswering": "ElectraConfig",
    "FNetForMaskedLM": "FNetConfig",
    "FNetForPreTraining": "FNetConfig",
    "FNetForSequenceClassification": "FNetConfig",
    "FNetForTokenClassification": "FNetConfig",
    "FNetForQuestionAnswering": "FNetConfig",
    "FNetModel": "FNetConfig",
    "XLNetLMHeadModel": "XLNetConfig",
    "XLNetForSequenceClassification": "XLNetConfig",
    "XLNetForTokenClassification": "XLNetConfig",
    "XLNetForQuestionAnsweringSimple": "XLNetConfig",
    "XLNetModel": "XLNetConfig",
    "BigBirdForMaskedLM": "BigBirdConfig",
    "BigBirdForPreTraining": "BigBirdConfig",
    "BigBirdForSequenceClassification": "BigBirdConfig",
    "BigBirdForTokenClassification": "BigBirdConfig",
    "XLMRobertaForMaskedLM": "XLMRobertaConfig",
    "CamembertForMaskedLM": "CamembertConfig",
    "CamembertForSequenceClassification": "CamembertConfig",
    "BertModel": "BertConfig",
    "RobertaModel": "RobertaConfig",
    "XLMRobertaModel": "XLMRobertaConfig",
    "DistilBertModel": "DistilBertConfig",
    "AlbertModel": "AlbertConfig",
    "ElectraModel": "ElectraConfig",
    "DebertaModel": "DebertaConfig",
    "DebertaV2Model": "DebertaV2Config",
    "RoFormerModel": "RoFormerConfig",
    "LongformerModel": "LongformerConfig",
    "BigBirdModel": "BigBirdConfig",
    "GPT2Model": "GPT2Config",
    "Qwen3Model": "Qwen3Config",
    "GPT2ForSequenceClassification": "GPT2Config",
    "OpenAIGPTForSequenceClassification": "OpenAIGPTConfig",
    "GPTNeoXForSequenceClassification": "GPTNeoXConfig",
    "GPTNeoForSequenceClassification": "GPTNeoConfig",
    "GPTJForSequenceClassification": "GPTJConfig",
    "LlamaForSequenceClassification": "LlamaConfig",
    "MistralForSequenceClassification": "MistralConfig",
    "MixtralForSequenceClassification": "MixtralConfig",
    "Qwen2ForSequenceClassification": "Qwen2Config",
    "Qwen3ForSequenceClassification": "Qwen3Config",
    "Olmo2ForSequenceClassification": "Olmo2Config",
    "SmolLM3ForSequenceClassification": "SmolLM3Config",
    "GemmaForSequenceClassification": "GemmaConfig",
    "Gemma2ForSequenceClassification": "Gemma2Config",
    "FalconForSequenceClassification": "FalconConfig",
    "BloomForSequenceClassification": "BloomConfig",
    "MptForSequenceClassification": "MptConfig",
}

# Tag names, for a class that reads them.
TAGS = {"id2label": {0: "O", 1: "B-X", 2: "I-X", 3: "B-Y"}, "label2id": {"O": 0, "B-X": 1, "I-X": 2, "B-Y": 3}}

# Keys that version 4 wrote into config.json and version 5 does not.
OLD = {
    "dtype": None,
    "torch_dtype": "float32",
    "transformers_version": "4.30.2",
    "_name_or_path": "./somewhere",
    "output_past": True,
    "max_length": 40,
    "num_beams": 4,
}


def gpts():
    gpt = dict(vocab_size=37, n_embd=16, n_layer=2, n_head=2, n_positions=20, bos_token_id=0, eos_token_id=0)
    neox = dict(
        vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=20, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    gpt_j = dict(gpt, n_layer=2, tie_word_embeddings=False)
    neo = dict(
        vocab_size=37, hidden_size=16, num_layers=2, num_heads=2, max_position_embeddings=20, window_size=4,
        attention_types=[[["global", "local"], 1]], bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    locals_first = [[["local", "local", "global"], 1]]
    odd_neo = dict(
        neo, num_layers=3, attention_types=locals_first, window_size=3, intermediate_size=20, activation_function="silu",
        tie_word_embeddings=False, layer_norm_epsilon=1e-3,
    )  # fmt: skip
    inverse = dict(gpt, n_layer=3, scale_attn_by_inverse_layer_idx=True)
    untied = dict(gpt, n_inner=20, tie_word_embeddings=False, activation_function="relu", layer_norm_epsilon=1e-3)
    summary = {
        "n_ctx": 20, "summary_type": "cls_index", "summary_use_proj": True, "summary_activation": None,
        "summary_proj_to_labels": True, "summary_first_dropout": 0.1, "task_specific_params": {"text-generation": {"max_length": 50}},
    }  # fmt: skip
    shape = dict(hidden_act="relu", attention_bias=False, use_parallel_residual=False)
    whole = rope(5000.0, partial_rotary_factor=1.0)
    parallel = {"use_parallel_residual": True, "rope_parameters": rope(5000.0, partial_rotary_factor=0.25)}
    return {
        "gpt2_1": case("GPT2LMHeadModel", inverse, plain={"scale_attn_by_inverse_layer_idx": False}),
        "gpt2_2": case("GPT2LMHeadModel", untied, pad=True, plain={"activation_function": "gelu"}),
        "gpt2_bare": case("GPT2LMHeadModel", gpt, tensors=bare_gpt2, config_json=OLD | summary),
        "gpt2_bin": case("GPT2LMHeadModel", gpt, form="bin"),
        "openai_gpt_1": case("OpenAIGPTLMHeadModel", dict(gpt, n_layer=3)),
        "openai_gpt_2": case("OpenAIGPTLMHeadModel", dict(gpt, afn="silu", n_head=4), plain={"n_head": 2}),
        "gpt_neox_1": case("GPTNeoXForCausalLM", neox),
        "gpt_neox_2": case("GPTNeoXForCausalLM", dict(neox, **shape, rope_parameters=whole), plain=parallel),
        "gpt_neox_shards": case("GPTNeoXForCausalLM", neox, form="shards", config_json=OLD | NEOX_OLD),
        "gpt_neo_1": case("GPTNeoForCausalLM", neo, length=13, plain={"window_size": 13}),
        "gpt_neo_2": case("GPTNeoForCausalLM", odd_neo, length=13, plain={"attention_layers": ["global"] * 3}),
        "gpt_neo_hub": case("GPTNeoForCausalLM", neo, length=13, tensors=hub_neo, config_json=OLD | NEO_OLD),
        "gptj_1": case("GPTJForCausalLM", dict(gpt_j, rotary_dim=4), plain={"rotary_dim": 8}),
        "gptj_2": case("GPTJForCausalLM", dict(gpt_j, rotary_dim=8, n_inner=20, activation_function="gelu")),
    }


def reformers():
    """Inputs of hashing layers fit in one chunk, since torch draws the rotations of longer ones."""
    shape = dict(
        vocab_size=37, hidden_size=16, num_attention_heads=2, attention_head_size=6, feed_forward_size=24, is_decoder=True,
        max_position_embeddings=32, axial_pos_shape=[4, 8], axial_pos_embds_dim=[6, 10], attn_layers=["local", "lsh"],
        local_attn_chunk_length=16, lsh_attn_chunk_length=16, num_buckets=[2, 4], num_hashes=2,
    )  # fmt: skip
    blocks = dict(
        shape, axial_pos_embds=False, local_attn_chunk_length=4, lsh_attn_chunk_length=16, attn_layers=["lsh", "local", "local"],
        num_buckets=None, hidden_act="gelu", layer_norm_eps=1e-3, chunk_size_feed_forward=8,
    )  # fmt: skip
    return {
        "reformer_1": case("ReformerModelWithLMHead", shape, length=13, tensors=without_bias, plain={"attn_layers": ["lsh", "lsh"]}),
        "reformer_2": case("ReformerModelWithLMHead", blocks, length=14, tensors=without_bias, plain={"hidden_act": "relu"}),
    }


def without_bias(tensors):
    """Version 5 of the library does not add the head's bias, unlike earlier versions."""
    tensors["lm_head.bias"] = torch.zeros_like(tensors["lm_head.bias"])


# As in released files; without a list of layers, their kinds follow from `attention_types`.
NEO_OLD = {
    "attention_layers": None, "tie_word_embeddings": None, "summary_type": "cls_index", "summary_use_proj": True,
    "summary_activation": None, "summary_proj_to_labels": True, "summary_first_dropout": 0.1, "gradient_checkpointing": False,
}  # fmt: skip


def hub_neo(tensors):
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    for layer in range(2):
        tensors[f"transformer.h.{layer}.attn.attention.bias"] = torch.ones(20, 20).tril().bool()[None, None].contiguous()
        tensors[f"transformer.h.{layer}.attn.attention.masked_bias"] = torch.tensor(-1e9)


NEOX_OLD = {"rope_parameters": None, "rotary_pct": 0.25, "rotary_emb_base": 10000, "rope_scaling": None}


def bare_gpt2(tensors):
    for name in list(tensors):
        tensors[name.removeprefix("transformer.")] = tensors.pop(name)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    for layer in range(2):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(20, 20).tril()[None, None].contiguous()
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)


def rope(theta=10000.0, kind="default", **rest):
    return {"rope_theta": theta, "rope_type": kind, **rest}


def llamas():
    shape = dict(
        vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1,
        intermediate_size=32, max_position_embeddings=64,
    )  # fmt: skip
    llama3 = rope(kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
    linear = rope(5000.0, "linear", factor=2.0)
    yarn = rope(kind="yarn", factor=4.0, original_max_position_embeddings=8)
    biased = dict(shape, num_key_value_heads=2, attention_bias=True, mlp_bias=True, tie_word_embeddings=True)
    linear_old = {"rope_parameters": None, "rope_theta": 5000.0, "rope_scaling": {"type": "linear", "factor": 2.0}, "pretraining_tp": 1}
    window = dict(shape, sliding_window=4)
    open_window = dict(shape, sliding_window=None, head_dim=10, rms_norm_eps=1e-3)
    old_window = {"rope_parameters": None, "rope_theta": 10000.0}
    qwen3 = dict(shape, head_dim=8)
    longer = rope(
        100.0, "longrope", factor=4.0, original_max_position_embeddings=8, short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 3.0, 6.0],
    )  # fmt: skip
    return {
        "llama_1": case(
            "LlamaForCausalLM", dict(shape, head_dim=8, rope_parameters=llama3), length=20, plain={"rope_parameters": rope()},
        ),  # fmt: skip
        "llama_2": case("LlamaForCausalLM", dict(biased, rope_parameters=linear), pad=True, config_json=OLD | linear_old),
        # Longer than the original context; phi3_4 is shorter.
        "llama_3": case(
            "LlamaForCausalLM", dict(shape, num_key_value_heads=2, rope_parameters=longer), length=13,
            plain={"rope_parameters": dict(longer, original_max_position_embeddings=16)},
        ),  # fmt: skip
        "llama_shards_bin": case("LlamaForCausalLM", shape, form="shards_bin"),
        "mistral_1": case("MistralForCausalLM", window, length=13, config_json=old_window, plain={"sliding_window": None}),
        "mistral_2": case("MistralForCausalLM", open_window, pad=True),
        "mistral_bf16": case("MistralForCausalLM", window, length=13, dtype=torch.bfloat16),
        "qwen2_1": case("Qwen2ForCausalLM", dict(shape, tie_word_embeddings=True)),
        "qwen2_2": case("Qwen2ForCausalLM", dict(shape, num_key_value_heads=2, rope_parameters=yarn), length=20, plain={"rope_parameters": rope()}),
        "qwen2_f16": case("Qwen2ForCausalLM", shape, dtype=torch.float16),
        "qwen3_1": case("Qwen3ForCausalLM", qwen3),
        "qwen3_2": case("Qwen3ForCausalLM", dict(qwen3, num_key_value_heads=2, attention_bias=True, tie_word_embeddings=True)),
    }


# As in version 4 of transformers: two rotary bases, and every third layer without a window.
GEMMA3_OLD = {
    "rope_parameters": None, "rope_theta": 1000000.0, "rope_local_base_freq": 100.0, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "layer_types": None, "sliding_window_pattern": 3, "cache_implementation": "hybrid",
}  # fmt: skip


def kin_of_llama():
    """OLMo 1 and 2, DiffLlama, SmolLM3 and the Gemmas: other norm placements, layers of several kinds."""
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=20, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    three = dict(shape, num_hidden_layers=3, attention_bias=True)
    # The head width is not d_model / n_heads, and queries are scaled by another number.
    gemma = dict(shape, head_dim=6)
    gemma2 = dict(gemma, query_pre_attn_scalar=11, sliding_window=4, num_hidden_layers=3)
    full, near = "full_attention", "sliding_attention"
    both = {full: rope(1000.0), near: rope(100.0)}
    gemma3 = dict(gemma, num_hidden_layers=3, query_pre_attn_scalar=30, sliding_window=4, layer_types=[near, full, near], rope_parameters=both)
    local = dict(gemma, num_hidden_layers=2, query_pre_attn_scalar=8, sliding_window=3, layer_types=[near, near], final_logit_softcapping=2.0)
    six = dict(gemma, num_hidden_layers=6, query_pre_attn_scalar=8, sliding_window=4, rope_parameters={full: rope(1e6, "linear", factor=8.0), near: rope(100.0)}, layer_types=[near, near, full] * 2)
    return {
        "olmo_1": case("OlmoForCausalLM", dict(shape, clip_qkv=0.3), plain={"clip_qkv": None}),
        "olmo_2": case("OlmoForCausalLM", dict(three, num_key_value_heads=4, tie_word_embeddings=True, rope_parameters=rope(5000.0)), pad=True),
        "diffllama_1": case("DiffLlamaForCausalLM", dict(three, intermediate_size=12, rope_parameters=rope(100.0)), length=13),
        "diffllama_2": case("DiffLlamaForCausalLM", dict(shape, num_key_value_heads=4, head_dim=6, rms_norm_eps=1e-3, tie_word_embeddings=True), pad=True),
        "olmo2_1": case("Olmo2ForCausalLM", dict(shape, num_key_value_heads=1)),
        "olmo2_2": case("Olmo2ForCausalLM", dict(three, num_key_value_heads=4, rms_norm_eps=1e-3, tie_word_embeddings=True, rope_parameters=rope(5000.0)), pad=True),
        "smollm3_1": case("SmolLM3ForCausalLM", dict(shape, num_hidden_layers=4, no_rope_layer_interval=2, rope_parameters=rope(2e6)), plain={"no_rope_layers": [1] * 4}),
        "smollm3_2": case("SmolLM3ForCausalLM", dict(three, mlp_bias=True, tie_word_embeddings=False, no_rope_layers=[0, 1, 1]), pad=True, plain={"no_rope_layers": [1, 1, 1]}),
        "gemma_1": case("GemmaForCausalLM", gemma),
        "gemma_2": case("GemmaForCausalLM", dict(gemma, num_key_value_heads=1, attention_bias=True, rms_norm_eps=1e-3, tie_word_embeddings=False), pad=True),
        "gemma2_1": case("Gemma2ForCausalLM", gemma2, length=13, plain={"final_logit_softcapping": None}),
        "gemma2_2": case(
            "Gemma2ForCausalLM", dict(gemma2, query_pre_attn_scalar=16, layer_types=[full, full, near], attn_logit_softcapping=1.5, final_logit_softcapping=None),
            length=13, pad=True, plain={"attn_logit_softcapping": None},
        ),  # fmt: skip
        "gemma3_1": case("Gemma3ForCausalLM", gemma3, length=13, plain={"rope_parameters": {full: rope(100.0), near: rope(100.0)}}),
        "gemma3_2": case("Gemma3ForCausalLM", local, length=13, pad=True, plain={"final_logit_softcapping": None}),
        "gemma3_hub": case("Gemma3ForCausalLM", six, length=13, config_json=OLD | GEMMA3_OLD),
    }  # fmt: skip


# Keys of released files that the class does not read.
STARCODER2_OLD = {
    "rope_parameters": None, "rope_theta": 100.0, "activation_function": "gelu", "attention_softmax_in_fp32": True,
    "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True, "layer_norm_epsilon": 1e-5, "rms_norm_eps": 1e-5,
    "mlp_type": "default", "norm_type": "layer_norm",
}  # fmt: skip


def layer_normed():
    """StarCoder2 and StableLM: LLaMAs with layer norms."""
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=20, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    bare = dict(
        shape, num_hidden_layers=3, num_key_value_heads=1, head_dim=6, use_bias=False, hidden_act="relu", norm_epsilon=1e-3,
        tie_word_embeddings=False, rope_parameters=rope(5000.0),
    )  # fmt: skip
    near = dict(shape, sliding_window=4, rope_parameters=rope(100.0))
    part = dict(shape, num_attention_heads=2, num_key_value_heads=1)
    parallel = dict(shape, use_parallel_residual=True, layer_norm_eps=1e-3, tie_word_embeddings=True, rope_parameters=rope(500.0, partial_rotary_factor=0.5))
    stretched = dict(part, use_qkv_bias=True, rope_parameters=rope(500.0, "linear", factor=4.0, partial_rotary_factor=0.5))
    old = {"rope_parameters": None, "rope_theta": 500.0, "partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 4.0}}
    whole = {"rope_parameters": rope(500.0, partial_rotary_factor=1.0)}
    return {
        "starcoder2_1": case("Starcoder2ForCausalLM", dict(shape, sliding_window=4), length=13, plain={"sliding_window": None}),
        "starcoder2_2": case("Starcoder2ForCausalLM", bare, pad=True, plain={"hidden_act": "gelu"}),
        "starcoder2_hub": case("Starcoder2ForCausalLM", near, length=13, config_json=OLD | STARCODER2_OLD),
        "stablelm_1": case("StableLmForCausalLM", dict(part, use_qkv_bias=True), plain=whole),
        "stablelm_2": case("StableLmForCausalLM", parallel, pad=True, plain=whole),
        "stablelm_hub": case("StableLmForCausalLM", stretched, config_json=OLD | old, plain={"partial_rotary_factor": 1.0}),
    }


def linear_biases():
    """Falcon, BLOOM and MPT."""
    falcon = dict(
        vocab_size=37, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=20,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    with_alibi = dict(falcon, alibi=True, bias=True, parallel_attn=False, multi_query=False, ffn_hidden_size=40)
    grouped = dict(falcon, new_decoder_architecture=True, num_kv_heads=2, tie_word_embeddings=False)
    bloom = dict(vocab_size=37, hidden_size=24, n_layer=2, bos_token_id=0, eos_token_id=0, pad_token_id=3)
    mpt = dict(vocab_size=37, d_model=16, n_layers=2, max_seq_len=20)
    attention = {"model_type": "", "softmax_scale": 0.2, "clip_qkv": 0.3}
    return {
        "falcon_1": case("FalconForCausalLM", falcon),
        "falcon_2": case("FalconForCausalLM", grouped, pad=True),
        "falcon_3": case("FalconForCausalLM", with_alibi, plain={"alibi": False}),
        "bloom_1": case("BloomForCausalLM", dict(bloom, n_head=3)),
        "bloom_2": case("BloomForCausalLM", dict(bloom, n_head=4, tie_word_embeddings=False, layer_norm_epsilon=1e-3), pad=True),
        "mpt_1": case("MptForCausalLM", dict(mpt, n_heads=2)),
        "mpt_2": case("MptForCausalLM", dict(mpt, n_heads=4, tie_word_embeddings=False, attn_config=attention), plain={"attn_config": {"softmax_scale": None, "clip_qkv": None}}),
        "mpt_3": case(
            "MptForCausalLM", dict(mpt, d_model=18, n_heads=3, attn_config={"model_type": "", "alibi_bias_max": 4}),
            plain={"attn_config": {"alibi_bias_max": 8}},
        ),  # fmt: skip
    }


def encoders():
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20,
    )  # fmt: skip
    labelled = dict(shape, id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    tagged = dict(shape, **TAGS)
    hub = OLD | {
        "architectures": ["BertForMaskedLM"], "position_embedding_type": "absolute", "gradient_checkpointing": False,
    }  # fmt: skip
    roberta = dict(shape, type_vocab_size=1, layer_norm_eps=1e-5)
    old = OLD | {
        "down_scale_factor": 1, "gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0, "layers_to_keep": [],
    }  # fmt: skip
    return {
        "bert_1": case("BertForMaskedLM", dict(shape, hidden_act="gelu_new", layer_norm_eps=1e-5)),
        "bert_2": case("BertForSequenceClassification", dict(labelled, hidden_act="relu", type_vocab_size=3), plain={"hidden_act": "gelu"}),
        "bert_3": case("BertForPreTraining", dict(shape, num_attention_heads=4, num_hidden_layers=1)),
        "bert_4": case("BertForMaskedLM", dict(shape, tie_word_embeddings=False, num_hidden_layers=1)),
        "bert_5": case("BertForTokenClassification", dict(tagged, hidden_act="relu"), plain={"hidden_act": "gelu"}),
        "bert_6": case("BertForSequenceClassification", dict(shape, num_labels=1, num_hidden_layers=1)),
        "bert_7": case("BertForQuestionAnswering", dict(shape, num_attention_heads=4), plain={"num_attention_heads": 2}),
        "bert_several": case("BertForSequenceClassification", dict(labelled, problem_type="multi_label_classification")),
        "bert_hub": case("BertForPreTraining", shape, tensors=old_bert, config_json=hub),
        "roberta_1": case("RobertaForMaskedLM", roberta),
        "roberta_2": case("RobertaForSequenceClassification", dict(labelled, hidden_act="relu", pad_token_id=3), plain={"pad_token_id": 1, "hidden_act": "gelu"}),
        "roberta_3": case("RobertaForTokenClassification", dict(tagged, pad_token_id=3, num_attention_heads=4), plain={"pad_token_id": 1}),
        "roberta_4": case("RobertaForSequenceClassification", dict(roberta, num_labels=1, problem_type="regression")),
        "roberta_5": case("RobertaForQuestionAnswering", roberta),
        "roformer_1": case("RoFormerForMaskedLM", shape),
        "roformer_2": case(
            "RoFormerForMaskedLM", dict(shape, num_attention_heads=4, hidden_act="relu", type_vocab_size=1, layer_norm_eps=1e-3),
            length=17, plain={"hidden_act": "gelu"},
        ),  # fmt: skip
        "roformer_3": case("RoFormerForMaskedLM", dict(shape, rotary_value=True, num_hidden_layers=1), plain={"rotary_value": False}),
        "roformer_4": case(
            "RoFormerForMaskedLM", dict(shape, embedding_size=10, rotary_value=True, num_attention_heads=4), length=13, plain={"rotary_value": False},
        ),  # fmt: skip
        "roformer_5": case("RoFormerForMaskedLM", dict(shape, embedding_size=24, tie_word_embeddings=False, hidden_act="relu")),
        "albert_1": case(
            "AlbertForPreTraining", dict(shape, embedding_size=10, num_hidden_layers=4, num_hidden_groups=2, inner_group_num=2),
            plain={"num_hidden_layers": 2},
        ),  # fmt: skip
        "albert_2": case(
            "AlbertForMaskedLM", dict(shape, embedding_size=16, num_hidden_layers=3, hidden_act="relu", layer_norm_eps=1e-3),
            plain={"hidden_act": "gelu_new"},
        ),  # fmt: skip
        "albert_3": case("AlbertForSequenceClassification", dict(labelled, embedding_size=24, num_hidden_groups=2, type_vocab_size=3)),
        "albert_4": case("AlbertForMaskedLM", dict(shape, embedding_size=10, tie_word_embeddings=False, num_attention_heads=4)),
        "albert_5": case("AlbertForTokenClassification", dict(tagged, embedding_size=10, num_hidden_groups=2)),
        "albert_6": case("AlbertForSequenceClassification", dict(shape, embedding_size=10, num_labels=1)),
        "albert_7": case("AlbertForQuestionAnswering", dict(shape, embedding_size=10)),
        "albert_hub": case("AlbertForMaskedLM", dict(shape, embedding_size=10), tensors=old_albert, config_json=old),
    }


def kin_of_bert():
    """DistilBERT and ELECTRA."""
    distilled = dict(vocab_size=37, dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=20)
    named = dict(id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    hub = OLD | {"tie_weights_": True, "sinusoidal_pos_embds": False}
    untied = dict(distilled, n_layers=1, n_heads=4, activation="gelu_new", tie_word_embeddings=False)
    electra = dict(
        vocab_size=37, embedding_size=10, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20,
    )  # fmt: skip
    as_wide = dict(electra, embedding_size=16, num_hidden_layers=1)
    found = dict(electra, embedding_size=24, hidden_act="relu", type_vocab_size=3, num_attention_heads=4)
    return {
        "distilbert_1": case("DistilBertForMaskedLM", distilled, config_json=hub),
        "distilbert_2": case("DistilBertForSequenceClassification", dict(distilled, **named, activation="relu"), plain={"activation": "gelu"}),
        "distilbert_3": case("DistilBertForMaskedLM", untied),
        "distilbert_4": case("DistilBertForTokenClassification", dict(distilled, **TAGS, n_heads=4), plain={"n_heads": 2}),
        "distilbert_5": case("DistilBertForSequenceClassification", dict(distilled, num_labels=1)),
        "distilbert_6": case("DistilBertForQuestionAnswering", distilled),
        "electra_1": case("ElectraForMaskedLM", dict(electra, hidden_act="relu"), plain={"hidden_act": "gelu"}),
        "electra_2": case("ElectraForPreTraining", electra, config_json=OLD),
        "electra_3": case("ElectraForSequenceClassification", dict(as_wide, **named, hidden_act="relu"), plain={"hidden_act": "gelu"}),
        "electra_4": case("ElectraForMaskedLM", dict(as_wide, tie_word_embeddings=False)),
        "electra_5": case("ElectraForPreTraining", found, length=13, plain={"hidden_act": "gelu"}),
        "electra_6": case("ElectraForTokenClassification", dict(electra, **TAGS, hidden_act="relu"), plain={"hidden_act": "gelu"}),
        "electra_7": case("ElectraForSequenceClassification", dict(as_wide, num_labels=1, problem_type="regression")),
        "electra_8": case("ElectraForQuestionAnswering", electra),
        "roformer_8": case("RoFormerForQuestionAnswering", dict(electra, rotary_value=True), plain={"rotary_value": False}),
        "roformer_7": case("RoFormerForTokenClassification", dict(electra, **TAGS, rotary_value=True), plain={"rotary_value": False}),
        "roformer_6": case("RoFormerForSequenceClassification", dict(electra, **named, embedding_size=16), plain={"hidden_act": "relu"}),
    }


def fnets():
    shape = dict(vocab_size=37, hidden_size=12, num_hidden_layers=2, intermediate_size=20, max_position_embeddings=20, type_vocab_size=2)
    labelled = dict(shape, id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    hub = OLD | {"actual_seq_length": 20, "tpu_short_seq_length": 20, "use_fft": True, "use_latest": False, "use_tpu_fourier_optimizations": False}
    return {
        "fnet_1": case("FNetForMaskedLM", shape, config_json=hub),
        "fnet_2": case(
            "FNetForSequenceClassification", dict(labelled, hidden_act="relu", type_vocab_size=3), length=13, plain={"hidden_act": "gelu_new"}
        ),
        "fnet_3": case("FNetForPreTraining", dict(shape, num_hidden_layers=3, layer_norm_eps=1e-3, hidden_act="gelu"), length=11),
        "fnet_4": case("FNetForMaskedLM", dict(shape, tie_word_embeddings=False)),
        "fnet_5": case("FNetForTokenClassification", dict(shape, **TAGS), length=8),
        "fnet_6": case("FNetForQuestionAnswering", shape),
        "fnet_7": case("FNetForSequenceClassification", dict(shape, num_labels=1)),
        "fnet_body": case("FNetModel", shape, length=7, arguments=UNPOOLED),
    }  # fmt: skip


def xlnets():
    shape = dict(vocab_size=37, d_model=12, n_layer=2, n_head=2, d_inner=20)
    labelled = dict(shape, id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    hub = OLD | {"untie_r": True, "d_head": 6, "reuse_len": None, "mem_len": None, "architectures": ["XLNetLMHeadModel"]}
    return {
        "xlnet_1": case("XLNetLMHeadModel", shape, config_json=hub),
        "xlnet_2": case(
            "XLNetForSequenceClassification", dict(labelled, clamp_len=4, ff_activation="relu"), length=13, plain={"clamp_len": -1}
        ),
        "xlnet_3": case("XLNetLMHeadModel", dict(shape, n_layer=3, n_head=3, tie_word_embeddings=False, layer_norm_eps=1e-3)),
        "xlnet_4": case("XLNetForTokenClassification", dict(shape, **TAGS), length=8),
        "xlnet_5": case("XLNetForSequenceClassification", dict(shape, num_labels=1)),
        "xlnet_6": case("XLNetForQuestionAnsweringSimple", dict(shape, n_layer=1), length=9),
        "xlnet_body": case("XLNetModel", shape, length=7),
    }  # fmt: skip


# As in released files: layer kinds given by a period, two rotary bases, keys that the class ignores.
MODERNBERT_OLD = {
    "layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 2, "global_rope_theta": 2000.0,
    "local_rope_theta": 50.0, "layer_norm_eps": 1e-5, "position_embedding_type": "absolute", "reference_compile": True,
    "gradient_checkpointing": False,
}  # fmt: skip


def modernberts():
    """ModernBERT: windows of two or three neighbours on either side, in much longer texts."""
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=3, num_attention_heads=2, intermediate_size=20, max_position_embeddings=40,
        local_attention=6, pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2, sep_token_id=2,
    )  # fmt: skip
    named = dict(id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    full, near = "full_attention", "sliding_attention"
    both = {full: rope(3000.0), near: rope(20.0)}
    three = dict(shape, rope_parameters=both)
    biased = dict(three, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True)
    odd = dict(
        biased, layer_types=[near, full, near], local_attention=5, decoder_bias=False, tie_word_embeddings=False, norm_eps=1e-3,
        hidden_activation="silu", classifier_activation="relu", num_attention_heads=4,
    )  # fmt: skip
    stretched = dict(shape, num_hidden_layers=2, layer_types=[near, near], local_attention=4, rope_parameters={near: rope(50.0, "linear", factor=4.0)})
    return {
        "modernbert_1": case("ModernBertForMaskedLM", shape, length=17, plain={"local_attention": 40, "layer_types": [near] * 3}),
        "modernbert_2": case("ModernBertForMaskedLM", odd, length=17, plain={"hidden_activation": "gelu", "classifier_activation": "gelu", "local_attention": 6}),
        "modernbert_3": case("ModernBertForSequenceClassification", dict(three, **named), length=17, plain={"classifier_pooling": "mean"}),
        "modernbert_4": case(
            "ModernBertForSequenceClassification", dict(biased, num_labels=1, classifier_pooling="mean", classifier_activation="silu"), length=17,
            plain={"classifier_pooling": "cls", "classifier_activation": "gelu"},
        ),
        "modernbert_5": case("ModernBertForTokenClassification", dict(biased, **TAGS), length=17, plain={"local_attention": 2}),
        "modernbert_6": case("ModernBertForQuestionAnswering", three, length=17, plain={"classifier_activation": "relu"}),
        "modernbert_7": case("ModernBertForMaskedLM", stretched, length=17, plain={"rope_parameters": {near: rope(50.0)}}),
        "modernbert_several": case(
            "ModernBertForSequenceClassification", dict(three, **named, problem_type="multi_label_classification", classifier_pooling="mean"), length=17
        ),
        "modernbert_hub": case(
            "ModernBertForMaskedLM", dict(shape, num_hidden_layers=4, layer_types=[full, near] * 2, rope_parameters={full: rope(2000.0), near: rope(50.0)}),
            length=17, config_json=OLD | MODERNBERT_OLD,
        ),
        "modernbert_body": case("ModernBertModel", three, length=17, plain={"local_attention": 4}),
    }  # fmt: skip


def sparse():
    """BigBird: texts of up to 5 + 2·random blocks, to which its class applies full attention."""
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20, block_size=2, num_random_blocks=3,
    )  # fmt: skip
    named = dict(id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    odd = dict(shape, use_bias=False, rescale_embeddings=True, hidden_act="relu", type_vocab_size=3, block_size=3, num_random_blocks=2)
    full = dict(shape, **named, attention_type="original_full", num_hidden_layers=1)
    return {
        "big_bird_1": case("BigBirdForPreTraining", shape),
        "big_bird_2": case("BigBirdForMaskedLM", odd, length=13, pad=True, plain={"rescale_embeddings": False}),
        "big_bird_4": case("BigBirdForTokenClassification", dict(shape, **TAGS, attention_type="original_full", hidden_act="relu"), plain={"hidden_act": "gelu"}),
        "big_bird_3": case("BigBirdForSequenceClassification", full, plain={"hidden_act": "relu"}),
    }


def old_albert(tensors):
    """As in the files of the first ALBERTs: a buffer, copies of tied tensors, heads that the class lacks."""
    tensors["albert.embeddings.position_ids"] = torch.arange(20)[None].contiguous()
    tensors["predictions.decoder.weight"] = tensors["albert.embeddings.word_embeddings.weight"].clone()
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"].clone()
    tensors["albert.pooler.weight"], tensors["albert.pooler.bias"] = torch.ones(16, 16), torch.ones(16)
    tensors["sop_classifier.classifier.weight"] = torch.ones(2, 16)
    tensors["sop_classifier.classifier.bias"] = torch.ones(2)


def disentangled():
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20, relative_attention=True, position_biased_input=False, pos_att_type=["c2p", "p2c"],
    )  # fmt: skip
    labels = dict(id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    # As in released files: terms separated by bars, the maximum input length in place of the maximum distance.
    hub = OLD | {"pos_att_type": "c2p|p2c", "max_relative_positions": -1, "legacy": None}
    second = dict(shape, share_att_key=True, position_buckets=4, max_relative_positions=8, norm_rel_ebd="layer_norm")
    return {
        "deberta_1": case("DebertaForMaskedLM", dict(shape, max_relative_positions=4), plain={"pos_att_type": ["p2c"]}),
        "deberta_2": case(
            "DebertaForSequenceClassification",
            dict(shape, type_vocab_size=2, pos_att_type=["c2p"], num_attention_heads=4, hidden_act="relu", **labels),
            plain={"hidden_act": "gelu", "pooler_hidden_act": "relu"},
        ),
        "deberta_3": case("DebertaForMaskedLM", dict(shape, pos_att_type=["p2c"], tie_word_embeddings=False, layer_norm_eps=1e-3)),
        "deberta_4": case(
            "DebertaForTokenClassification", dict(shape, max_relative_positions=4, **TAGS), plain={"pos_att_type": ["p2c"]}
        ),
        "deberta_5": case("DebertaForQuestionAnswering", dict(shape, max_relative_positions=4)),
        "deberta_hub": case("DebertaForMaskedLM", shape, config_json=hub),
        "deberta_new": case("DebertaForMaskedLM", dict(shape, legacy=False)),
        "deberta_v2_1": case(
            "DebertaV2ForMaskedLM", second, length=13, plain={"max_relative_positions": 12, "norm_rel_ebd": "none"}
        ),
        "deberta_v2_2": case(
            "DebertaV2ForSequenceClassification",
            dict(second, pooler_hidden_act="tanh", hidden_act="gelu_new", pos_att_type=["p2c"], type_vocab_size=1, **labels),
            length=11, plain={"pooler_hidden_act": "gelu"},
        ),
        "deberta_v2_4": case("DebertaV2ForTokenClassification", dict(second, **TAGS), length=13, plain={"norm_rel_ebd": "none"}),
        "deberta_v2_5": case("DebertaV2ForQuestionAnswering", second, length=13),
        "deberta_v2_3": case("DebertaV2ForMaskedLM", dict(shape, max_relative_positions=5, share_att_key=False)),
    }  # fmt: skip


def old_bert(tensors):
    """As in the first BERT's files: other names of norms, a buffer, copies of tied tensors."""
    for name in list(tensors):
        if "LayerNorm" in name:
            new = name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
            tensors[new] = tensors.pop(name)
    tensors["bert.embeddings.position_ids"] = torch.arange(20)[None].contiguous()
    tensors["cls.predictions.decoder.weight"] = tensors["bert.embeddings.word_embeddings.weight"].clone()
    tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"].clone()


# The tokenizers of make_tokenizers.py: 353 pieces of both sides, the last one the padding.
MARIAN_FILES = ["source.spm", "target.spm", "vocab.json", "tokenizer_config.json"]
NUMBERED = dict(vocab_size=353, d_model=8, pad_token_id=352, decoder_start_token_id=352, eos_token_id=0)


def encoder_decoders():
    t5 = dict(vocab_size=37, d_model=16, d_kv=6, d_ff=24, num_layers=1, num_decoder_layers=2, num_heads=2, decoder_start_token_id=0)
    gated = dict(t5, num_layers=2, num_decoder_layers=1, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
    gated |= dict(relative_attention_num_buckets=8, relative_attention_max_distance=10, layer_norm_epsilon=1e-4)
    hub = {"tie_word_embeddings": False, "scale_decoder_outputs": None, "dense_act_fn": None, "is_gated_act": None}
    hub_t5 = OLD | hub | {"n_positions": 512}
    bart = dict(
        vocab_size=37, d_model=16, encoder_layers=1, decoder_layers=2, encoder_ffn_dim=20, decoder_ffn_dim=24,
        encoder_attention_heads=2, decoder_attention_heads=4, max_position_embeddings=20,
    )  # fmt: skip
    layout = {"normalize_before": False, "add_final_layer_norm": False, "add_bias_logits": False, "classif_dropout": 0.0}
    hub_bart = OLD | layout | {"normalize_embedding": True, "static_position_embeddings": False, "extra_pos_embeddings": 2}
    hub_marian = OLD | layout | {
        "normalize_embedding": False, "static_position_embeddings": True, "extra_pos_embeddings": 36, "bad_words_ids": [[36]],
    }  # fmt: skip
    bart_2 = dict(bart, encoder_layers=2, decoder_layers=1, activation_function="relu", decoder_start_token_id=0)
    marian = dict(bart, pad_token_id=36, decoder_start_token_id=36, scale_embedding=True, activation_function="swish")
    before = layout | {"normalize_before": True, "add_final_layer_norm": True, "num_hidden_layers": 2}
    hub_mbart = OLD | before | {"normalize_embedding": True, "static_position_embeddings": False, "_num_labels": 3}
    hub_pegasus = OLD | before | {
        "normalize_embedding": False, "static_position_embeddings": True, "extra_pos_embeddings": 1, "force_bos_token_to_be_generated": False,
    }  # fmt: skip
    scaled, untied = dict(bart, scale_embedding=True, decoder_layers=1), dict(bart, tie_word_embeddings=False)
    m2m = dict(bart, encoder_layerdrop=0.05, decoder_layerdrop=0.0)
    # As in NLLB's files: version 4, with the name of a tokenizer and generation settings.
    hub_m2m = OLD | {"tokenizer_class": "NllbTokenizer", "max_length": 200, "num_beams": 5, "early_stopping": True, "num_hidden_layers": 2}
    m2m_2 = dict(m2m, encoder_layers=2, decoder_layers=1, scale_embedding=False, activation_function="gelu", pad_token_id=5)
    two_tables = dict(bart, pad_token_id=36, decoder_start_token_id=36, share_encoder_decoder_embeddings=False, decoder_vocab_size=41)
    return {
        "t5_1": case("T5ForConditionalGeneration", t5, length=16, plain={"scale_decoder_outputs": False}),
        "t5_2": case("T5ForConditionalGeneration", gated, untied=True, length=16, config_json=hub_t5),
        "t5_again": case("T5ForConditionalGeneration", gated, untied=True, plain={"relative_attention_max_distance": 5}),
        "mt5_1": case("MT5ForConditionalGeneration", gated, untied=True, config_json=OLD | hub),
        "mt5_2": case("MT5ForConditionalGeneration", dict(t5, feed_forward_proj="gated-silu", num_layers=2)),
        "bart_1": case("BartForConditionalGeneration", dict(bart, scale_embedding=True), plain={"scale_embedding": False, "encoder_attention_heads": 4}),
        "bart_2": case("BartForConditionalGeneration", bart_2, config_json=hub_bart),
        "bart_3": case("BartForConditionalGeneration", dict(bart, tie_word_embeddings=False, decoder_layers=1)),
        "bart_f16": case("BartForConditionalGeneration", bart, dtype=torch.float16),
        "mbart_1": case("MBartForConditionalGeneration", scaled, plain={"scale_embedding": False, "encoder_attention_heads": 4}),
        "mbart_2": case("MBartForConditionalGeneration", bart_2, config_json=hub_mbart, plain={"activation_function": "gelu"}),
        "mbart_3": case("MBartForConditionalGeneration", untied),
        "pegasus_1": case("PegasusForConditionalGeneration", dict(scaled, activation_function="relu"), plain={"scale_embedding": False, "activation_function": "gelu"}),
        "pegasus_2": case("PegasusForConditionalGeneration", bart_2, config_json=hub_pegasus, plain={"encoder_attention_heads": 4}),
        "pegasus_3": case("PegasusForConditionalGeneration", untied),
        "m2m_100_1": case("M2M100ForConditionalGeneration", m2m, plain={"scale_embedding": False, "activation_function": "gelu", "pad_token_id": 3}),
        "m2m_100_2": case("M2M100ForConditionalGeneration", m2m_2, config_json=hub_m2m, plain={"scale_embedding": True, "encoder_attention_heads": 4}),
        "m2m_100_3": case("M2M100ForConditionalGeneration", dict(m2m, tie_word_embeddings=False)),
        "marian_1": case("MarianMTModel", marian, config_json=hub_marian, plain={"scale_embedding": False, "activation_function": "gelu"}),
        "marian_2": case("MarianMTModel", two_tables),
        "marian_3": case("MarianMTModel", marian | NUMBERED, copied=[f"sentencepiece/marian/{name}" for name in MARIAN_FILES]),
    }


def images():
    vit = dict(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=15, patch_size=5,
        id2label={0: "cat", 1: "dog", 2: "tree"}, label2id={"cat": 0, "dog": 1, "tree": 2},
    )  # fmt: skip
    oblong = dict(vit, qkv_bias=False, image_size=[10, 15], hidden_act="gelu_new", num_attention_heads=4, layer_norm_eps=1e-5)
    resnet = dict(embedding_size=4, layer_type="basic", hidden_sizes=[4, 8, 16], depths=[1, 2, 1])
    bottleneck = dict(embedding_size=6, layer_type="bottleneck", hidden_sizes=[24, 48], depths=[2, 1])
    first = dict(bottleneck, downsample_in_first_stage=True, hidden_sizes=[24], depths=[2])
    in_1x1 = dict(bottleneck, downsample_in_bottleneck=True)
    swin = dict(image_size=16, patch_size=2, embed_dim=4, depths=[2, 1], num_heads=[1, 2], window_size=4, num_labels=3)
    narrow = dict(swin, image_size=[10, 14], window_size=3, num_heads=[2, 4], qkv_bias=False, mlp_ratio=1.5, hidden_act="relu", num_channels=1)
    swinv2 = dict(swin, depths=[1, 1])
    trained = dict(swin, image_size=12, depths=[2, 1], window_size=3, qkv_bias=False, mlp_ratio=1.5, num_channels=1, pretrained_window_sizes=[4, 2])
    dinov2 = dict(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, mlp_ratio=2, image_size=15, patch_size=5, layerscale_value=0.1, num_labels=3,
    )  # fmt: skip
    gated = dict(dinov2, use_swiglu_ffn=True, qkv_bias=False, use_mask_token=False, layer_norm_eps=1e-5, num_channels=1)
    with_registers = dict(dinov2, num_register_tokens=3, hidden_act="gelu_new", mlp_ratio=1)
    dinov3 = dict(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=15, patch_size=5, num_register_tokens=2, num_labels=3,
    )  # fmt: skip
    unlike = dict(
        dinov3, use_gated_mlp=True, hidden_act="silu", mlp_bias=False, proj_bias=False, query_bias=False, value_bias=False, key_bias=True,
        rope_theta=30.0, image_size=[10, 15], num_register_tokens=0, layer_norm_eps=1e-3, pos_embed_rescale=None, pos_embed_shift=0.1,
        pos_embed_jitter=1.2, num_channels=1,
    )  # fmt: skip
    beit = dict(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=15, patch_size=5, use_relative_position_bias=True,
        num_labels=3,
    )  # fmt: skip
    shared = dict(
        beit, use_relative_position_bias=False, use_shared_relative_position_bias=True, use_mean_pooling=False, layer_scale_init_value=0.0,
        hidden_act="gelu_new", layer_norm_eps=1e-5, num_channels=1, use_mask_token=True,
    )  # fmt: skip
    absolute = dict(beit, use_relative_position_bias=False, use_absolute_position_embeddings=True)
    bit = dict(embedding_size=8, hidden_sizes=[32, 64], depths=[2, 1], num_groups=2)
    hybrid = dict(bit, layer_type="bottleneck", global_padding="SAME", embedding_dynamic_padding=True, num_groups=4)
    one = dict(bit, hidden_sizes=[32], depths=[2], num_labels=2, num_channels=1)
    processor = {
        "image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 20}, "crop_pct": 1.0, "do_resize": True,
        "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4],
        "resample": 3,
    }  # fmt: skip
    vit_processor = dict(processor, image_processor_type="ViTImageProcessor", size={"height": 15, "width": 15}, resample=2)
    del vit_processor["crop_pct"]
    # As in released files: side lengths as single numbers.
    deit_processor = dict(processor, feature_extractor_type="DeiTFeatureExtractor", size=18, crop_size=15, do_center_crop=True)
    for key in ("image_processor_type", "crop_pct"):
        del deit_processor[key]
    taught = "DeiTForImageClassificationWithTeacher"
    name = "ResNetForImageClassification"
    return {
        "vit_1": case("ViTForImageClassification", vit, files={"preprocessor_config.json": vit_processor}),
        "vit_2": case("ViTForImageClassification", oblong),
        "vit_new": case("ViTForImageClassification", dict(vit, num_channels=1), form="new"),
        "deit_1": case(taught, vit, files={"preprocessor_config.json": deit_processor}),
        "deit_2": case(taught, oblong),
        "deit_new": case(taught, dict(vit, num_channels=1), form="new"),
        "swin_1": case("SwinForImageClassification", swin, files={"preprocessor_config.json": dict(vit_processor, size={"height": 16, "width": 16})}),
        "swin_2": case("SwinForImageClassification", narrow, plain={"hidden_act": "gelu"}),
        "swin_new": case("SwinForImageClassification", dict(swin, num_channels=1), form="new"),
        "swinv2_1": case("Swinv2ForImageClassification", swinv2, files={"preprocessor_config.json": dict(vit_processor, size={"height": 16, "width": 16})}),
        "swinv2_2": case("Swinv2ForImageClassification", trained, plain={"pretrained_window_sizes": [0, 0]}),
        "dinov2_1": case("Dinov2ForImageClassification", dinov2, files={"preprocessor_config.json": vit_processor}),
        "dinov2_2": case("Dinov2ForImageClassification", gated, plain={"layer_norm_eps": 0.5}),
        "dinov2_new": case("Dinov2ForImageClassification", dict(dinov2, num_channels=1), form="new"),
        "dinov2_with_registers_1": case("Dinov2WithRegistersForImageClassification", with_registers),
        "dinov2_with_registers_new": case("Dinov2WithRegistersForImageClassification", dict(dinov2, num_register_tokens=1, use_swiglu_ffn=True), form="new"),
        "dinov3_vit_1": case("DINOv3ViTModel", dinov3, files={"preprocessor_config.json": vit_processor}),
        "dinov3_vit_2": case("DINOv3ViTModel", unlike, plain={"rope_theta": 100.0, "layer_norm_eps": 0.5}),
        "dinov3_vit_new": case("DINOv3ViTModel", dict(dinov3, num_channels=1), form="new"),
        "beit_1": case("BeitForImageClassification", beit, files={"preprocessor_config.json": vit_processor}),
        "beit_2": case("BeitForImageClassification", shared, plain={"layer_norm_eps": 0.5}),
        "beit_3": case("BeitForImageClassification", absolute),
        "beit_new": case("BeitForImageClassification", dict(beit, num_channels=1), form="new"),
        "resnet_1": case(name, dict(resnet, num_labels=3), files={"preprocessor_config.json": processor}),
        "resnet_2": case(name, dict(bottleneck, num_labels=5, num_channels=1), image=[40, 24]),
        "resnet_3": case(name, dict(first, num_labels=2), image=[33, 33], plain={"downsample_in_first_stage": False}),
        "bit_1": case("BitForImageClassification", dict(bit, num_labels=3), image=[23, 24]),
        "bit_2": case("BitForImageClassification", dict(hybrid, num_labels=4), image=[22, 19]),
        "bit_3": case("BitForImageClassification", one, image=[33, 20]),
        "resnet_4": case(name, dict(in_1x1, num_labels=3), image=[37, 40], plain={"downsample_in_bottleneck": False}),
    }


def opts_and_phis():
    """OPT: pre-norm or post-norm, with and without a final norm. Phi and Phi-3: a fraction of each head is rotated."""
    opt = dict(vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, ffn_dim=20, max_position_embeddings=20)
    behind = dict(opt, num_hidden_layers=3, do_layer_norm_before=False, enable_bias=False, activation_function="gelu", tie_word_embeddings=False)
    bare = dict(opt, _remove_final_layer_norm=True, layer_norm_elementwise_affine=False)
    phi = dict(vocab_size=37, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=20)
    normed = dict(phi, num_key_value_heads=1, qk_layernorm=True, hidden_act="gelu", layer_norm_eps=1e-3, rope_parameters=rope(500.0, partial_rotary_factor=0.75))
    old = {"rope_parameters": None, "rope_theta": 500.0, "rope_scaling": {}, "partial_rotary_factor": 0.75}
    whole = {"rope_parameters": rope(partial_rotary_factor=1.0)}
    phi3 = dict(phi, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    part = dict(
        phi3, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True, hidden_act="gelu", rms_norm_eps=1e-3,
        rope_parameters=rope(500.0, partial_rotary_factor=0.75),
    )  # fmt: skip
    lists = dict(short_factor=[1.0, 1.25, 1.5], long_factor=[1.5, 3.0, 6.0], rope_theta=100.0, partial_rotary_factor=0.75)
    longer = dict(phi3, num_attention_heads=2, original_max_position_embeddings=8, rope_parameters=dict(lists, rope_type="longrope"))
    older = {
        "rope_parameters": None, "rope_theta": 100.0, "partial_rotary_factor": 0.75,
        "rope_scaling": {
            "type": "su", "short_factor": [1.0, 1.25, 1.5], "long_factor": [1.5, 3.0, 6.0], "attention_factor": 1.25,
            "original_max_position_embeddings": 8,
        },
    }  # fmt: skip
    shorter = dict(longer, rope_parameters=dict(lists, rope_type="longrope", attention_factor=1.25))
    return {
        "opt_1": case("OPTForCausalLM", opt, plain={"do_layer_norm_before": False}),
        "opt_2": case("OPTForCausalLM", behind, pad=True, plain={"activation_function": "relu"}),
        "opt_3": case("OPTForCausalLM", bare, plain={"_remove_final_layer_norm": False}),
        "opt_hub": case("OPTForCausalLM", opt, tensors=hub_opt, config_json=OLD | OPT_OLD),
        "phi_1": case("PhiForCausalLM", phi, plain=whole),
        "phi_2": case("PhiForCausalLM", normed, pad=True, config_json=OLD | old, plain={"qk_layernorm": False, "partial_rotary_factor": 1.0}),
        "phi3_1": case("Phi3ForCausalLM", dict(phi3, sliding_window=4), length=13, plain={"sliding_window": None}),
        "phi3_2": case("Phi3ForCausalLM", part, pad=True, config_json=OLD | old | {"attention_bias": False}, plain={"partial_rotary_factor": 1.0}),
        "phi3_3": case("Phi3ForCausalLM", longer, length=13, pad=True, plain={"original_max_position_embeddings": 16, "max_position_embeddings": 128}),
        "phi3_4": case("Phi3ForCausalLM", shorter, length=8, config_json=OLD | older, plain={"original_max_position_embeddings": 7}),
    }


# As in released files, whose tensors may lack the body's prefix; some have a copy of the tied embedding table.
OPT_OLD = {
    "activation_dropout": 0.0, "prefix": "</s>", "enable_bias": None, "layer_norm_elementwise_affine": None, "tie_word_embeddings": None,
    "_remove_final_layer_norm": None,
}  # fmt: skip


def hub_opt(tensors):
    for name in list(tensors):
        tensors[name.removeprefix("model.")] = tensors.pop(name)
    tensors["lm_head.weight"] = tensors["decoder.embed_tokens.weight"].clone()
    tensors["decoder.version"] = torch.tensor([3.0])


def experts():
    shape = dict(
        vocab_size=37, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=1, num_local_experts=3, num_experts_per_tok=2, max_position_embeddings=32,
    )  # fmt: skip
    old = OLD | {"rope_parameters": None, "rope_theta": 1e6}
    tied = dict(shape, num_local_experts=4, num_experts_per_tok=3, tie_word_embeddings=True, sliding_window=4, rms_norm_eps=1e-3)
    top_2 = {"sliding_window": None, "num_experts_per_tok": 2}
    olmoe = dict(
        vocab_size=37, hidden_size=16, intermediate_size=8, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        num_experts=4, num_experts_per_tok=2, max_position_embeddings=32, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    shares = dict(olmoe, norm_topk_prob=True, num_experts_per_tok=3, attention_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-3, rope_parameters=rope(500.0))
    return {
        "mixtral_1": case("MixtralForCausalLM", dict(shape, head_dim=6), config_json=old),
        "mixtral_2": case("MixtralForCausalLM", dict(tied, num_key_value_heads=2), length=13, pad=True, plain=top_2),
        "mixtral_new": case("MixtralForCausalLM", shape, form="new"),
        "olmoe_1": case("OlmoeForCausalLM", olmoe, plain={"norm_topk_prob": True}),
        "olmoe_2": case("OlmoeForCausalLM", shares, pad=True, plain={"norm_topk_prob": False}),
    }


def sinks():
    """gpt-oss: windows in every second layer or none, positions stretched (YaRN without truncation) or not, clamped branches."""
    stretched = dict(rope_type="yarn", factor=4.0, beta_fast=4.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=128, rope_theta=20.0)
    shape = dict(
        vocab_size=37, hidden_size=16, intermediate_size=12, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4, max_position_embeddings=512, rope_parameters=stretched,
    )  # fmt: skip
    odd = dict(
        shape, attention_bias=False, swiglu_limit=0.5, tie_word_embeddings=True, num_experts_per_tok=3,
        rms_norm_eps=1e-3, rope_parameters={"rope_type": "default", "rope_theta": 100.0}, layer_types=["full_attention"] * 2,
    )  # fmt: skip
    old = {
        "rope_parameters": None, "rope_theta": 20.0, "experts_per_token": 2, "initial_context_length": 128, "swiglu_limit": 7.0,
        "layer_types": ["sliding_attention", "full_attention"], "router_aux_loss_coef": 0.9, "output_router_logits": False,
        "rope_scaling": {key: value for key, value in stretched.items() if key != "rope_theta"},
    }  # fmt: skip
    named = dict(id2label={0: "good", 1: "bad"}, label2id={"good": 0, "bad": 1}, pad_token_id=2)
    name = "GptOssForCausalLM"
    return {
        "gpt_oss_1": case(name, shape, length=13, plain={"rope_parameters": dict(stretched, truncate=True)}),
        "gpt_oss_2": case(name, odd, length=13, pad=True, plain={"swiglu_limit": 7.0}),
        "gpt_oss_hub": case(name, shape, length=13, config_json=OLD | old),
        "gpt_oss_classes": case("GptOssForSequenceClassification", dict(shape, **named), pad=True),
    }


def deltas():
    """Qwen3-Next: one attention layer after three gated delta layers or in another order, experts in all layers or also dense layers."""
    shape = dict(
        vocab_size=37, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=3, linear_value_head_dim=4, linear_conv_kernel_dim=3,
        moe_intermediate_size=4, shared_expert_intermediate_size=8, num_experts=3, num_experts_per_tok=2, max_position_embeddings=32,
        layer_types=["linear_attention", "full_attention"],
    )  # fmt: skip
    odd = dict(
        shape, num_hidden_layers=3, layer_types=["full_attention", "linear_attention", "linear_attention"], mlp_only_layers=[1], attention_bias=True,
        tie_word_embeddings=True, norm_topk_prob=False, rms_norm_eps=1e-3, linear_num_key_heads=4, shared_expert_intermediate_size=4,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5},
    )  # fmt: skip
    old = {
        "rope_parameters": None, "rope_theta": 100.0, "rope_scaling": None, "partial_rotary_factor": 0.5, "full_attention_interval": 4,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "layer_types": None, "output_router_logits": False, "router_aux_loss_coef": 0.001,
    }  # fmt: skip
    hub = dict(shape, num_hidden_layers=4, layer_types=None, rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5})
    named = dict(id2label={0: "good", 1: "bad"}, label2id={"good": 0, "bad": 1}, pad_token_id=2)
    name = "Qwen3NextForCausalLM"
    return {
        "qwen3_next_1": case(name, shape, length=13),
        "qwen3_next_2": case(name, odd, length=13, plain={"norm_topk_prob": True}),
        "qwen3_next_hub": case(name, hub, length=13, config_json=OLD | old),
        "qwen3_next_new": case(name, shape, form="new"),
        "qwen3_next_classes": case("Qwen3NextForSequenceClassification", dict(shape, **named), length=7),
    }


def latents():
    """DeepSeek-V2 and V3: a dense first layer or none, experts in groups or not, values narrower and wider than keys."""
    shape = dict(
        vocab_size=37, hidden_size=16, intermediate_size=20, moe_intermediate_size=4, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, n_routed_experts=6, num_experts_per_tok=3, n_shared_experts=2, n_group=3, topk_group=2,
        first_k_dense_replace=1, kv_lora_rank=6, q_lora_rank=7, qk_rope_head_dim=4, qk_nope_head_dim=3, v_head_dim=5,
        max_position_embeddings=32,
    )  # fmt: skip
    stretched = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8, "rope_theta": 100.0, "mscale": 0.5}
    yarn = dict(shape, rope_parameters=dict(stretched, mscale_all_dim=1.5))
    odd = dict(
        shape, q_lora_rank=None, n_group=1, topk_group=1, n_shared_experts=1, first_k_dense_replace=0,
        attention_bias=True, rope_interleave=False, norm_topk_prob=False, v_head_dim=9, tie_word_embeddings=True, rms_norm_eps=1e-3,
        routed_scaling_factor=1.5, hidden_act="gelu", moe_intermediate_size=12,
    )  # fmt: skip
    dense = dict(shape, first_k_dense_replace=2)
    named = dict(id2label={0: "good", 1: "bad"}, label2id={"good": 0, "bad": 1}, pad_token_id=2)
    old = {
        "rope_parameters": None, "rope_theta": 100.0, "ep_size": 1, "moe_layer_freq": 1, "scoring_func": "sigmoid", "seq_aux": True,
        "topk_method": "noaux_tc", "aux_loss_alpha": 0.001,
        "rope_scaling": {
            "type": "yarn", "factor": 4, "original_max_position_embeddings": 8, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
    }  # fmt: skip
    hub = dict(shape, rope_parameters=dict(stretched, mscale=1.0, mscale_all_dim=1.0))
    name = "DeepseekV3ForCausalLM"
    # DeepSeek-V2: groups ranked by their best expert, or none; queries without a latent.
    # The class rotates pairs of neighbouring elements, so both parts of a head have even widths.
    second = {key: value for key, value in shape.items() if key not in ("n_group", "topk_group")} | {"qk_nope_head_dim": 2}
    grouped = dict(second, topk_method="group_limited_greedy", n_group=3, topk_group=2, routed_scaling_factor=1.5, attention_bias=True)
    greedy = dict(second, q_lora_rank=None, first_k_dense_replace=0, n_shared_experts=1, v_head_dim=9, rms_norm_eps=1e-3, rope_parameters=dict(stretched, mscale=1.0, mscale_all_dim=1.0))
    lite = dict(second, n_group=1, topk_group=1, rope_parameters=dict(stretched, mscale=1.0, mscale_all_dim=1.0))
    old_second = dict(old, scoring_func="softmax", topk_method="greedy", norm_topk_prob=False)
    two = "DeepseekV2ForCausalLM"
    return {
        "deepseek_v2_1": case(two, grouped, length=13, plain={"topk_method": "greedy"}),
        "deepseek_v2_2": case(two, greedy, length=13, pad=True, plain={"rope_parameters": stretched}),
        "deepseek_v2_hub": case(two, lite, length=13, config_json=OLD | old_second),
        "deepseek_v2_classes": case("DeepseekV2ForSequenceClassification", dict(second, **named), pad=True),
        "deepseek_v3_1": case(name, yarn, length=13, plain={"rope_parameters": stretched}),
        "deepseek_v3_2": case(name, odd, length=13, pad=True, plain={"norm_topk_prob": True}),
        "deepseek_v3_3": case(name, dense, pad=True),
        "deepseek_v3_new": case(name, shape, form="new"),
        "deepseek_v3_hub": case(name, hub, length=13, config_json=OLD | old),
        "deepseek_v3_classes": case("DeepseekV3ForSequenceClassification", dict(shape, **named), pad=True),
    }


def windows():
    """Windows that differ between layers and do not divide the length; several global tokens, only the class token, or none."""
    longformer = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, type_vocab_size=1,
        max_position_embeddings=40, attention_window=[4, 8],
    )  # fmt: skip
    labelled = dict(longformer, id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    labelled |= dict(type_vocab_size=2, hidden_act="relu", pad_token_id=3, num_attention_heads=4, attention_window=4)
    led = dict(
        vocab_size=37, d_model=12, encoder_layers=2, decoder_layers=1, encoder_ffn_dim=16, decoder_ffn_dim=20,
        encoder_attention_heads=2, decoder_attention_heads=4, max_encoder_position_embeddings=24,
        max_decoder_position_embeddings=20, attention_window=[4, 6],
    )  # fmt: skip
    other = dict(led, encoder_layers=1, attention_window=4, activation_function="relu", max_decoder_position_embeddings=24)
    other |= dict(encoder_attention_heads=4, encoder_ffn_dim=24, tie_word_embeddings=False)
    return {
        "longformer_1": case(
            "LongformerForMaskedLM", dict(longformer, layer_norm_eps=1e-5), length=21, globals=[[0, 5, 20], [2]],
            plain={"attention_window": [8, 4]},
        ),  # fmt: skip
        "longformer_2": case("LongformerForSequenceClassification", labelled, length=11, plain={"attention_window": 6}),
        "longformer_3": case(
            "LongformerForTokenClassification", dict(longformer, **TAGS), length=21, globals=[[0, 5], [2]],
            plain={"attention_window": [8, 4]},
        ),  # fmt: skip
        "led_1": case("LEDForConditionalGeneration", led, length=19, globals=[[0, 7], [3]], plain={"attention_window": [6, 4]}),
        "led_2": case("LEDForConditionalGeneration", other, length=14, plain={"attention_window": 6}),
    }


def states():
    """Mamba, Mamba-2 and RWKV. RWKV's class keeps states in tensors as wide as the stream; with another width it runs without states."""
    mamba = dict(vocab_size=37, hidden_size=16, num_hidden_layers=3, state_size=5, time_step_rank=3)
    odd = dict(
        mamba, num_hidden_layers=2, expand=3, conv_kernel=3, time_step_rank="auto", use_bias=True, use_conv_bias=False,
        layer_norm_epsilon=1e-2, tie_word_embeddings=False,
    )  # fmt: skip
    dual = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=3, num_heads=4, head_dim=8, state_size=5, n_groups=2, chunk_size=8,
        tie_word_embeddings=True,
    )  # fmt: skip
    odd_dual = dict(
        dual, num_hidden_layers=2, expand=3, num_heads=6, n_groups=3, conv_kernel=3, use_bias=True, use_conv_bias=False,
        layer_norm_epsilon=1e-2, time_step_limit=(0.05, 0.8), tie_word_embeddings=False,
    )  # fmt: skip
    rwkv = dict(vocab_size=37, hidden_size=16, num_hidden_layers=3, intermediate_size=24, context_length=32, rescale_every=0)
    halved = dict(rwkv, attention_hidden_size=20, intermediate_size=None, rescale_every=2, use_cache=False)
    return {
        "mamba_1": case("MambaForCausalLM", mamba, length=21),
        "mamba_2": case("MambaForCausalLM", odd, length=21, pad=True, plain={"layer_norm_epsilon": 1e-5}),
        "mamba_hub": case("MambaForCausalLM", mamba, tensors=hub_mamba, config_json=OLD | MAMBA_OLD),
        "mamba2_1": case("Mamba2ForCausalLM", dual, length=21),
        "mamba2_2": case("Mamba2ForCausalLM", odd_dual, length=21, pad=True, plain={"layer_norm_epsilon": 1e-5}),
        "mamba2_hub": case("Mamba2ForCausalLM", dual, tensors=hub_mamba, config_json=OLD | MAMBA2_OLD),
        "rwkv_1": case("RwkvForCausalLM", rwkv, length=21),
        "rwkv_2": case("RwkvForCausalLM", halved, length=21, config_json=OLD),
    }


# As in the first converted files: also the original's keys, and none of later versions.
MAMBA_OLD = {
    "d_model": 16, "d_inner": 32, "n_layer": 3, "ssm_cfg": {}, "rms_norm": True, "fused_add_norm": True, "pad_vocab_size_multiple": 8,
    "tie_word_embeddings": None, "use_mambapy": None, "use_associative_scan": None,
}  # fmt: skip


# As in version 4 of transformers and in the authors' own file: infinity, which JSON does not have.
MAMBA2_OLD = {"time_step_limit": [0.0, float("inf")], "norm_before_gate": True, "rms_norm": True}


def hub_mamba(tensors):
    tensors["lm_head.weight"] = tensors["backbone.embeddings.weight"].clone()


def roberta_by_other_names():
    """XLM-RoBERTa and CamemBERT."""
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20, type_vocab_size=1, layer_norm_eps=1e-5,
    )  # fmt: skip
    named = dict(id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2})
    return {
        "xlm_roberta_1": case("XLMRobertaForMaskedLM", dict(shape, num_attention_heads=4), plain={"num_attention_heads": 2}),
        "camembert_1": case("CamembertForMaskedLM", dict(shape, hidden_act="relu"), plain={"hidden_act": "gelu"}),
        "camembert_2": case("CamembertForSequenceClassification", dict(shape, **named, pad_token_id=3), plain={"pad_token_id": 1}),
    }


# Classes that have a pooler by default.
UNPOOLED = {"add_pooling_layer": False}


def bodies():
    """Classes without a head."""
    shape = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=20,
    )  # fmt: skip
    distilled = dict(vocab_size=37, dim=16, n_layers=2, n_heads=4, hidden_dim=24, max_position_embeddings=20, activation="relu")
    roberta = dict(shape, type_vocab_size=1, layer_norm_eps=1e-5)
    blocks = dict(block_size=3, num_random_blocks=2, use_bias=False, rescale_embeddings=True, hidden_act="relu", type_vocab_size=3)
    shared = dict(embedding_size=10, num_hidden_layers=2, num_hidden_groups=1, intermediate_size=20)
    relative = dict(shape, relative_attention=True, position_biased_input=False, max_relative_positions=4)
    buckets = dict(
        relative, pos_att_type=["c2p", "p2c"], share_att_key=True, position_buckets=4, max_relative_positions=8, norm_rel_ebd="layer_norm",
    )  # fmt: skip
    windows = dict(shape, type_vocab_size=1, max_position_embeddings=40, attention_window=[4, 8])
    return {
        "bert_body": case("BertModel", dict(shape, hidden_act="relu", layer_norm_eps=1e-5), plain={"hidden_act": "gelu"}),
        "bert_unnamed": case("BertModel", shape, arguments=UNPOOLED, config_json=OLD | {"architectures": None}),
        "bert_sentences": case(
            "BertModel", dict(shape, num_attention_heads=4), arguments=UNPOOLED, config_json=OLD | {"architectures": ["BertForMaskedLM"]},
            files=EARLY_SENTENCES,
        ),  # fmt: skip
        "roberta_body": case(
            "RobertaModel", dict(roberta, pad_token_id=3, num_attention_heads=4), arguments=UNPOOLED, plain={"pad_token_id": 1}
        ),
        "roberta_sentences": case("RobertaModel", roberta, files=SENTENCES),
        "xlm_roberta_body": case("XLMRobertaModel", dict(roberta, hidden_act="relu"), arguments=UNPOOLED, plain={"hidden_act": "gelu"}),
        "distilbert_body": case("DistilBertModel", distilled, length=13, plain={"activation": "gelu", "n_heads": 2}),
        "albert_body": case("AlbertModel", dict(shape, **shared), plain={"num_hidden_layers": 3}),
        "electra_body": case("ElectraModel", dict(shape, embedding_size=10, hidden_act="relu"), plain={"hidden_act": "gelu"}),
        "deberta_body": case("DebertaModel", dict(relative, pos_att_type=["c2p", "p2c"]), plain={"pos_att_type": ["p2c"]}),
        "deberta_v2_body": case("DebertaV2Model", buckets, length=13, plain={"max_relative_positions": 12, "norm_rel_ebd": "none"}),
        "roformer_body": case("RoFormerModel", dict(shape, embedding_size=10, rotary_value=True), length=13, plain={"rotary_value": False}),
        "longformer_body": case("LongformerModel", windows, length=21, arguments=UNPOOLED, plain={"attention_window": [8, 4]}),
        "big_bird_body": case(
            "BigBirdModel", dict(shape, **blocks), length=13, arguments=UNPOOLED, plain={"rescale_embeddings": False, "hidden_act": "gelu"}
        ),
    }  # fmt: skip


# The files of sentence-transformers before version 5, and those that 6.2.0 writes.
EARLY_SENTENCES = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ],
    "1_Pooling/config.json": {
        "word_embedding_dimension": 16, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False,
    },
    "sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": False},
    "config_sentence_transformers.json": {"__version__": {"sentence_transformers": "2.0.0", "transformers": "4.6.1", "pytorch": "1.8.1"}},
}  # fmt: skip
SENTENCES = {
    "modules.json": [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"},
    ],
    "1_Pooling/config.json": {"embedding_dimension": 16, "pooling_mode": "cls", "include_prompt": True},
    "sentence_bert_config.json": {
        "transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    },
    "config_sentence_transformers.json": {
        "__version__": {"pytorch": "2.15.0", "sentence_transformers": "6.2.0", "transformers": "5.23.0"},
        "default_prompt_name": None, "model_type": "SentenceTransformer", "prompts": {"document": "", "query": ""},
        "similarity_fn_name": "cosine",
    },
}  # fmt: skip


def deciders():
    """Decoders that predict classes or a number from a text's last token, and two that give embeddings."""
    named = dict(id2label={0: "good", 1: "bad", 2: "neither"}, label2id={"good": 0, "bad": 1, "neither": 2}, pad_token_id=2)
    gpt = dict(vocab_size=37, n_embd=16, n_layer=2, n_head=2, n_positions=20, bos_token_id=0, eos_token_id=0)
    llama = dict(
        vocab_size=37, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=24,
        max_position_embeddings=32,
    )  # fmt: skip
    neo = dict(
        vocab_size=37, hidden_size=16, num_layers=2, num_heads=2, max_position_embeddings=20, window_size=4,
        attention_types=[[["global", "local"], 1]], bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    falcon = dict(llama, bos_token_id=0, eos_token_id=0)
    for key in ("num_key_value_heads", "intermediate_size"):
        falcon.pop(key)
    few = dict(num_local_experts=3, num_experts_per_tok=2)
    ends = {
        "modules.json": EARLY_SENTENCES["modules.json"],
        "1_Pooling/config.json": {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": False, "pooling_mode_lasttoken": True},
    }
    means = {"modules.json": SENTENCES["modules.json"], "1_Pooling/config.json": {"embedding_dimension": 16, "pooling_mode": "mean"}}
    return {
        "gpt2_classes": case("GPT2ForSequenceClassification", dict(gpt, **named), pad=True),
        "gpt2_sentences": case("GPT2Model", dict(gpt, pad_token_id=2), pad=True, files=means, config_json={"architectures": ["GPT2LMHeadModel"]}),
        "openai_gpt_classes": case("OpenAIGPTForSequenceClassification", dict(gpt, **named), pad=True),
        "gpt_neox_classes": case("GPTNeoXForSequenceClassification", dict({k: v for k, v in llama.items() if k != "num_key_value_heads"}, **named), pad=True),
        "gpt_neo_classes": case("GPTNeoForSequenceClassification", dict(neo, **named), length=13, pad=True),
        "gptj_classes": case("GPTJForSequenceClassification", dict(gpt, rotary_dim=4, tie_word_embeddings=False, **named), pad=True),
        "llama_classes": case("LlamaForSequenceClassification", dict(llama, **named), length=13, pad=True),
        "llama_several": case("LlamaForSequenceClassification", dict(llama, problem_type="multi_label_classification", **named), pad=True),
        "llama_number": case("LlamaForSequenceClassification", dict(llama, num_labels=1, pad_token_id=2), pad=True),
        "mistral_classes": case("MistralForSequenceClassification", dict(llama, sliding_window=4, **named), length=13, pad=True),
        "mixtral_classes": case("MixtralForSequenceClassification", dict(llama, **few, **named), pad=True),
        "qwen2_classes": case("Qwen2ForSequenceClassification", dict(llama, **named), pad=True),
        "qwen3_classes": case("Qwen3ForSequenceClassification", dict(llama, head_dim=8, **named), pad=True),
        "olmo_classes": case("OlmoForSequenceClassification", dict(llama, **named), pad=True),
        "diffllama_classes": case("DiffLlamaForSequenceClassification", dict(llama, num_key_value_heads=2, **named), pad=True),
        "olmo2_classes": case("Olmo2ForSequenceClassification", dict(llama, **named), pad=True),
        "opt_classes": case("OPTForSequenceClassification", dict({k: v for k, v in llama.items() if k not in ("num_key_value_heads", "intermediate_size")}, ffn_dim=20, **named), pad=True),
        "phi_classes": case("PhiForSequenceClassification", dict(llama, **named), pad=True),
        "phi3_classes": case("Phi3ForSequenceClassification", dict(llama, bos_token_id=0, eos_token_id=0, **named), pad=True),
        "stablelm_classes": case("StableLmForSequenceClassification", dict(llama, use_parallel_residual=True, **named), pad=True),
        "starcoder2_classes": case("Starcoder2ForSequenceClassification", dict(llama, bos_token_id=0, eos_token_id=0, **named), pad=True),
        "smollm3_classes": case("SmolLM3ForSequenceClassification", dict(llama, **named), pad=True),
        "gemma_classes": case("GemmaForSequenceClassification", dict(llama, head_dim=8, **named), pad=True),
        "gemma2_classes": case("Gemma2ForSequenceClassification", dict(llama, head_dim=8, query_pre_attn_scalar=8, sliding_window=4, **named), length=13, pad=True),
        "qwen3_sentences": case(
            "Qwen3Model", dict(llama, head_dim=8, tie_word_embeddings=True, pad_token_id=2), pad=True, files=ends,
            config_json=OLD | {"architectures": ["Qwen3ForCausalLM"]},
        ),  # fmt: skip
        "falcon_classes": case("FalconForSequenceClassification", dict(falcon, **named), pad=True),
        "bloom_classes": case("BloomForSequenceClassification", dict(vocab_size=37, hidden_size=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0, **named), pad=True),
        "mpt_classes": case("MptForSequenceClassification", dict(vocab_size=37, d_model=16, n_layers=2, n_heads=2, max_seq_len=20, **named), pad=True),
    }  # fmt: skip


def clip_tokenizer():
    """The files of a CLIPTokenizer of letters and digits, alone or at the end of a word, and a few merges."""
    alone = list("abcdefghijklmnopqrstuvwxyz0123456789.")
    merges = [("a", "t</w>"), ("c", "at</w>"), ("p", "h"), ("ph", "o"), ("o", "f</w>"), ("t", "o</w>"), ("pho", "to</w>")]
    tokens = alone + [c + "</w>" for c in alone] + ["".join(pair) for pair in merges] + ["<|startoftext|>", "<|endoftext|>"]
    vocab = {token: number for number, token in enumerate(tokens)}
    with tempfile.TemporaryDirectory() as folder:
        transformers.CLIPTokenizer(vocab=vocab, merges=merges, model_max_length=12).save_pretrained(folder)
        files = {}
        for name in ["tokenizer.json", "tokenizer_config.json"]:
            with open(os.path.join(folder, name)) as file:
                files[name] = json.load(file)
    return files, len(tokens)


def compared():
    """CLIP: the end of a text found by its id, or by the largest id as in files of the first versions, which also have older keys."""
    files, vocab = clip_tokenizer()
    text = dict(
        vocab_size=vocab, hidden_size=16, intermediate_size=20, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=12,
        bos_token_id=vocab - 2, eos_token_id=vocab - 1, pad_token_id=vocab - 1,
    )  # fmt: skip
    vision = dict(hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3, image_size=12, patch_size=4)
    processor = {
        "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 12}, "crop_size": {"height": 12, "width": 12},
        "do_resize": True, "do_center_crop": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True,
        "image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3,
        "do_convert_rgb": True,
    }  # fmt: skip
    odd = dict(text, vocab_size=37, num_attention_heads=4, hidden_act="gelu", layer_norm_eps=1e-3, bos_token_id=0, eos_token_id=2, pad_token_id=1)
    grey = dict(vision, num_channels=1, patch_size=6, num_hidden_layers=1, hidden_act="gelu_new", layer_norm_eps=1e-4)
    older = dict(text_config_dict=dict(odd, eos_token_id=30), vision_config_dict=grey, text_config={}, vision_config={})
    name = "CLIPModel"
    return {
        "clip_1": case(name, dict(text_config=text, vision_config=vision, projection_dim=10), files=dict(files, **{"preprocessor_config.json": processor})),
        "clip_2": case(name, dict(text_config=odd, vision_config=grey, projection_dim=8, logit_scale_init_value=1.5)),
        "clip_3": case(name, dict(text_config=dict(odd, eos_token_id=30), vision_config=grey, projection_dim=8), config_json=older),
    } | paired()


def paired():
    """SigLIP: texts of one length, in which padding is read; the second model's towers have other widths, layers, norms and ids."""
    shape = dict(hidden_size=12, intermediate_size=20, num_hidden_layers=2, num_attention_heads=3)
    text = dict(shape, vocab_size=37, max_position_embeddings=9, bos_token_id=0, eos_token_id=1)
    odd = dict(
        text, hidden_size=16, intermediate_size=18, num_hidden_layers=1, num_attention_heads=4, hidden_act="gelu", layer_norm_eps=1e-3,
        max_position_embeddings=7, pad_token_id=3, projection_size=12,
    )  # fmt: skip
    vision = dict(shape, image_size=12, patch_size=4)
    grey = dict(vision, num_channels=1, patch_size=6, num_hidden_layers=1, hidden_act="gelu_new", layer_norm_eps=1e-4)
    processor = {
        "image_processor_type": "SiglipImageProcessor", "size": {"height": 12, "width": 12}, "do_resize": True, "resample": 3,
        "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
        "do_convert_rgb": None, "processor_class": "SiglipProcessor",
    }  # fmt: skip
    return {
        "siglip_1": case("SiglipModel", dict(text_config=text, vision_config=vision), files={"preprocessor_config.json": processor}),
        "siglip_2": case("SiglipModel", dict(text_config=odd, vision_config=grey)),
    }


# Tokens after the pieces in a WhisperTokenizer's vocabulary.
WHISPER_TOKENS = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]


def whisper_tokenizer():
    """The files of a WhisperTokenizer of bytes, a few merges, two languages and two time stamps, as in released files."""
    printed = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printed]
    letters = [chr(byte) for byte in printed] + [chr(256 + number) for number in range(len(others))]
    merges = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("r", "e"), ("Ġ", "a")]
    vocab = {token: number for number, token in enumerate(letters + ["".join(pair) for pair in merges])}
    tokenizer = transformers.WhisperTokenizer(vocab=vocab, merges=merges, additional_special_tokens=WHISPER_TOKENS[1:])
    tokenizer.add_tokens(["<|0.00|>", "<|0.02|>"])
    tokenizer.set_prefix_tokens()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        files = {}
        for name in ["tokenizer.json", "tokenizer_config.json"]:
            with open(os.path.join(folder, name)) as file:
                files[name] = json.load(file)
    return files, {name: tokenizer.convert_tokens_to_ids(name) for name in WHISPER_TOKENS}, len(tokenizer)


def spoken():
    """Whisper: plain; with different heads, widths and depths in encoder and decoder and an untied LM head; and with the files of
    a model of two languages, whose generation settings leave the language open."""
    files, ids, vocab = whisper_tokenizer()
    end, start = ids["<|endoftext|>"], ids["<|startoftranscript|>"]
    shape = dict(
        num_mel_bins=5, d_model=12, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=20, decoder_ffn_dim=20, max_source_positions=7, max_target_positions=14,
    )  # fmt: skip
    marks = dict(pad_token_id=end, bos_token_id=end, eos_token_id=end, decoder_start_token_id=start)
    small = dict(vocab_size=37, pad_token_id=1, bos_token_id=1, eos_token_id=1, decoder_start_token_id=2)
    processor = {
        "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 5, "sampling_rate": 16000, "hop_length": 160, "chunk_length": 1,
        "n_fft": 400, "n_samples": 16000, "nb_max_frames": 100, "padding_side": "right", "padding_value": 0.0,
        "return_attention_mask": False, "processor_class": "WhisperProcessor",
    }  # fmt: skip
    generation = dict(
        marks, alignment_heads=[[1, 0]], is_multilingual=True, forced_decoder_ids=[[1, None], [2, ids["<|transcribe|>"]]],
        lang_to_id={name: ids[name] for name in ("<|en|>", "<|de|>")},
        task_to_id={name: ids[f"<|{name}|>"] for name in ("transcribe", "translate")},
        no_timestamps_token_id=ids["<|notimestamps|>"], max_initial_timestamp_index=50, max_length=14, return_timestamps=False,
    )  # fmt: skip
    sides = dict(
        small, encoder_layers=1, decoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=16, decoder_ffn_dim=24,
        activation_function="relu", tie_word_embeddings=False, num_mel_bins=4,
    )  # fmt: skip
    name = "WhisperForConditionalGeneration"
    return {
        "whisper_1": case(name, dict(shape, **small), config_json=OLD | {"forced_decoder_ids": [[1, 5]], "_num_labels": 3}),
        "whisper_2": case(name, dict(shape, **sides), plain={"activation_function": "gelu", "encoder_attention_heads": 2}),
        "whisper_hub": case(
            name, dict(shape, **marks, vocab_size=vocab, max_source_positions=50),
            files=dict(files, **{"preprocessor_config.json": processor, "generation_config.json": generation}),
        ),
    }  # fmt: skip


CASES = cases()

# Folders that also have the gradients of the loss.
WITH_GRADIENTS = [
    "roformer_4", "distilbert_1", "distilbert_2", "electra_1", "electra_2", "electra_3", "t5_1", "t5_2", "mt5_1", "mt5_2", "bart_1",
    "gpt_neo_1", "longformer_1", "led_1", "big_bird_2", "bert_5", "bert_6", "roberta_3", "roberta_4", "roformer_7", "albert_5", "albert_6",
    "deberta_4", "deberta_v2_4", "distilbert_4", "distilbert_5", "electra_6", "electra_7", "longformer_3", "big_bird_4",
    "bert_7", "roberta_5", "roformer_8", "albert_7", "deberta_5", "deberta_v2_5", "distilbert_6", "electra_8",
    "modernbert_1", "modernbert_2", "modernbert_3", "modernbert_4", "modernbert_5", "modernbert_6", "modernbert_several",
    "olmo_1", "diffllama_1", "diffllama_2", "deepseek_v2_1", "mpt_2",
    "starcoder2_1", "starcoder2_2", "stablelm_1", "stablelm_2", "mbart_1", "pegasus_1", "m2m_100_1",
    "opt_1", "opt_2", "phi_1", "phi_2", "phi3_1", "phi3_2", "phi3_3", "phi3_4", "llama_3", "olmoe_1", "olmoe_2",
    "olmo2_2", "smollm3_1", "gemma2_1", "gemma3_1",
    "mamba_1", "mamba2_1", "mamba2_2", "rwkv_1", "deepseek_v3_1", "deepseek_v3_2", "gpt_oss_1", "gpt_oss_2", "qwen3_next_1", "qwen3_next_2", "gpt2_classes", "llama_classes", "llama_number", "bert_several", "llama_several", "whisper_1", "whisper_2",
    "fnet_1", "fnet_2", "fnet_5", "fnet_6", "xlnet_2", "xlnet_4", "xlnet_6",
]  # fmt: skip
