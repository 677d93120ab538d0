//! Runs of a few steps for `inspect`.

use crate::binary::{failure, output};
use crate::infer::{Given, read_outputs, write_inputs};
use formwork::data::batch::Item;
use formwork::data::{Source, Split};
use formwork::experiment::run_contents::CheckpointChoice;
use formwork::experiment::{assemble, open};
use safetensors::tensor::SafeTensors;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Experiments without their names.
pub mod trained {
    /// A vision transformer on images of 16 patches, with a class token.
    pub const VISION: &str = "[model]\nkind = \"vision\"\nn_layers = 2\nd_model = 16\nstem = { kind = \"patches\", size = 4 }\n\
        attention = { kind = \"multi_head\", n_heads = 2 }\n[data]\nkind = \"shapes\"\nsize = 16\nvalid_items = 12\n\
        [task]\nkind = \"image_classification\"\n";
    /// A vision transformer without a class token.
    pub const POOLED: &str = "[model]\nkind = \"vision\"\npooling = \"mean\"\nn_layers = 1\nd_model = 16\n\
        stem = { kind = \"patches\", size = 8 }\nattention = { kind = \"multi_head\", n_heads = 2 }\n[data]\nkind = \"shapes\"\n\
        size = 16\nvalid_items = 12\n[task]\nkind = \"image_classification\"\n";
    /// A convolutional network.
    pub const RESNET: &str = "[model]\nkind = \"resnet\"\nstages = [1, 1]\nwidth = 8\n[data]\nkind = \"shapes\"\nsize = 16\n\
        valid_items = 12\n[task]\nkind = \"image_classification\"\n";
    /// A decoder on generated sums, with linear biases.
    pub const ALIBI: &str = "[model]\nkind = \"decoder\"\nn_layers = 2\nd_model = 16\nposition = { kind = \"alibi\" }\n\
        attention = { kind = \"multi_head\", n_heads = 2 }\n[data]\nkind = \"arithmetic\"\nvalid_items = 40\n[task]\n\
        kind = \"causal_lm\"\n";
    /// The same with rotary positions.
    pub const ROTARY: &str = "[model]\nkind = \"decoder\"\nn_layers = 1\nd_model = 16\nposition = { kind = \"rotary\" }\n\
        attention = { kind = \"multi_head\", n_heads = 2 }\n[data]\nkind = \"arithmetic\"\nvalid_items = 12\n[task]\n\
        kind = \"causal_lm\"\n";
    /// An encoder-decoder with relative position biases.
    pub const PAIRS: &str = "[model]\nkind = \"encoder_decoder\"\nn_encoder_layers = 2\nn_decoder_layers = 2\nd_model = 16\n\
        position = { kind = \"relative_bias\" }\nattention = { kind = \"multi_head\", n_heads = 2 }\n[data]\nkind = \"dates\"\n\
        valid_items = 12\n[task]\nkind = \"translation\"\n";
    /// An encoder of masked texts.
    pub const MASKED: &str = "[model]\nkind = \"encoder\"\nn_layers = 2\nd_model = 16\n\
        attention = { kind = \"multi_head\", n_heads = 2 }\n[data]\nkind = \"grammar\"\nvalid_items = 60\ncontext = 32\n[task]\n\
        kind = \"masked_lm\"\n";
}

pub fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Trains an experiment for a few steps and returns the run's folder.
pub fn run(folder: &Path, name: &str, experiment: &str) -> String {
    let file = folder.join(format!("{name}.toml"));
    let rest = "[optimizer]\nkind = \"adamw\"\nlr = 1e-2\n[train]\nsteps = 3\nbatch_size = 4\n";
    fs::write(&file, format!("name = \"{name}\"\n{experiment}{rest}")).unwrap();
    let run = folder.join(name).display().to_string();
    output(&[
        "train",
        &file.display().to_string(),
        "--quiet",
        "--run",
        &run,
    ]);
    run
}

/// Opens the validation split of a run.
pub fn valid(run: &str) -> Arc<dyn Source> {
    let opened = open::open(Path::new(run), CheckpointChoice::Best, None).unwrap();
    let (tokenizers, shape) = (&opened.tokenizers, &opened.shape);
    let data = assemble::data(&opened.experiment, &opened.places, tokenizers, Some(shape));
    data.unwrap().source(Split::Valid).unwrap().clone()
}

/// Returns images from a run's validation split, evenly spread over it, as arrays of an inputs file.
pub fn images(run: &str, count: usize) -> BTreeMap<String, Given> {
    let source = valid(run);
    let (mut pixels, mut labels, mut shape) = (Vec::new(), Vec::new(), [0; 3]);
    for number in 0..count {
        let number = (number * source.len() / count) as u64;
        let Item::Image(image) = source.get(number, number).unwrap() else {
            panic!("the run reads no images")
        };
        pixels.extend(image.pixels);
        labels.push(image.label);
        shape = image.shape;
    }
    let [channels, height, width] = shape;
    let pixels = Given::f32(&[count, channels, height, width], &pixels);
    let labels = Given::i32(&[count], &labels);
    [("pixel_values".into(), pixels), ("labels".into(), labels)].into()
}

/// Returns the outputs of `infer` for these arrays.
pub fn inferred(
    run: &str,
    inputs: &BTreeMap<String, Given>,
    flag: &str,
) -> crate::transfer::Arrays {
    let folder = tempfile::tempdir().unwrap();
    let [given, found] = ["in.safetensors", "out.safetensors"].map(|name| folder.path().join(name));
    write_inputs(&given, inputs);
    let (given, found) = (given.display().to_string(), found.display().to_string());
    output(&["infer", run, "--inputs", &given, "--outputs", &found, flag]);
    read_outputs(Path::new(&found))
}

/// Reads a parameter of the run's checkpoint.
pub fn parameter(run: &str, name: &str) -> (Vec<usize>, Vec<f64>) {
    let bytes = fs::read(Path::new(run).join("best/model.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let view = file
        .tensor(name)
        .unwrap_or_else(|e| panic!("{e}: {:?}", file.names()));
    let values = view.data().as_chunks().0.iter();
    let values = values.map(|b| f64::from(f32::from_le_bytes(*b))).collect();
    (view.shape().to_vec(), values)
}

/// Checks that a command exits with status 2 and this one line.
pub fn told(arguments: &[&str], expected: &str) {
    let (status, said) = failure(arguments);
    assert!(
        status == 2 && said.contains(expected),
        "{arguments:?}: {said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}

/// Reads a list of numbers.
pub fn numbers(value: &Value) -> Vec<f64> {
    let values = value.as_array().unwrap().iter();
    values.map(|x| x.as_f64().unwrap()).collect()
}
