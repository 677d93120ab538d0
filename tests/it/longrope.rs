//! LongRoPE: the length of a pass selects the list of factors, generation recomputes a text once it outgrows the original
//! context, and faults of its keys are reported. `tests/it/hf_folders` compares it with transformers.

use crate::contracts::{ids, near};
use crate::diagnostics::{RIGHT, says};
use crate::oracle::{difference, values};
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::generate::TextGenerator;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::pass::Pass;
use serde_json::{Value, json};

const VOCAB: usize = 17;
const CONTEXT: usize = 14;
const ORIGINAL: usize = 7;

/// Heads of width 4, with two rotated pairs.
fn decoder(keys: &Value) -> Decoder {
    let mut config = json!({
        "n_layers": 2, "d_model": 16, "attention": { "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 },
        "init": { "kind": "gpt2", "std": 0.4 },
    });
    for (key, value) in keys.as_object().unwrap() {
        config[key] = value.clone();
    }
    let config: DecoderConfig = serde_json::from_value(config).unwrap();
    config.init(&BuildContext {
        shape: &Shape::of_text(CONTEXT, VOCAB),
        seed: 5,
        device: &Device::flex(),
    })
}

fn rotary(scaling: &Value) -> Value {
    json!({ "kind": "rotary", "theta": 20.0, "scaling": scaling })
}

fn longrope() -> Value {
    rotary(&json!({
        "kind": "longrope", "short_factor": [1.0, 1.5], "long_factor": [2.0, 5.0], "original_context": ORIGINAL, "factor": 2.0,
    }))
}

fn tokens(n: usize) -> Vec<i32> {
    let token = |i: usize| ((i * 7 + i / 3 + i * i % 5) % VOCAB) as i32;
    (0..n).map(token).collect()
}

fn hidden(model: &Decoder, tokens: &[i32]) -> Vec<f32> {
    values(model.forward(DecoderInput::new(ids(tokens, 1)), None, &Pass::evaluation()))
}

/// Lists with equal factors are linear scalings: one up to the original context, the other beyond it.
#[test]
fn the_length_of_a_pass_chooses_the_list() {
    let both = decoder(&json!({ "position": rotary(&json!({
        "kind": "longrope", "short_factor": [1.5, 1.5], "long_factor": [4.0, 4.0], "original_context": ORIGINAL, "magnitude": 1.0,
    })) }));
    let linear = |factor: f64| {
        let scaling = json!({ "kind": "linear", "factor": factor });
        decoder(&json!({ "position": rotary(&scaling) }))
    };
    let (short, long) = (linear(1.5), linear(4.0));
    for length in [1, ORIGINAL - 1, ORIGINAL, ORIGINAL + 1, CONTEXT] {
        let text = tokens(length);
        let (wanted, other) = match length > ORIGINAL {
            true => (&long, &short),
            false => (&short, &long),
        };
        let found = hidden(&both, &text);
        assert_eq!(found, hidden(wanted, &text), "{length} tokens");
        if length > 1 {
            let off = difference(&found, &hidden(other, &text));
            assert!(off > 1e-3, "{length} tokens: {off:e}");
        }
    }
}

/// The factor on rotated queries and keys: √(1 + ln 2 / ln 7) here.
#[test]
fn the_magnitude_follows_from_the_factor() {
    let given = |keys: Value| {
        let mut scaling = longrope()["scaling"].clone();
        scaling.as_object_mut().unwrap().remove("factor");
        for (key, value) in keys.as_object().unwrap() {
            scaling[key] = value.clone();
        }
        hidden(
            &decoder(&json!({ "position": rotary(&scaling) })),
            &tokens(9),
        )
    };
    let magnitude = (1.0 + 2f64.ln() / (ORIGINAL as f64).ln()).sqrt();
    let followed = given(json!({ "factor": 2.0 }));
    assert_eq!(followed, given(json!({ "magnitude": magnitude })));
    let plain = given(json!({ "factor": 1.0 }));
    assert_eq!(plain, given(json!({ "magnitude": 1.0 })));
    assert!(difference(&followed, &plain) > 1e-3);
}

/// While a text grows, the next token's logits equal those of one pass over all of it: if the model has the scheme, if a block
/// has it, and if only a window of keys is kept.
#[test]
fn a_text_that_grows_is_one_pass() {
    let window = json!({ "kind": "sliding_window", "n_heads": 4, "n_kv_heads": 2, "window": 3 });
    let heads = json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 });
    let layers = json!([{ "attention": heads, "position": longrope() }, { "attention": heads }]);
    for keys in [
        json!({ "position": longrope() }),
        json!({ "position": longrope(), "attention": window }),
        json!({ "position": { "kind": "none" }, "layers": layers }),
    ] {
        let model = decoder(&keys);
        let text = tokens(CONTEXT);
        let prompt: Vec<u32> = text[..4].iter().map(|t| *t as u32).collect();
        let mut generator = TextGenerator::new(&model, CONTEXT, &[&prompt]).unwrap();
        for length in 4..=CONTEXT {
            let pass = Pass::evaluation();
            let whole = model.forward(DecoderInput::new(ids(&text[..length], 1)), None, &pass);
            let whole = values(model.logits(whole));
            let last = &whole[(length - 1) * VOCAB..];
            near(
                generator.logits(0),
                last,
                &format!("{keys}: {length} tokens"),
            );
            if length < CONTEXT {
                generator.push(&[text[length] as u32]);
            }
        }
    }
}

#[test]
fn faults_of_its_keys_are_told() {
    let pairs = |first: &str| format!("[{first}{}]", ", 1.0".repeat(31));
    let good = pairs("1.0");
    let with = |short: &str, long: &str, rest: &str| {
        let scaling = format!(
            "scaling = {{ kind = \"longrope\", short_factor = {short}, long_factor = {long}, {rest} }}"
        );
        RIGHT.replacen("theta = 10000.0", &scaling, 1)
    };
    let rest = "original_context = 64, factor = 4.0";
    for (text, rule) in [
        (
            with("[1.0, 2.0]", &good, rest),
            "[model.position.scaling] short_factor has 2 numbers, but 32 pairs of a head's elements are rotated",
        ),
        (
            with(&good, "[]", rest),
            "[model.position.scaling] long_factor has 0 numbers, but 32 pairs",
        ),
        (
            with(&good, &pairs("1.0, -2.0").replacen(", 1.0]", "]", 1), rest),
            "number 2 of long_factor is -2.0; it must be above 0",
        ),
        (
            with(&good, &good, "original_context = 64"),
            "kind = \"longrope\" needs factor, the ratio of the new length to the trained one, or magnitude instead",
        ),
        (
            with(
                &good,
                &good,
                "original_context = 64, factor = 4.0, magnitude = 1.1",
            ),
            "factor has no effect with magnitude",
        ),
        (
            with(&good, &good, "original_context = 64, factor = 0.5"),
            "factor = 0.5 must be 1 or more",
        ),
        (
            with(&good, &good, "original_context = 1, factor = 4.0"),
            "original_context = 1 has the logarithm 0",
        ),
        (
            with(&good, &good, "original_context = 0, magnitude = 1.1"),
            "original_context = 0 is not between 1 and 16777216",
        ),
        (
            with(&good, &good, "factor = 4.0"),
            "with kind = \"longrope\" needs the key `original_context`",
        ),
    ] {
        says(&text, rule);
    }
}
