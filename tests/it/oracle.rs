//! Reads golden files (`tests/goldens/*.safetensors`) and compares values with them.

use burn::tensor::{Device, Tensor};
use formwork::error::Result;
use formwork::interop::HfModel;
use formwork::interop::rename::Table;
use formwork::interop::weights::Array;
use formwork::model::{BuildContext, Decoder, DecoderConfig, ModelConfig};
use formwork::train::checkpoint::VERSION;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use tempfile::TempDir;

/// Tensors that are zero in exact arithmetic (key biases without rotation) are rounding noise. Differences are relative to this
/// value if the oracle's largest value is smaller.
const FLOOR: f64 = 1e-2;

/// A golden file.
pub struct Oracle {
    bytes: Vec<u8>,
}

impl Oracle {
    pub fn open(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens");
        let bytes = std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap();
        Self { bytes }
    }

    /// The oracle's config.json.
    pub fn config(&self) -> String {
        let (_, header) = SafeTensors::read_metadata(&self.bytes).unwrap();
        header.metadata().as_ref().unwrap()["config"].clone()
    }

    fn file(&self) -> SafeTensors<'_> {
        SafeTensors::deserialize(&self.bytes).unwrap()
    }

    pub fn names(&self) -> Vec<String> {
        self.file().names().into_iter().map(Into::into).collect()
    }

    pub fn array(&self, name: &str) -> Array {
        let file = self.file();
        let view = file.tensor(name).unwrap();
        let values = view.data().as_chunks().0.iter();
        assert_eq!(view.dtype(), Dtype::F32, "{name}");
        Array {
            shape: view.shape().to_vec(),
            values: values.map(|b| f32::from_le_bytes(*b)).collect(),
        }
    }

    pub fn doubles(&self, name: &str) -> Vec<f64> {
        let file = self.file();
        let view = file.tensor(name).unwrap();
        assert_eq!(view.dtype(), Dtype::F64, "{name}");
        let values = view.data().as_chunks().0.iter();
        values.map(|b| f64::from_le_bytes(*b)).collect()
    }

    /// Returns shape and values of a U8 tensor.
    pub fn bytes(&self, name: &str) -> (Vec<usize>, Vec<u8>) {
        let file = self.file();
        let view = file.tensor(name).unwrap();
        assert_eq!(view.dtype(), Dtype::U8, "{name}");
        (view.shape().to_vec(), view.data().to_vec())
    }

    /// Returns shape and values of an I8 or I64 tensor.
    pub fn integers(&self, name: &str) -> (Vec<usize>, Vec<i32>) {
        let file = self.file();
        let view = file.tensor(name).unwrap();
        let values = match view.dtype() {
            Dtype::I8 => view.data().iter().map(|&b| i32::from(b as i8)).collect(),
            Dtype::I64 => {
                let values = view.data().as_chunks().0.iter();
                values.map(|b| i64::from_le_bytes(*b) as i32).collect()
            }
            other => panic!("{name} is {other:?}"),
        };
        (view.shape().to_vec(), values)
    }

    /// Returns the arrays for which `rename` gives a name, under that name.
    pub fn arrays(&self, rename: impl Fn(&str) -> Option<&str>) -> BTreeMap<String, Array> {
        let names = self.names();
        let renamed = names.iter().filter_map(|name| Some((name, rename(name)?)));
        renamed
            .map(|(name, new)| (new.to_string(), self.array(name)))
            .collect()
    }
}

/// Writes the folder that HF's `save_pretrained` would write.
pub fn hf_folder(config: &str, weights: &BTreeMap<String, Array>) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), config).unwrap();
    write_safetensors(&dir.path().join("model.safetensors"), weights);
    dir
}

pub fn write_safetensors(path: &Path, tensors: &BTreeMap<String, Array>) {
    write(path, tensors, None);
}

/// Writes a weight file in Formwork's format.
pub fn write_weights(path: &Path, tensors: &BTreeMap<String, Array>) {
    let metadata = [
        ("format", "formwork".into()),
        ("version", VERSION.to_string()),
    ];
    let metadata = metadata.map(|(key, value)| (key.to_string(), value));
    write(path, tensors, Some(metadata.into()));
}

fn write(
    path: &Path,
    tensors: &BTreeMap<String, Array>,
    metadata: Option<HashMap<String, String>>,
) {
    let little = |a: &Array| -> Vec<u8> { a.values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    let bytes: Vec<Vec<u8>> = tensors.values().map(little).collect();
    let views = tensors.iter().zip(&bytes).map(|((name, array), bytes)| {
        let view = TensorView::new(Dtype::F32, array.shape.clone(), bytes).unwrap();
        (name.as_str(), view)
    });
    safetensors::serialize_to_file(views, metadata, path).unwrap();
}

/// Returns max |ours − theirs| over max |theirs|.
pub fn difference(ours: &[f32], theirs: &[f32]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let scale = theirs
        .iter()
        .map(|x| f64::from(x.abs()))
        .fold(0.0, f64::max);
    let pairs = ours.iter().zip(theirs);
    let worst = pairs
        .map(|(a, b)| (f64::from(*a) - f64::from(*b)).abs())
        .fold(
            0.0,
            |worst, x| if x > worst || x.is_nan() { x } else { worst },
        );
    worst / scale.max(FLOOR)
}

pub fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Builds the decoder of an HF folder with its weights.
pub fn decoder_of(model: &HfModel, device: &Device) -> Result<Decoder> {
    model.require_tensors()?;
    let ModelConfig::Decoder(config) = &model.shape.model else {
        panic!("the folder holds no decoder");
    };
    let inputs = BuildContext {
        shape: &model.shape.shape,
        seed: 0,
        device,
    };
    model.load(config.init(&inputs), decoder_table(model))
}

/// Returns the name table of a decoder, with paths relative to it.
pub fn decoder_table(model: &HfModel) -> Table {
    model.table().below("model.")
}

/// Returns the config of a folder's decoder.
pub fn decoder_config(model: &mut HfModel) -> &mut DecoderConfig {
    match &mut model.shape.model {
        ModelConfig::Decoder(config) => config,
        _ => panic!("the folder holds no decoder"),
    }
}
