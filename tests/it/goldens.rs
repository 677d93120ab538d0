//! Our decoders against HF's: logits, loss and every gradient of tiny random models
//! (`tests/goldens/make_language_models.py` makes the oracles), cached decoding, HF's bucket table, and the
//! sinusoidal tables of the papers.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Gradients, Int, Tensor, TensorData};
use formwork::interop::rename::Table;
use formwork::interop::weights::Array;
use formwork::interop::{HfModel, read_hf, to_hf};
use formwork::model::Decoder;
use formwork::model::decoder::DecoderInput;
use formwork::nn::pass::Pass;
use formwork::nn::position::{relative_bias, sinusoidal};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// Largest difference over largest value of the oracle's tensor.
const TOLERANCE: f64 = 1e-4;
/// Tensors that are zero in exact arithmetic (key biases without rotation) are rounding noise below this.
const FLOOR: f64 = 1e-6;

/// A golden file: what the oracle read and gave, and its weights as an HF folder.
struct Golden {
    config: String,
    tensors: BTreeMap<String, Array>,
    ids: Vec<i32>,
    shape: [usize; 2],
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens")
}

fn floats(view: &TensorView) -> Array {
    let values = view.data().as_chunks().0.iter();
    Array {
        shape: view.shape().to_vec(),
        values: values.map(|b| f32::from_le_bytes(*b)).collect(),
    }
}

fn integers(view: &TensorView) -> Vec<i64> {
    let values = view.data().as_chunks().0.iter();
    values.map(|b| i64::from_le_bytes(*b)).collect()
}

impl Golden {
    fn open(name: &str) -> Self {
        let bytes = std::fs::read(folder().join(format!("{name}.safetensors"))).unwrap();
        let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
        let config = header.metadata().as_ref().unwrap()["config"].clone();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let ids = file.tensor("input_ids").unwrap();
        let tensors = file
            .iter()
            .filter(|(name, _)| *name != "input_ids")
            .map(|(name, view)| (name.to_string(), floats(&view)))
            .collect();
        Self {
            config,
            tensors,
            shape: [ids.shape()[0], ids.shape()[1]],
            ids: integers(&ids).into_iter().map(|i| i as i32).collect(),
        }
    }

    /// The oracle's weights by HF's names.
    fn weights(&self) -> impl Iterator<Item = (&String, &Array)> {
        self.tensors.iter().filter(|(name, _)| {
            !name.starts_with("grad.") && !["logits", "loss"].contains(&name.as_str())
        })
    }

    /// Writes the folder that HF's `save_pretrained` would write.
    fn write(&self, dir: &Path) {
        std::fs::write(dir.join("config.json"), &self.config).unwrap();
        write_safetensors(&dir.join("model.safetensors"), self.weights());
    }

    fn ids(&self, device: &Device) -> Tensor<2, Int> {
        Tensor::from_data(TensorData::new(self.ids.clone(), self.shape), device)
    }

    /// The folder opened and its network.
    fn load(&self, device: &Device) -> (HfModel, Decoder) {
        let dir = tempfile::tempdir().unwrap();
        self.write(dir.path());
        let model = read_hf(dir.path()).unwrap();
        let decoder = model.decoder(device).unwrap();
        (model, decoder)
    }
}

fn write_safetensors<'a>(path: &Path, tensors: impl Iterator<Item = (&'a String, &'a Array)>) {
    let bytes: Vec<(&String, &Array, Vec<u8>)> = tensors
        .map(|(name, a)| {
            (
                name,
                a,
                a.values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            )
        })
        .collect();
    let views = bytes.iter().map(|(name, array, bytes)| {
        let view = TensorView::new(Dtype::F32, array.shape.clone(), bytes).unwrap();
        (name.as_str(), view)
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

/// max |ours − theirs| over max |theirs|, or over the floor when that is larger.
fn difference(ours: &[f32], theirs: &[f32]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let largest = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let scale = largest(&mut theirs.iter().map(|x| f64::from(x.abs())));
    let pairs = ours.iter().zip(theirs);
    let worst = largest(&mut pairs.map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs()));
    assert!(worst.is_finite());
    worst / scale.max(FLOOR / TOLERANCE)
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Gradients by our dotted paths.
struct Collect<'a> {
    path: Vec<String>,
    gradients: &'a Gradients,
    found: BTreeMap<String, Array>,
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }
    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let path = self.path.join(".");
        let gradient = param.val().grad(self.gradients);
        let gradient = gradient.unwrap_or_else(|| panic!("{path} has no gradient"));
        let shape = gradient.dims().to_vec();
        let values = values(gradient);
        self.found.insert(path, Array { shape, values });
    }
}

