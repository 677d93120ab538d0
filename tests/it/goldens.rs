//! Decoders against HF's: logits, loss and every gradient of tiny random models (`tests/goldens/make_language_models.py` makes
//! the oracles), cached decoding, HF's bucket table, and the sinusoidal tables of the papers.

use crate::oracle::{Oracle, difference, hf_folder, values};
use crate::oracle::{decoder_of, decoder_table};
use crate::transfer::gradients_of;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::interop::weights::Array;
use formwork::interop::{HfModel, read_hf, to_hf};
use formwork::model::Decoder;
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::nn::pass::Pass;
use formwork::nn::position::{
    relative_bias,
    sinusoidal::{self, Layout},
};
use formwork::nn::state::StateUse;
use std::collections::BTreeMap;

/// Largest difference, relative to the largest value of the oracle's tensor. It is half of the promised 1e-4, so that the two
/// forms of GELU, which move logits by 1e-4 to 3e-4, cannot be confused.
pub const TOLERANCE: f64 = 5e-5;

/// Inputs and outputs of the oracle, and its weights.
pub struct Golden {
    pub oracle: Oracle,
    pub weights: BTreeMap<String, Array>,
}

impl Golden {
    pub fn open(name: &str) -> Self {
        let oracle = Oracle::open(name);
        let others = ["input_ids", "logits", "loss"];
        let is_weight = |n: &str| !n.starts_with("grad.") && !others.contains(&n);
        let weights = oracle.arrays(|name| is_weight(name).then_some(name));
        Self { oracle, weights }
    }

    pub fn ids(&self, device: &Device) -> Tensor<2, Int> {
        let (shape, ids) = self.oracle.integers("input_ids");
        Tensor::from_data(TensorData::new(ids, shape), device)
    }

    /// Writes the weights as an HF folder and opens it.
    pub fn open_folder(&self) -> (tempfile::TempDir, HfModel) {
        let dir = hf_folder(&self.oracle.config(), &self.weights);
        let model = read_hf(dir.path(), &[]).unwrap();
        (dir, model)
    }
}

/// Mean next-token cross-entropy over all positions.
fn next_token_loss(logits: Tensor<3>, ids: Tensor<2, Int>) -> Tensor<1> {
    let [batch, seq, vocab] = logits.dims();
    let scored = batch * (seq - 1);
    let logits = logits
        .slice([0..batch, 0..seq - 1])
        .reshape([scored, vocab]);
    let targets = ids.slice([0..batch, 1..seq]).reshape([scored]);
    formwork::kernel::cross_entropy_sum(logits, targets, 0.0) / scored as f64
}

pub fn logits(decoder: &Decoder, ids: Tensor<2, Int>) -> Tensor<3> {
    let hidden = decoder.forward(DecoderInput::new(ids), None, &Pass::evaluation());
    decoder.logits(hidden)
}

/// Checks a golden whose folder is imported as it is.
fn check(name: &str) {
    let golden = Golden::open(name);
    let (_dir, model) = golden.open_folder();
    check_model(name, &golden, &model);
}

/// Checks logits, loss and gradients of a golden, then the export of its weights and cached decoding.
pub fn check_model(name: &str, golden: &Golden, model: &HfModel) {
    let device = Device::flex().autodiff();
    let decoder = decoder_of(model, &device).unwrap();
    let logits = logits(&decoder, golden.ids(&device));
    let loss = next_token_loss(logits.clone(), golden.ids(&device));
    let expected = golden.oracle.array("loss").values;
    let off = difference(&values(loss.clone()), &expected);
    assert!(off < 1e-5, "{name}: the loss is off by {off:e}");
    let ours = values(logits.inner());
    let off = difference(&ours, &golden.oracle.array("logits").values);
    assert!(off < TOLERANCE, "{name}: logits are off by {off:e}");
    let mut worst = (off, "logits");
    let gradients = GradientsParams::from_grads(loss.backward(), &decoder);
    let mut found = decoder_table(model).export(&gradients_of(&decoder, &gradients));
    // A Reformer's bias is exported under two names, of which the golden has the older.
    found.remove("lm_head.decoder.bias");
    let names = golden.weights.keys();
    assert!(found.keys().eq(names.clone()), "{name}: other gradients");
    for weight in names {
        let theirs = golden.oracle.array(&format!("grad.{weight}"));
        assert_eq!(found[weight].shape, theirs.shape, "{name}: {weight}");
        let off = difference(&found[weight].values, &theirs.values);
        assert!(
            off < TOLERANCE,
            "{name}: gradient of {weight} is off by {off:e}"
        );
        if off > worst.0 {
            worst = (off, weight);
        }
    }
    println!("{name}: {:.1e} at {}", worst.0, worst.1);
    let mut back = to_hf(&decoder, &decoder_table(model));
    back.remove("lm_head.decoder.bias");
    assert!(back == golden.weights, "{name}: export");
    let decoder = decoder_of(model, &Device::flex()).unwrap();
    cached_equals_whole(name, &decoder, golden, &ours);
}

