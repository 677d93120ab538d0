"""Oracle of Whisper: whisper.safetensors, whisper_sides.safetensors.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==5.24.0 safetensors
    python make_whisper.py

transformers' `WhisperForConditionalGeneration`, tiny and random, in float32, attention eager, without dropout. The encoder's sinusoids
are those of the class; all other parameters are redrawn, so that every bias, gain and table has an effect.

    whisper        encoder and decoder of equal sizes, the head tied to the embedding table
    whisper_sides  encoder and decoder with different heads, widths and depths, ReLU, an untied head

`input_features` [3, n_mels, frames], `decoder_input_ids` [3, 6], `labels` [3, 6] with -100 at the ends of two rows; `encoder`, the last
hidden states of the encoder, `logits`, `loss` (the class's, the mean cross-entropy of `labels`), and `weight.` and `grad.` of all
trainable parameters under the class's names; config.json in the metadata.
"""

import torch
import transformers as hf
from shared import MADE_WITH, begin, gradients, redraw, seeded, weights, write

MADE_WITH["transformers"] = "5.24.0"
VOCAB, PAD = 37, 36
SHAPE = dict(
    vocab_size=VOCAB, num_mel_bins=5, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_dim=24, decoder_ffn_dim=24, max_source_positions=9, max_target_positions=8, pad_token_id=PAD, bos_token_id=0, eos_token_id=1,
    decoder_start_token_id=2, dropout=0.0, attn_implementation="eager",
)  # fmt: skip
CASES = {
    "whisper": SHAPE,
    "whisper_sides": dict(
        SHAPE, encoder_layers=1, decoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=20, decoder_ffn_dim=28,
        activation_function="relu", tie_word_embeddings=False, num_mel_bins=4, max_source_positions=7,
    ),
}  # fmt: skip


def main():
    begin(torch, hf)
    for case, keys in CASES.items():
        generator = seeded(case)
        config = hf.WhisperConfig(**keys)
        model = hf.WhisperForConditionalGeneration(config).eval()
        redraw(model, generator)
        for module in model.modules():
            if isinstance(module, torch.nn.Embedding):
                # Gradients of the padding token are kept as those of other tokens.
                module.padding_idx = None
        features = torch.randn([3, config.num_mel_bins, 2 * config.max_source_positions], generator=generator)
        ids = (3 + 7 * torch.arange(18)).remainder(VOCAB - 1).reshape(3, 6)
        labels = (5 + 11 * torch.arange(18)).remainder(VOCAB - 1).reshape(3, 6)
        labels[1, 4:] = -100
        labels[2, 2:] = -100
        found = model(input_features=features, decoder_input_ids=ids, labels=labels)
        found.loss.backward()
        tensors = {
            "input_features": features, "decoder_input_ids": ids, "labels": labels, "encoder": found.encoder_last_hidden_state,
            "logits": found.logits, "loss": found.loss.reshape(1),
        }  # fmt: skip
        tensors |= weights(model) | gradients(model)
        write(case, tensors, config.to_dict() | {"architectures": ["WhisperForConditionalGeneration"]})


if __name__ == "__main__":
    main()
