//! Unusual keys of config.json and tensor names, as the classes of transformers 5.24 take them: read as the same model, reported,
//! or refused.

use super::files::{copy, parts, write_parts};
use super::hostile::refused;
use super::keys::{changed, read};
use super::ties::import;
use super::{assert_outputs, fixture, infer, shown};
use formwork::interop::families::HfShape;
use formwork::interop::{computation_differences, read_hf};
use formwork::model::ModelConfig;
use formwork::nn::position::PositionConfig;
use formwork::nn::position::rotary::{RotaryConfig, ScalingConfig, YarnScalingConfig};
use serde_json::{Value, json};

type Keys = Vec<(&'static str, Value)>;

fn shape(name: &str, keys: &[(&str, Value)]) -> HfShape {
    match read(&changed(name, keys)) {
        Ok(found) => found.shape,
        Err(error) => panic!("{name}: {keys:?}: {error}"),
    }
}

fn notes(name: &str, keys: &[(&str, Value)]) -> String {
    read(&changed(name, keys)).unwrap().notes.join("\n")
}

/// GPT-NeoX with the name that version 5's own module gives the head.
#[test]
fn a_head_has_the_name_of_either_version() {
    let folder = copy(&fixture("gpt_neox_1"));
    let file = folder.path().join("model.safetensors");
    let (mut header, data) = parts(&file);
    let tensors = header.as_object_mut().unwrap();
    let head = tensors.remove("embed_out.weight").unwrap();
    tensors.insert("lm_head.weight".into(), head);
    write_parts(&file, &header.to_string(), &data);
    let work = tempfile::tempdir().unwrap();
    let run = work.path().join("run");
    import(folder.path(), &run);
    let found = infer(folder.path(), "reference", &shown(&run), &[]);
    assert_outputs("gpt_neox_1", folder.path(), "reference", &found);
}

/// The width of heads is written if the class would otherwise derive another one.
#[test]
fn the_width_of_heads_goes_out_where_it_is_unusual() {
    for name in ["qwen2_1", "olmo_1", "olmo2_1", "smollm3_1"] {
        for (width, written) in [(10, Some(json!(10))), (0, None)] {
            let given = (width > 0).then(|| json!(width));
            let first = read(&changed(name, &[("head_dim", json!(given))])).unwrap();
            let Some(mut out) = first.family.config_json(&first.shape) else {
                panic!("{name}: head_dim = {width} is not written")
            };
            assert_eq!(out.get("head_dim"), written.as_ref(), "{name}");
            out["model_type"] = json!(first.family.model_type);
            let differ = computation_differences(&first.shape, &read(&out).unwrap().shape);
            assert!(differ.is_empty(), "{name}: {differ:?}");
        }
    }
}

/// An object with rotary keys for each kind of layer.
fn by_kind(full: Value, sliding: Value) -> Keys {
    let objects = json!({"full_attention": full, "sliding_attention": sliding});
    vec![("rope_parameters", objects)]
}

/// YaRN in the layers with full attention.
fn stretched(truncate: bool) -> Keys {
    let full = json!({
        "rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 32, "truncate": truncate,
    });
    by_kind(full, json!({"rope_type": "default", "rope_theta": 100.0}))
}

/// Keys that state a property which the class always has, or which belong elsewhere.
#[test]
fn keys_that_are_read_as_others() {
    let absolute = || vec![("position_embedding_type", json!("absolute"))];
    let rope = |keys: Value| vec![("rope_parameters", keys)];
    let yarn = |factor: Value| {
        let keys = json!({"rope_type": "yarn", "rope_theta": 100.0, "factor": factor, "original_max_position_embeddings": 16});
        rope(keys)
    };
    let default = || json!({"rope_type": "default"});
    let mut beside = by_kind(default(), default());
    beside.extend([
        ("rope_theta", json!(77.0)),
        ("rope_local_base_freq", json!(33.0)),
    ]);
    let within = by_kind(json!({"rope_theta": 77.0}), json!({"rope_theta": 33.0}));
    let part = |part: Value| {
        let mut keys = rope(Value::Null);
        keys.extend([
            ("rope_theta", json!(100.0)),
            ("partial_rotary_factor", part),
        ]);
        keys
    };
    let one = |key: &'static str, value: Value| -> Keys { vec![(key, value)] };
    let own = json!(["ElectraForMaskedLM"]);
    let cases: Vec<(&str, Keys, Keys)> = vec![
        ("big_bird_1", absolute(), Vec::new()),
        ("roformer_1", absolute(), Vec::new()),
        ("distilbert_1", absolute(), Vec::new()),
        ("deberta_1", absolute(), Vec::new()),
        ("deberta_v2_1", absolute(), Vec::new()),
        ("phi3_1", one("full_attn_mod", json!(1)), Vec::new()),
        ("phi3_1", one("interpolate_factor", json!(1)), Vec::new()),
        ("llama_1", yarn(Value::Null), yarn(json!(4.0))),
        ("gemma3_1", beside, within),
        ("gemma3_1", stretched(false), stretched(true)),
        ("modernbert_1", stretched(false), stretched(true)),
        (
            "electra_1",
            one("architectures", Value::Null),
            one("architectures", own),
        ),
        (
            "deepseek_v3_1",
            one("norm_topk_prob", Value::Null),
            one("norm_topk_prob", json!(false)),
        ),
        (
            "deepseek_v3_1",
            one("rope_interleave", Value::Null),
            one("rope_interleave", json!(false)),
        ),
        (
            "t5_1",
            one("scale_decoder_outputs", Value::Null),
            one("scale_decoder_outputs", json!(false)),
        ),
        ("qwen3_next_1", part(Value::Null), part(json!(1.0))),
    ];
    for (name, given, taken) in cases {
        assert_eq!(
            shape(name, &given),
            shape(name, &taken),
            "{name}: {given:?}"
        );
    }
}

/// YaRN's `truncate` has no effect in an object for one kind of layer; a model in which it would have one is not exported as
/// such a folder.
#[test]
fn one_kind_of_layers_always_truncates() {
    for name in ["gemma3_1", "modernbert_1"] {
        let said = notes(name, &stretched(false));
        assert!(
            said.contains("`truncate` = false of `full_attention`"),
            "{said}"
        );
        assert!(
            !notes(name, &stretched(true)).contains("truncate"),
            "{name}"
        );
        let first = read(&changed(name, &stretched(false))).unwrap();
        let mut ours = first.shape.clone();
        assert!(first.family.config_json(&ours).is_some(), "{name}");
        let stack = match &mut ours.model {
            ModelConfig::Decoder(config) => &mut config.stack,
            ModelConfig::Encoder(config) => &mut config.stack,
            _ => panic!("{name} is another network"),
        };
        let PositionConfig::Rotary(rotary) = &mut stack.position else {
            panic!("{name} has other positions")
        };
        let ScalingConfig::Yarn(yarn) = &mut rotary.scaling else {
            panic!("{name} has another scaling")
        };
        yarn.truncate = false;
        assert!(first.family.config_json(&ours).is_none(), "{name}");
    }
}

/// Reported: the class computes something other than the file says, and the imported model does not.
#[test]
fn what_a_class_does_otherwise_is_told() {
    let slow = |parts: u32| {
        vec![
            ("pretraining_tp", json!(parts)),
            ("slow_but_exact", json!(true)),
        ]
    };
    for (name, keys, words) in [
        (
            "bloom_1",
            slow(2),
            "`slow_but_exact` with `pretraining_tp` = 2",
        ),
        (
            "mamba_1",
            vec![("rescale_prenorm_residual", json!(true))],
            "`rescale_prenorm_residual` = true",
        ),
        (
            "mamba2_1",
            vec![("rescale_prenorm_residual", json!(true))],
            "`rescale_prenorm_residual` = true",
        ),
        (
            "reformer_2",
            vec![("local_num_chunks_before", json!(2))],
            "more than 4 and at most 2 times 4 tokens",
        ),
    ] {
        let said = notes(name, &keys);
        assert!(said.contains(words), "{name}: {said}");
        assert!(!notes(name, &[]).contains(words), "{name}");
    }
    assert!(!notes("bloom_1", &slow(1)).contains("slow_but_exact"));
}

/// Keys that the class ignores or fails with.
#[test]
fn keys_that_a_class_does_not_have_are_refused() {
    let mut cases: Vec<(&str, &str, Value, String)> = Vec::new();
    for name in ["mistral_1", "mixtral_1"] {
        let words = "`attention_bias` = true is not supported; it must be false";
        cases.push((name, "attention_bias", json!(true), words.into()));
    }
    let words = "`scale_embedding` = true is not supported; it must be false";
    cases.push(("led_1", "scale_embedding", json!(true), words.into()));
    for name in [
        "mistral_1",
        "mixtral_1",
        "qwen2_1",
        "qwen3_1",
        "qwen3_next_1",
        "olmo_1",
        "olmo2_1",
        "diffllama_1",
    ] {
        let words = "`mlp_bias` = true is not supported; it must be false";
        cases.push((name, "mlp_bias", json!(true), words.into()));
    }
    for (kind, missing) in [
        ("linear", "factor"),
        ("yarn", "factor"),
        ("llama3", "factor"),
        ("llama3", "low_freq_factor"),
        ("llama3", "high_freq_factor"),
    ] {
        let mut keys = json!({"rope_type": kind, "rope_theta": 100.0});
        let all = match kind {
            "llama3" => [
                ("factor", 8.0),
                ("low_freq_factor", 1.0),
                ("high_freq_factor", 4.0),
            ],
            _ => [("rope_theta", 100.0); 3],
        };
        for (key, value) in all.into_iter().filter(|(key, _)| *key != missing) {
            keys[key] = json!(value);
        }
        let words = format!("rope scaling \"{kind}\" needs `{missing}`, a number");
        cases.push(("llama_1", "rope_parameters", keys, words));
    }
    let flat = json!({"rope_type": "default", "rope_theta": 30.0});
    let words = "`rope_parameters` has neither `full_attention` nor `sliding_attention`";
    cases.push(("gemma3_1", "rope_parameters", flat, words.into()));
    let (relative, words) = (json!("relative_key"), "it must be \"absolute\"");
    cases.push((
        "distilbert_1",
        "position_embedding_type",
        relative,
        words.into(),
    ));
    cases.push(("phi3_1", "full_attn_mod", json!(2), "it must be 1".into()));
    for (kind, words) in [
        ("gemma3", "`gemma3_text`"),
        ("olmo3", "cannot be imported: "),
        ("granite", "docs/pretrain_and_fine_tune.md"),
    ] {
        cases.push(("llama_1", "model_type", json!(kind), words.into()));
    }
    for (name, key, value, words) in cases {
        let why = read(&changed(name, &[(key, value)])).unwrap_err();
        let why = why.to_string();
        assert!(why.contains(&words), "{name}: `{words}` is not in {why}");
        assert_eq!(why.lines().count(), 1, "{why}");
    }
}

/// LED's class does not scale embeddings, so a model that scales them is no LED.
#[test]
fn embeddings_that_are_scaled_are_not_written_as_led_s() {
    let mut led = read(&changed("led_1", &[])).unwrap();
    assert!(led.family.config_json(&led.shape).is_some());
    let ModelConfig::EncoderDecoder(config) = &mut led.shape.model else {
        unreachable!("LED is an encoder-decoder")
    };
    config.embedding_scale = true;
    assert!(led.family.config_json(&led.shape).is_none());
}

/// An unknown architecture is reported before the weights are read, which may be missing.
#[test]
fn the_architecture_is_told_first() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"model_type": "olmo3"}).to_string();
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    refused("alone", folder.path(), &["`model_type` \"olmo3\""]);
    let config = json!({"model_type": "llama"}).to_string();
    std::fs::write(folder.path().join("config.json"), config).unwrap();
    let why = read_hf(folder.path(), &[]).unwrap_err().to_string();
    assert!(why.contains("safetensors"), "{why}");
}

/// If YaRN's ramp ends before the first frequency, all wavelengths are unchanged.
#[test]
fn yarn_for_texts_of_a_few_tokens_keeps_all_wavelengths() {
    let plain = RotaryConfig {
        theta: 100.0,
        ..RotaryConfig::default()
    };
    let short = RotaryConfig {
        scaling: ScalingConfig::Yarn(YarnScalingConfig {
            factor: 4.0,
            original_context: 4,
            beta_fast: 32.0,
            beta_slow: 1.0,
            magnitude: Some(1.0),
            truncate: false,
        }),
        ..plain.clone()
    };
    assert_eq!(short.frequencies(8), plain.frequencies(8));
}
