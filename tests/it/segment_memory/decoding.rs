//! Decoding with memory: token by token it equals segments of one token, at constant cost, beyond any context.

use super::{VOCAB, at_once, built, config, in_segments, of, remembering, schemes, tokens};
use crate::contracts::{ids, near};
use crate::oracle::values;
use formwork::generate::{Sampling, TextGenerator};
use formwork::model::LanguageModel;
use formwork::model::decoder::{Decoder, DecoderInput};
use formwork::nn::attention::LayerCache;
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;

/// Returns the logits of a text that is decoded in parts of these lengths, and the maximum size of its caches.
fn decoded(
    model: &Decoder,
    tokens: &[i32],
    lengths: impl Iterator<Item = usize>,
) -> (Vec<f32>, usize) {
    let mut state = model.empty_state(StateUse::Decoding);
    let (mut all, mut from, mut most) = (Vec::new(), 0, 0);
    for length in lengths {
        if from == tokens.len() {
            break;
        }
        let part = &tokens[from..tokens.len().min(from + length)];
        let pass = Pass::evaluation();
        let hidden = model.forward(DecoderInput::new(ids(part, 1)), Some(&mut state), &pass);
        all.extend(values(model.logits(hidden)));
        from += part.len();
        for block in &state.layers {
            if let Some(cache) = block.own.decoding_state::<LayerCache>() {
                most = most.max(cache.capacity());
            }
        }
    }
    (all, most)
}

#[test]
fn decoding_is_reading_segments_of_one_token() {
    let tokens = tokens(70);
    let mut all: Vec<String> = schemes()
        .into_iter()
        .map(|kind| {
            format!(
                "{}\nposition = {{ kind = \"{kind}\" }}",
                remembering("memory = 5")
            )
        })
        .collect();
    all.extend([
        remembering("memory = 5, same_length = true"),
        remembering("memory = 2, memory_at_evaluation = 5"),
        remembering("memory = 9, memory_at_evaluation = 5"),
        "attention = { kind = \"sliding_window\", n_heads = 4, window = 7, memory = 5 }".into(),
        "attention = { kind = \"sliding_window\", n_heads = 4, window = 4, memory = 3 }".into(),
        format!("{}\nnorm_placement = \"post\"", remembering("memory = 5")),
    ]);
    for keys in all {
        let model = built(&config(&keys));
        assert!(model.has_bounded_state());
        for first in [1, 5, 12] {
            let lengths = || std::iter::once(first).chain(of(1));
            let wanted = in_segments(&model, &tokens, lengths());
            let (found, room) = decoded(&model, &tokens, lengths());
            near(&found, &wanted, &format!("{keys}, {first} tokens first"));
            assert!(room <= 2 * 5 + 16, "room for {room} tokens");
        }
        let (parts, _) = decoded(&model, &tokens, of(6));
        near(&parts, &in_segments(&model, &tokens, of(6)), &keys);
    }
}

/// Without memory in evaluation, a text is one segment, even if it is read token by token.
#[test]
fn a_text_without_memory_is_one_segment() {
    let keys = remembering("memory = 9, memory_at_evaluation = 0");
    let (model, tokens) = (built(&config(&keys)), tokens(14));
    let (found, _) = decoded(&model, &tokens, of(1));
    near(&found, &at_once(&model, &tokens), &keys);
    assert!(!model.has_bounded_state());
}

#[test]
fn a_text_is_read_on_past_the_context() {
    const CONTEXT: usize = 6;
    let model = built(&config(&remembering("memory = 7")));
    let greedy = Sampling {
        temperature: 0.0,
        ..Sampling::default()
    };
    for prompt in [&[3u32, 1, 4, 1, 5][..], &[2; 15]] {
        let mut generator = TextGenerator::new(&model, CONTEXT, &[prompt]).unwrap();
        generator.reserve(1_000_000);
        for _ in 0..40 {
            generator.next(&greedy);
        }
        let text: Vec<i32> = generator.tokens(0).iter().map(|id| *id as i32).collect();
        let mut left = prompt.len();
        let of_prompt = std::iter::from_fn(move || {
            let part = left.min(CONTEXT);
            left -= part;
            (part > 0).then_some(part)
        });
        let scores = in_segments(&model, &text, of_prompt.chain(of(1)));
        near(
            generator.logits(0),
            &scores[(text.len() - 1) * VOCAB..],
            "the last token",
        );
    }
    // A single layer that keeps everything limits decoding to the context.
    let keys = "[[layers]]\nattention = { kind = \"multi_head\", n_heads = 4, memory = 7 }\n[[layers]]\n\
                attention = { kind = \"multi_head\", n_heads = 4 }";
    assert!(!built(&config(keys)).has_bounded_state());
    let window = "attention = { kind = \"sliding_window\", n_heads = 4, window = 3 }";
    assert!(!built(&config(window)).has_bounded_state());
}

/// A layer without memory beside one with it: the cache has all keys of the first and the newest of the second.
#[test]
fn layers_keep_what_each_of_them_needs() {
    let tokens = tokens(20);
    for kind in ["rotary", "alibi", "relative_bias", "none"] {
        let keys = format!(
            "position = {{ kind = \"{kind}\" }}\n[[layers]]\nattention = {{ kind = \"multi_head\", n_heads = 4, memory = 30 }}\n\
             [[layers]]\nattention = {{ kind = \"multi_head\", n_heads = 4 }}\n[[layers]]\n\
             attention = {{ kind = \"sliding_window\", n_heads = 4, window = 3 }}\n"
        );
        let model = built(&config(&keys));
        let (found, _) = decoded(&model, &tokens, of(1));
        near(&found, &at_once(&model, &tokens), kind);
    }
}
