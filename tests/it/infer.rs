//! `formwork infer`: input arrays to output arrays through the command line, against transformers and against the tasks
//! themselves.

mod classes;
mod faults;
mod goldens;
mod tasks;
mod texts;

use crate::binary::output;
use crate::oracle::Oracle;
use crate::transfer::{Arrays, put};
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::experiment::{assemble, load_text};
use formwork::interop::weights::Array;
use formwork::task::Objective;
use formwork::tokenizer::{CharConfig, MarkNames, Tokenizer, TokenizerConfig};
use formwork::train::checkpoint::{self, CheckpointContents, State};
use formwork::train::optim;
use formwork::train::parameters::materialize;
use formwork::train::run_dir::{self, Existing, RunDir};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::BTreeMap;
use std::path::Path;

/// An array of an inputs file.
#[derive(Clone)]
pub struct Given {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Given {
    pub fn i64(shape: &[usize], values: &[i32]) -> Self {
        let bytes = values.iter().flat_map(|x| i64::from(*x).to_le_bytes());
        Self {
            dtype: Dtype::I64,
            shape: shape.to_vec(),
            bytes: bytes.collect(),
        }
    }

    pub fn i32(shape: &[usize], values: &[i32]) -> Self {
        Self {
            dtype: Dtype::I32,
            shape: shape.to_vec(),
            bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    pub fn f32(shape: &[usize], values: &[f32]) -> Self {
        Self {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            bytes: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }
}

pub type Inputs = BTreeMap<String, Given>;

pub fn write_inputs(path: &Path, inputs: &Inputs) {
    let views = inputs.iter().map(|(name, given)| {
        let view = TensorView::new(given.dtype, given.shape.clone(), &given.bytes).unwrap();
        (name.as_str(), view)
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

/// Reads the arrays of an outputs file.
pub fn read_outputs(path: &Path) -> Arrays {
    let bytes = std::fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let arrays = file.iter().map(|(name, view)| {
        assert_eq!(view.dtype(), Dtype::F32, "{name}");
        let values = view.data().as_chunks().0.iter();
        let array = Array {
            shape: view.shape().to_vec(),
            values: values.map(|b| f32::from_le_bytes(*b)).collect(),
        };
        (name.to_string(), array)
    });
    arrays.collect()
}

/// Returns the command's outputs for these inputs.
fn inferred(run: &Path, inputs: &Inputs, flags: &[&str]) -> Arrays {
    let folder = tempfile::tempdir().unwrap();
    let (given, out) = (folder.path().join("in"), folder.path().join("out"));
    write_inputs(&given, inputs);
    output(&[&arguments(run, &given, &out)[..], &owned(flags)].concat());
    let found = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(found, 2, "something was left beside the outputs");
    read_outputs(&out)
}

fn owned(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|flag| (*flag).to_string()).collect()
}

fn arguments(run: &Path, inputs: &Path, outputs: &Path) -> [String; 6] {
    let shown = |path: &Path| path.display().to_string();
    [
        "infer".into(),
        shown(run),
        "--inputs".into(),
        shown(inputs),
        "--outputs".into(),
        shown(outputs),
    ]
}

/// Creates a run of this experiment at step 0, with the weights of its seed or with these.
fn run_of(folder: &Path, experiment: &str, shape: &Shape, weights: Option<&Arrays>) -> Objective {
    let loaded = load_text(&folder.join("run.toml"), experiment.to_string(), &[]).unwrap();
    let device = Device::flex().autodiff();
    let model = assemble::objective(&loaded.experiment, shape, &device).unwrap();
    let model = match weights {
        Some(weights) => put(model, weights),
        None => materialize(model),
    };
    let run = RunDir::create(folder, Existing::Refuse).unwrap();
    run.write(run_dir::RESOLVED, experiment.as_bytes()).unwrap();
    let shape = serde_json::to_string(shape).unwrap();
    run.write(run_dir::DATA, shape.as_bytes()).unwrap();
    if loaded.experiment.data.data_set().is_text() {
        write_tokenizer(folder);
    }
    let parts = CheckpointContents {
        model: &model,
        optimizer: &optim::build(&loaded.experiment.optimizer, &model).unwrap(),
        ema: None,
        carried: None,
        state: &State::default(),
    };
    checkpoint::save(&run, &parts, 1).unwrap();
    model
}

/// Writes a tokenizer whose tokens are letters and the special tokens of pairs, independent of the model.
fn write_tokenizer(run: &Path) -> Tokenizer {
    let characters = TokenizerConfig::Char(CharConfig::default());
    let tokenizer = Tokenizer::build(&characters.with_marks(&MarkNames::default()), &["abc"]);
    let tokenizer = tokenizer.unwrap();
    tokenizer.save(&run.join(run_dir::TOKENIZER)).unwrap();
    tokenizer
}

/// Returns a golden's experiment and the shape of its data.
fn golden(oracle: &Oracle) -> (String, Shape) {
    let config: serde_json::Value = serde_json::from_str(&oracle.config()).unwrap();
    let experiment = config["experiment"].as_str().unwrap().to_string();
    (
        experiment,
        serde_json::from_value(config["shape"].clone()).unwrap(),
    )
}

/// Returns the inputs of a golden.
fn golden_inputs(oracle: &Oracle) -> Inputs {
    let names = oracle.names().into_iter();
    let names = names.filter(|n| !n.starts_with("expected.") && !n.starts_with("weight."));
    let given = names.map(|name| {
        let given = match &name[..] {
            "pixel_values" => {
                let array = oracle.array(&name);
                Given::f32(&array.shape, &array.values)
            }
            _ => {
                let (shape, values) = oracle.integers(&name);
                Given::i64(&shape, &values)
            }
        };
        (name, given)
    });
    given.collect()
}
