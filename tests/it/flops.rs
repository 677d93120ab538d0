//! FLOPs of plans against PyTorch's counts on reference implementations (`tests/goldens/make_flops.py`): every preset, the
//! heads of tasks, and kinds that no preset has.

use burn::tensor::Device;
use formwork::data::Shape;
use formwork::model::ModelConfig;
use formwork::model::preset::{names, parse_preset};
use formwork::nn::attention::AttentionConfig;
use formwork::plan::{PlanRequest, plan};
use formwork::task::TaskConfig;
use serde_json::{Value, json};

fn golden() -> Value {
    serde_json::from_str(include_str!("../goldens/flops.json")).unwrap()
}

/// Returns the training FLOPs for each item.
fn planned(model: &ModelConfig, task: Option<&TaskConfig>, shape: &Shape) -> f64 {
    let question = PlanRequest {
        task,
        ..PlanRequest::of(model, shape)
    };
    plan(&question, &Device::default()).unwrap().flops_per_item
}

/// The cost of an adaptive softmax depends on the frequency of a text's words, which PyTorch's counter does not know.
const ADAPTIVE: &[&str] = &["transformer-xl-wt103", "transformer-xl-wt103-large"];

/// Returns the model with unlimited windows, since PyTorch's attention computes all pairs, and the original windows.
fn without_windows(mut model: ModelConfig) -> (ModelConfig, Vec<usize>) {
    let mut windows = Vec::new();
    let (blocks, grouped, common, layers) = match &mut model {
        ModelConfig::Decoder(c) => (
            c.n_layers(),
            c.depth().grouped_blocks(),
            &mut c.stack.attention,
            &mut c.layers,
        ),
        ModelConfig::Encoder(c) => (
            c.n_layers(),
            c.depth().grouped_blocks(),
            &mut c.stack.attention,
            &mut c.layers,
        ),
        _ => return (model, windows),
    };
    if let AttentionConfig::SlidingWindow(c) = common {
        windows.extend(vec![c.window; blocks]);
        *common = AttentionConfig::MultiHead(c.heads.clone());
    }
    for group in layers {
        if let Some(AttentionConfig::SlidingWindow(c)) = &group.attention {
            windows.extend(vec![c.window; blocks / grouped * group.repeat]);
            group.attention = Some(AttentionConfig::MultiHead(c.heads.clone()));
        }
    }
    (model, windows)
}

/// Windowed attention costs only the pairs in the window: scores and weighted values of all other pairs are saved.
#[test]
fn bands_pay_for_their_own_keys() {
    let mut banded = 0;
    for name in names().filter(|name| name.starts_with("gpt3") || name.starts_with("gpt-neo-")) {
        let preset = parse_preset(name).unwrap();
        let (dense, windows) = without_windows(preset.model.clone());
        assert_eq!(
            2 * windows.len(),
            preset
                .model
                .transformer()
                .unwrap()
                .depths()
                .map(|d| d.blocks())
                .sum::<usize>()
        );
        let [dense, own] = [&dense, &preset.model].map(|m| planned(m, None, &preset.shape()));
        let left_out = |window: &usize| {
            3.0 * 4.0 * (preset.model.d_model() * (preset.context - window)) as f64
        };
        let saved: f64 = windows.iter().map(left_out).sum();
        assert_eq!(dense - own, saved, "{name}");
        banded += 1;
    }
    assert_eq!(banded, 11);
}
/// For windows and blocks, only the keys inside are counted, and a single global token; PyTorch's counter would see the padded
/// chunks of transformers' classes.
const WINDOWS: &[&str] = &[
    "longformer-base-4096",
    "led-base-16384",
    "bigbird-roberta-base",
    "sparse-transformer-enwik8",
    // A reversible stack computes most of its forward pass twice.
    "reformer-enwik8",
];

/// To the last FLOP: a training step costs three forward passes, divided by the items of an example.
#[test]
fn every_preset_s_are_pytorch_s() {
    let golden = golden();
    let presets = golden["presets"].as_object().unwrap();
    for name in names().filter(|name| !ADAPTIVE.contains(name) && !WINDOWS.contains(name)) {
        let preset = parse_preset(name).unwrap();
        let count = |key: &str| presets[name][key].as_u64().unwrap();
        // Formwork computes the angles of rotary positions element by element, without a product.
        let forward = count("flops") - count("angles");
        let items = match &preset.model {
            ModelConfig::Vision(_)
            | ModelConfig::Resnet(_)
            | ModelConfig::Swin(_)
            | ModelConfig::TwoTowers(_)
            | ModelConfig::VisionLanguage(_)
            | ModelConfig::SpeechEncoderDecoder(_)
            | ModelConfig::SpeechEncoder(_) => 1,
            ModelConfig::EncoderDecoder(_) => 2 * preset.context,
            ModelConfig::Decoder(_)
            | ModelConfig::Encoder(_)
            | ModelConfig::Recurrent(_)
            | ModelConfig::Convolutional(_) => preset.context,
        };
        let wanted = 3.0 * forward as f64 / items as f64;
        let shape = preset.shape();
        let (dense, _) = without_windows(preset.model);
        assert_eq!(planned(&dense, None, &shape), wanted, "{name}");
    }
    assert_eq!(
        presets
            .keys()
            .filter(|name| !WINDOWS.contains(&name.as_str()))
            .count()
            + ADAPTIVE.len()
            + WINDOWS.len(),
        names().count()
    );
}

