//! Reads and writes `preprocessor_config.json`: how pixels become a model's inputs. Processors of images and texts that version 5
//! of transformers saves have the same keys in `processor_config.json`, in its object `image_processor`.
//!
//! Hugging Face computes (byte · rescale_factor − image_mean) / image_std; ours is (byte / 255 − mean) / std, so any
//! factor can be folded into mean and standard deviation. Images are resized as its processors do ([`Fit`]): bilinear
//! and bicubic, within 1/255 of PIL and torchvision; `shortest_edge` keeps the aspect ratio, and the centre is cut out if
//! the processor crops. Other filters, padding and tiles are refused.

mod class;
mod reader;

use crate::data::Shape;
use crate::data::images::{Filter, Fit};
use crate::error::{Error, Fault, Result};
use crate::files;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The file of an image processor.
pub const NAME: &str = "preprocessor_config.json";
/// The file of a whole processor, and its key for images.
pub const PROCESSOR: &str = "processor_config.json";
const OF_IMAGES: &str = "image_processor";
/// The model's file, whose `model_type` decides the class of settings that name none.
const CONFIG: &str = "config.json";
/// The `model_type` whose processor needs image settings of its own class.
const IDEFICS: &str = "idefics";
/// PIL's codes of the filters.
const BILINEAR: u64 = 2;
const BICUBIC: u64 = 3;

/// How pixels become inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageProcessor {
    /// Height and width of inputs, if the file gives them.
    pub size: Option<[usize; 2]>,
    /// Mean of each channel, for values from 0 to 1.
    pub mean: Vec<f32>,
    /// Standard deviation of each channel.
    pub std: Vec<f32>,
    /// How images of another size are resized and cropped; `None` if the processor does not resize.
    pub fit: Option<Fit>,
    /// Keys that do not change pixels here.
    pub ignored: Vec<String>,
}

/// Reads a folder's image settings; `None` if it has none. The file of a whole processor takes precedence, as in transformers.
///
/// # Errors
/// If a file is not a JSON object, and for every key whose value is not supported.
pub fn read(dir: &Path) -> Result<Option<ImageProcessor>> {
    let config = object(&dir.join(CONFIG))?;
    let of = config
        .as_ref()
        .and_then(|config| config.get("model_type")?.as_str());
    let whole = dir.join(PROCESSOR);
    let mut found = object(&whole)?;
    if let Some(of_images) = found.as_mut().and_then(|all| all.remove(OF_IMAGES)) {
        let Value::Object(of_images) = of_images else {
            let message = format!("`{OF_IMAGES}` = {of_images} is not an object {{…}}");
            return Err(wrong(&whole, vec![message]));
        };
        let read = reader::read(of_images, of);
        return read.map(Some).map_err(|faults| wrong(&whole, faults));
    }
    let path = dir.join(NAME);
    let read = object(&path)?.map(|object| reader::read(object, of));
    let read = read.transpose();
    read.map_err(|faults| wrong(&path, faults))
}

/// Reads the JSON object in a file; `None` if there is no file.
fn object(path: &Path) -> Result<Option<Map<String, Value>>> {
    if !path.is_file() {
        return Ok(None);
    }
    let text = std::fs::read(path).map_err(Error::io("read", path))?;
    let found = serde_json::from_slice(&files::json::encode_infinity(text));
    found
        .map(Some)
        .map_err(|e| wrong(path, vec![format!("is not a JSON object: {e}")]))
}

/// An error with several faults of one file.
fn wrong(path: &Path, messages: Vec<String>) -> Error {
    let fault = |message| Fault {
        file: Some(path.to_path_buf()),
        line: None,
        message,
    };
    Error::Invalid(messages.into_iter().map(fault).collect())
}

impl ImageProcessor {
    /// Copies the settings into the shape of the data; the size only if the model has not set one.
    pub fn apply(&self, shape: &mut Shape) {
        let channels = self.mean.len();
        if let (None, Some([height, width])) = (shape.image, self.size) {
            shape.image = Some([channels, height, width]);
        }
        let each = |values: &[f32]| {
            (0..channels)
                .map(|c| values[c.min(values.len() - 1)])
                .collect()
        };
        shape.mean = each(&self.mean);
        shape.std = each(&self.std);
        shape.fit = self.fit;
    }
}

/// Writes the image settings in `shape` for a model of the `family`; returns notes on what the file cannot express. Writes
/// nothing for data without images.
///
/// # Errors
/// If the file cannot be written.
pub fn write(dir: &Path, shape: &Shape, family: &str) -> Result<Vec<String>> {
    let Some([channels, height, width]) = shape.image else {
        return Ok(Vec::new());
    };
    let fit = shape.fit.unwrap_or_default();
    let number = |x: f32| json!(f64::from(x));
    let each = |values: &[f32], default: f32| {
        let value = |c: usize| values.get(c).copied().unwrap_or(default);
        (0..channels).map(|c| number(value(c))).collect::<Vec<_>>()
    };
    let target = json!({"height": height, "width": width});
    let size = match (fit.shorter, fit.stretched) {
        (Some(shorter), _) => json!({"shortest_edge": shorter}),
        (None, Some([height, width])) => json!({"height": height, "width": width}),
        (None, None) => target.clone(),
    };
    let cut = fit.shorter.is_some() || fit.stretched.is_some_and(|s| s != [height, width]);
    // The Idefics class only stretches images.
    let idefics = family == IDEFICS;
    let crops = cut && !idefics;
    let size = if idefics { target.clone() } else { size };
    let mut file = json!({
        // The classes that resize by `size` and crop by `crop_size` and do nothing else.
        "image_processor_type": match (idefics, crops) {
            (true, _) => "IdeficsImageProcessor",
            (false, true) => "CLIPImageProcessor",
            (false, false) => "ViTImageProcessor",
        },
        "do_resize": true,
        "size": size,
        "resample": match fit.filter { Filter::Bilinear => BILINEAR, Filter::Bicubic => BICUBIC },
        "do_center_crop": crops,
        "do_rescale": true,
        "rescale_factor": 1.0 / 255.0,
        "do_normalize": true,
        "image_mean": each(&shape.mean, 0.0),
        "image_std": each(&shape.std, 1.0),
    });
    if crops {
        file["crop_size"] = target;
        file["do_convert_rgb"] = json!(channels == 3);
    }
    if idefics {
        file["image_size"] = json!(height);
        file["image_num_channels"] = json!(channels);
    }
    let mut text = serde_json::to_vec_pretty(&file)
        .map_err(|e| Error::run(format!("cannot write {NAME}: {e}")))?;
    text.push(b'\n');
    files::write(&dir.join(NAME), &text)?;
    let grey = (channels != 3)
        .then(|| format!("{NAME} cannot express {channels} channel(s): convert images before the processor reads them"));
    let ours = shape.fit.is_none().then(|| {
        "the processor of the folder rounds differently between rows and columns: resized pixels may differ by 1/255".to_owned()
    });
    let whole = (cut && idefics).then(|| {
        "the processor of Idefics stretches images instead of cropping them to the centre"
            .to_owned()
    });
    Ok(grey.into_iter().chain(ours).chain(whole).collect())
}