/// Checks that decoding with a cache, in steps of one token and of several, gives the logits of the full pass.
fn cached_equals_whole(name: &str, decoder: &Decoder, golden: &Golden, whole: &[f32]) {
    let device = Device::flex();
    let [batch, seq] = golden.ids(&device).dims();
    for step in [1, 4] {
        let mut state = decoder.empty_state(StateUse::Decoding);
        let mut parts = Vec::new();
        for start in (0..seq).step_by(step) {
            let end = (start + step).min(seq);
            let ids = golden.ids(&device).slice([0..batch, start..end]);
            let pass = Pass::evaluation();
            let hidden = decoder.forward(DecoderInput::new(ids), Some(&mut state), &pass);
            parts.push(decoder.logits(hidden));
        }
        assert_eq!(state.seen, seq);
        let off = difference(&values(Tensor::cat(parts, 1)), whole);
        assert!(
            off < 1e-5,
            "{name}: decoding {step} at a time is off by {off:e}"
        );
    }
}

macro_rules! goldens {
    ($($name:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            check(stringify!($name));
        }
    )+};
}

goldens!(
    gpt2,
    openai_gpt,
    llama,
    llama_gqa,
    llama_head_dim,
    llama_linear,
    llama_yarn,
    llama_llama3,
    falcon,
    falcon_grouped,
    falcon_alibi,
    gpt_neox,
    gpt_neox_sequential,
    gptj,
    gemma2,
    gpt_neo,
    gpt_neo_windows,
    bloom,
    latent,
    latent_plain,
    mamba,
    mamba2,
    mistral,
    mistral_window,
    mpt,
    qwen2,
    qwen3,
    reformer,
    rwkv,
    t5_stack,
    t5_stack_gated,
);

/// In the file that HF 5 writes for GPT-NeoX, the rotated fraction of a head is in `rope_parameters`.
#[test]
fn newer_files_say_the_rotated_part_beside_theta() {
    let golden = Golden::open("gpt_neox");
    let mut config: serde_json::Value = serde_json::from_str(&golden.oracle.config()).unwrap();
    let keys = config.as_object_mut().unwrap();
    let part = keys.remove("rotary_pct").unwrap();
    assert_ne!(part, 0.25, "what it is where no key says it");
    for older in [
        "partial_rotary_factor",
        "rope_theta",
        "rope_scaling",
        "rotary_emb_base",
    ] {
        keys.remove(older);
    }
    let rope = serde_json::json!({
        "rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": part,
    });
    keys.insert("rope_parameters".into(), rope);
    let folder = hf_folder(&config.to_string(), &golden.weights);
    check_model("gpt_neox", &golden, &read_hf(folder.path(), &[]).unwrap());
}

#[test]
fn relative_buckets_are_hf_s() {
    let oracle = Oracle::open("t5_buckets");
    let (_, relative) = oracle.integers("relative");
    let names = oracle.names();
    let tables = names.iter().filter(|name| name.as_str() != "relative");
    assert_eq!(tables.clone().count(), 8);
    for name in tables {
        let parts: Vec<&str> = name.split('.').collect();
        let (buckets, distance) = (parts[1].parse().unwrap(), parts[2].parse().unwrap());
        let bucket = |&r: &i32| {
            relative_bias::bucket(r.into(), buckets, distance, parts[0] == "causal") as i32
        };
        let ours: Vec<i32> = relative.iter().map(bucket).collect();
        assert_eq!(ours, oracle.integers(name).1, "{name}");
    }
}

/// The tables as printed: to three decimals for d = 5, and to two for d = 4 with base 100.
#[test]
fn sinusoidal_tables() {
    let rounded = |row: &[f32], digits: i32| -> Vec<f64> {
        let unit = 10f64.powi(digits);
        row.iter()
            .map(|x| (f64::from(*x) * unit).round() / unit)
            .collect()
    };
    let five = sinusoidal::table(0, 5, 5, 10_000.0, Layout::Interleaved);
    assert_eq!(rounded(&five[0..5], 3), [0.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(
        rounded(&five[5..10], 3),
        [0.841, 0.540, 0.025, 1.000, 0.001]
    );
    assert_eq!(
        rounded(&five[20..25], 3),
        [-0.757, -0.654, 0.100, 0.995, 0.003]
    );
    let four = sinusoidal::table(0, 4, 4, 100.0, Layout::Interleaved);
    assert_eq!(rounded(&four[4..8], 2), [0.84, 0.54, 0.10, 1.0]);
    assert_eq!(rounded(&four[12..16], 2), [0.14, -0.99, 0.30, 0.96]);
}