/// Heads cost what they compute: masked-token prediction the vocabulary, classification the pooler and the classes.
#[test]
fn heads_are_counted_for_what_they_read() {
    let golden = golden();
    let head = |name: &str| golden["heads"][name].as_f64().unwrap();
    let length = 64;
    let shape = Shape {
        classes: ["a", "b", "c"].map(String::from).to_vec(),
        ..Shape::of_text(length, 30522)
    };
    let model = |pooler: bool| -> ModelConfig {
        let config = json!({
            "kind": "encoder", "n_layers": 1, "d_model": 256, "pooler": pooler,
            "attention": { "kind": "multi_head", "n_heads": 4 },
        });
        serde_json::from_value(config).unwrap()
    };
    let of = |task: Value, pooler: bool| {
        let task: TaskConfig = serde_json::from_value(task).unwrap();
        planned(&model(pooler), Some(&task), &shape) * length as f64 / 3.0
    };
    let bare = planned(&model(false), None, &shape) * length as f64 / 3.0;
    let near = |found: f64, wanted: f64| {
        assert!(
            ((found - bare) / wanted - 1.0).abs() < 1e-9,
            "{found} {wanted}"
        );
    };
    let masked = 0.15 * length as f64 * head("masked_position");
    near(of(json!({ "kind": "masked_lm" }), true), masked);
    let pairs = json!({ "kind": "masked_lm", "pairs": "next_sentence" });
    near(
        of(pairs, true),
        masked + head("pooler") + head("next_sentence"),
    );
    let classes = json!({ "kind": "text_classification" });
    near(
        of(classes.clone(), true),
        head("pooler") + head("three_classes"),
    );
    near(of(classes, false), head("three_classes"));
}

/// Recurrent cells and experts cost what PyTorch counts; a window costs only its own keys, where PyTorch's dense attention
/// computes all pairs.
#[test]
fn kinds_without_a_preset_are_counted() {
    let golden = golden();
    let shape = Shape::of_text(16, 50);
    let forward = |config: Value| {
        let model: ModelConfig = serde_json::from_value(config).unwrap();
        planned(&model, None, &shape) * 16.0 / 3.0
    };
    for cell in ["elman", "gru", "lstm"] {
        let config = json!({
            "kind": "recurrent", "cell": { "kind": cell }, "n_layers": 2, "d_model": 24,
        });
        assert_eq!(
            forward(config),
            golden["kinds"][cell].as_f64().unwrap(),
            "{cell}"
        );
    }
    let decoder = |feed_forward: Value, attention: Value| {
        forward(json!({
            "kind": "decoder", "n_layers": 2, "d_model": 24, "tie_embeddings": false,
            "feed_forward": feed_forward, "attention": attention,
        }))
    };
    let heads = |kind: &str| json!({ "kind": kind, "n_heads": 4, "n_kv_heads": 2, "bias": false });
    for (name, chosen, experts) in [("one of three", 1, 3), ("two of four", 2, 4)] {
        let experts = json!({
            "kind": "moe", "n_experts": experts, "top_k": chosen, "expert": { "kind": "gated", "d_ff": 40 },
        });
        let found = decoder(experts, heads("multi_head"));
        assert_eq!(found, golden["kinds"][name].as_f64().unwrap(), "{name}");
    }
    let deberta = json!({
        "kind": "encoder", "n_layers": 2, "d_model": 24, "attention": { "kind": "multi_head", "n_heads": 4 },
        "position": { "kind": "disentangled", "max_distance": 4 },
    });
    let wanted = golden["kinds"]["disentangled"].as_f64().unwrap();
    assert_eq!(forward(deberta), wanted, "disentangled");
    // A window with Shaw's distances: 16 queries are multiplied with the vectors of the 4 keys that they see, then with those
    // of values.
    let shaw = |position: Value| {
        forward(json!({
            "kind": "decoder", "n_layers": 2, "d_model": 24, "position": position,
            "attention": { "kind": "sliding_window", "n_heads": 4, "window": 4 },
        }))
    };
    let of_distances = shaw(json!({ "kind": "shaw", "clip": 9 })) - shaw(json!({ "kind": "none" }));
    assert_eq!(of_distances, (2 * 2 * 2 * 16 * 4 * 24) as f64);
    let dense = json!({ "kind": "dense" });
    let mut window = heads("sliding_window");
    window["window"] = json!(5);
    let all = decoder(dense.clone(), heads("multi_head"));
    // One global token: one more key for each query, a query of its own over all keys, and separate keys and values of all
    // tokens.
    let own = |more: Value| {
        let mut keys = json!({ "kind": "sliding_window", "n_heads": 4, "window": 3 });
        keys.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        forward(json!({ "kind": "encoder", "n_layers": 2, "d_model": 24, "attention": keys }))
    };
    let of_global = 2 * 16 * 24 + 24 * (24 + 2 * 16) + 16 * 24 * 2 * 24;
    let found = own(json!({ "global": "own" })) - own(json!({}));
    assert_eq!(found, f64::from(2 * 2 * of_global));
    // Two products per pair, two layers, 16 queries that see 5 keys instead of 16.
    let spared = (2 * 2 * 2 * 16 * (16 - 5) * 24) as f64;
    assert_eq!(all - decoder(dense, window), spared);
}
