//! Initial weights of presets against those of Hugging Face's classes (`tests/goldens/make_initial_weights.py`): standard
//! deviations of every matrix and table of a tiny model; gains and biases exactly.

use crate::transfer::{Arrays, values_of};
use burn::tensor::Device;
use formwork::interop::families::HfShape;
use formwork::interop::{ReadConfig, read_config};
use formwork::model::preset::parse_preset;
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::init::{InitConfig, T5InitConfig};
use serde_json::Value;
use std::path::Path;

/// Standard deviation of normal draws that are truncated at two deviations, relative to the untruncated one.
const TRUNCATED: f64 = 0.879_625_66;

fn golden(name: &str) -> Value {
    let text = include_str!("../goldens/initial_weights.json");
    serde_json::from_str::<Value>(text).unwrap()[name].take()
}

fn read(golden: &Value) -> ReadConfig {
    let config = golden["config"].clone();
    read_config(Path::new("config.json"), config, &[], None).unwrap()
}

/// Returns the initial parameters of a model of this shape, without its head, under this scheme.
fn drawn(shape: &HfShape, init: InitConfig) -> Arrays {
    let device = Device::flex();
    let inputs = BuildContext {
        shape: &shape.shape,
        seed: 3,
        device: &device,
    };
    match shape.model.clone() {
        ModelConfig::Encoder(mut c) => {
            c.stack.init = Some(init);
            values_of(&c.init(&inputs))
        }
        ModelConfig::Decoder(mut c) => {
            c.stack.init = Some(init);
            values_of(&c.init(&inputs))
        }
        ModelConfig::EncoderDecoder(mut c) => {
            c.stack.init = Some(init);
            values_of(&c.init(&inputs))
        }
        other => panic!("{} has no golden", other.kind()),
    }
}

fn mean_and_std(x: &[f32]) -> (f64, f64) {
    let n = x.len() as f64;
    let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / n;
    let variance = x.iter().map(|x| (f64::from(*x) - mean).powi(2));
    (mean, (variance.sum::<f64>() / n).sqrt())
}

/// Checks that the initial weights of a golden's model under this scheme have `share` times the golden's standard deviations.
fn check(name: &str, init: &InitConfig, share: f64) {
    let golden = golden(name);
    let read = read(&golden);
    let table = (read.family.table)(&read.shape).below("model.");
    let ours = table.export(&drawn(&read.shape, init.clone()));
    for (key, row) in golden["weights"].as_object().unwrap() {
        let number = |column: usize| row[column].as_f64().unwrap();
        let (wanted_mean, wanted, count) = (number(0), share * number(1), number(2));
        let ours = ours.get(key);
        let ours = ours.unwrap_or_else(|| panic!("{name}: nothing is called `{key}`"));
        assert_eq!(ours.values.len() as f64, count, "{name}: {key}");
        if wanted == 0.0 {
            let same = ours.values.iter().all(|x| f64::from(*x) == wanted_mean);
            assert!(same, "{name}: {key} is not {wanted_mean} everywhere");
            continue;
        }
        // Five standard errors of a standard deviation.
        let (mean, std) = mean_and_std(&ours.values);
        let allowed = 5.0 / (2.0 * count).sqrt();
        let off = (std / wanted - 1.0).abs();
        assert!(off < allowed, "{name}: {key} has {std}, not {wanted}");
        let off = mean.abs() * count.sqrt() / wanted;
        assert!(off < 5.0, "{name}: {key} has a mean of {mean}");
    }
}

fn of_preset(preset: &str) -> InitConfig {
    parse_preset(preset).unwrap().model.init_settings().scheme
}

#[test]
fn presets_draw_as_their_classes_do() {
    for (name, preset) in [
        ("t5", "t5-small"),
        ("bart", "bart-large"),
        ("falcon", "falcon-40b"),
        ("distilbert", "distilbert-base"),
        ("deberta", "deberta-base"),
        ("deberta_v2", "deberta-v3-small"),
    ] {
        check(name, &of_preset(preset), 1.0);
    }
    // Released code truncates the distribution; the classes of transformers do not.
    for (name, preset) in [
        ("bert", "bert-base"),
        ("roformer", "roformer-small"),
        ("electra", "electra-small"),
    ] {
        check(name, &of_preset(preset), TRUNCATED);
    }
}

/// An untied head is initialised as in T5's released code, with d^−½; or with 1 if Hugging Face's class is asked for.
#[test]
fn t5_s_own_head_is_drawn_as_released_or_as_hugging_face_s() {
    let of_class = |factor: f64| {
        InitConfig::T5(T5InitConfig {
            factor,
            head_std: Some(1.0),
            ..T5InitConfig::default()
        })
    };
    let head = |golden: &Value, init| {
        let weights = drawn(&read(golden).shape, init);
        mean_and_std(&weights["head.weight"].values).1
    };
    for (name, preset) in [("t5_gated", "t5-v1.1-small"), ("mt5", "mt5-small")] {
        check(name, &of_preset(preset), 1.0);
        let mut golden = golden(name);
        golden["config"]["tie_word_embeddings"] = false.into();
        let std = head(&golden, of_class(1.0));
        assert!((std - 1.0).abs() < 0.03, "{name}: {std}, not 1");
        let std = head(&golden, of_preset(preset));
        assert!((std * 8.0 - 1.0).abs() < 0.03, "{name}: {std}, not 1/8");
    }
    // The factor multiplies every matrix and table.
    let halved = drawn(&read(&golden("t5")).shape, of_class(0.5));
    let (_, std) = mean_and_std(&halved["embedding.weight"].values);
    assert!((std * 2.0 - 1.0).abs() < 0.03, "{std}, not 1/2");
}