fn gradients(decoder: &Decoder, gradients: &Gradients, table: &Table) -> BTreeMap<String, Array> {
    let mut visitor = Collect {
        path: Vec::new(),
        gradients,
        found: BTreeMap::new(),
    };
    decoder.visit(&mut visitor);
    table.export(&visitor.found)
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

/// Logits, loss and gradients of a golden, then its weights back out and cached decoding.
fn check(name: &str) {
    let golden = Golden::open(name);
    let device = Device::flex().autodiff();
    let (model, decoder) = golden.load(&device);
    let pass = Pass::evaluation();
    let hidden = decoder.forward(DecoderInput::new(golden.ids(&device)), None, &pass);
    let logits = decoder.logits(hidden);
    let loss = next_token_loss(logits.clone(), golden.ids(&device));
    let expected = &golden.tensors["loss"].values;
    let off = difference(&values(loss.clone()), expected);
    assert!(off < 1e-5, "{name}: the loss is off by {off:e}");
    let ours = values(logits.inner());
    let off = difference(&ours, &golden.tensors["logits"].values);
    assert!(off < TOLERANCE, "{name}: logits are off by {off:e}");
    let mut worst = (off, "logits");
    let found = gradients(&decoder, &loss.backward(), &model.table());
    let weights: Vec<&String> = golden.weights().map(|(name, _)| name).collect();
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        weights,
        "{name}: gradients"
    );
    for weight in weights {
        let theirs = &golden.tensors[&format!("grad.{weight}")];
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
    let back = to_hf(&decoder, &model.table());
    let same = golden.weights().all(|(name, array)| back[name] == *array);
    assert!(same && back.len() == found.len(), "{name}: export");
    cached_equals_whole(name, &golden, &ours);
}

/// Decoding with a cache, in steps of one token and of several, gives the logits of the whole pass.
fn cached_equals_whole(name: &str, golden: &Golden, whole: &[f32]) {
    let device = Device::flex();
    let (_, decoder) = golden.load(&device);
    let [batch, seq] = golden.shape;
    for step in [1, 4] {
        let mut cache = decoder.cache();
        let mut parts = Vec::new();
        for start in (0..seq).step_by(step) {
            let end = (start + step).min(seq);
            let ids = golden.ids(&device).slice([0..batch, start..end]);
            let pass = Pass::evaluation();
            let hidden = decoder.forward(DecoderInput::new(ids), Some(&mut cache), &pass);
            parts.push(decoder.logits(hidden));
        }
        assert_eq!(cache.len(), seq);
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
    bloom,
    mpt,
    t5_stack,
    t5_stack_gated,
);

#[test]
fn relative_buckets_are_hf_s() {
    let bytes = std::fs::read(folder().join("t5_buckets.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tables: HashMap<&str, Vec<i64>> = file.iter().map(|(n, v)| (n, integers(&v))).collect();
    assert_eq!(tables.len(), 9);
    for (name, expected) in &tables {
        let parts: Vec<&str> = name.split('.').collect();
        let &[kind, buckets, distance] = parts.as_slice() else {
            continue;
        };
        let (buckets, distance) = (buckets.parse().unwrap(), distance.parse().unwrap());
        let ours: Vec<i64> = tables["relative"]
            .iter()
            .map(|&r| relative_bias::bucket(r, buckets, distance, kind == "causal") as i64)
            .collect();
        assert_eq!(ours, *expected, "{name}");
    }
}

/// The tables printed to three decimals for d = 5 and to two for d = 4 with base 100.
#[test]
fn sinusoidal_tables() {
    let rounded = |row: &[f32], digits: i32| -> Vec<f64> {
        let unit = 10f64.powi(digits);
        row.iter()
            .map(|x| (f64::from(*x) * unit).round() / unit)
            .collect()
    };
    let five = sinusoidal::table(0, 5, 5, 10_000.0);
    assert_eq!(rounded(&five[0..5], 3), [0.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(
        rounded(&five[5..10], 3),
        [0.841, 0.540, 0.025, 1.000, 0.001]
    );
    assert_eq!(
        rounded(&five[20..25], 3),
        [-0.757, -0.654, 0.100, 0.995, 0.003]
    );
    let four = sinusoidal::table(0, 4, 4, 100.0);
    assert_eq!(rounded(&four[4..8], 2), [0.84, 0.54, 0.10, 1.0]);
    assert_eq!(rounded(&four[12..16], 2), [0.14, -0.99, 0.30, 0.96]);
}
