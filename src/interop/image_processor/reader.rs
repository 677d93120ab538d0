//! Reads the keys of image processors, with the defaults of Hugging Face's classes; collects all faults.

use super::class::{CONVNEXT_WHOLE, Class, Size};
use super::{BICUBIC, BILINEAR, ImageProcessor};
use crate::data::images::{Filter, Fit};
use crate::error::suggestion;
use serde_json::{Map, Value};

/// The largest side of an image that is accepted, in pixels.
const LONGEST: u64 = 4096;
/// Keys that are read.
const READ: [&str; 15] = [
    CLASS_KEYS[0],
    CLASS_KEYS[1],
    "do_resize",
    "size",
    "resample",
    "do_center_crop",
    "crop_size",
    "crop_pct",
    "do_rescale",
    "rescale_factor",
    "do_normalize",
    "image_mean",
    "image_std",
    IMAGE_SIZE,
    CHANNELS,
];
/// Keys that name the class, today and in earlier versions.
const CLASS_KEYS: [&str; 2] = ["image_processor_type", "feature_extractor_type"];
/// Keys of Idefics' processor: the side of inputs, which takes precedence over `size`, and the number of their channels, which
/// does not change pixels.
const IMAGE_SIZE: &str = "image_size";
const CHANNELS: &str = "image_num_channels";
/// Keys that must be false.
const REFUSED: [&str; 4] = [
    "do_pad",
    "do_image_splitting",
    "do_reduce_labels",
    "do_flip_channel_order",
];

/// Reads the keys of a file that lies beside a config.json with this `model_type`.
///
/// # Errors
/// One fault for every key whose value is not supported.
pub fn read(
    object: Map<String, Value>,
    model_type: Option<&str>,
) -> Result<ImageProcessor, Vec<String>> {
    let mut reader = Reader {
        class: class(&object, model_type).map_err(|fault| vec![fault])?,
        object,
        faults: Vec::new(),
    };
    let processor = reader.processor();
    match reader.faults.is_empty() {
        true => Ok(processor),
        false => Err(reader.faults),
    }
}

/// Finds the class of a file that lies beside a config.json with this `model_type`; an unknown class is a fault, since it may
/// compute pixels in its own way.
fn class(object: &Map<String, Value>, model_type: Option<&str>) -> Result<Class, String> {
    let named = CLASS_KEYS.iter().find_map(|key| {
        let value = object.get(*key).filter(|value| !value.is_null())?;
        Some((key, value))
    });
    let Some((key, value)) = named else {
        return Ok(Class::of_model(model_type.unwrap_or_default()));
    };
    let name = value.as_str().unwrap_or_default();
    Class::named(name).ok_or_else(|| {
        let names = Class::names();
        let hint = suggestion(name, names.iter().map(String::as_str));
        format!("`{key}` = {value} is not known: it may compute other pixels than its keys specify{hint}")
    })
}

/// A file's keys, and the faults found in them so far.
struct Reader {
    object: Map<String, Value>,
    class: Class,
    faults: Vec<String>,
}

impl Reader {
    fn get(&self, key: &str) -> Option<&Value> {
        self.object.get(key).filter(|v| !v.is_null())
    }

    fn flag(&mut self, key: &str, default: bool) -> bool {
        let Some(value) = self.get(key) else {
            return default;
        };
        let on = value.as_bool();
        if on.is_none() {
            let message = format!("`{key}` = {value} is not true or false");
            self.faults.push(message);
        }
        on.unwrap_or(default)
    }

    fn real(&mut self, key: &str, default: f64) -> f64 {
        let Some(value) = self.get(key) else {
            return default;
        };
        let number = value.as_f64().filter(|x| x.is_finite() && *x > 0.0);
        if number.is_none() {
            let message = format!("`{key}` = {value} is not a number above 0");
            self.faults.push(message);
        }
        number.unwrap_or(default)
    }

    /// One number per channel.
    fn channels(&mut self, key: &str, least: f64, default: [f64; 3]) -> Vec<f64> {
        let numbers = match self.get(key) {
            None => Some(default.to_vec()),
            Some(Value::Array(list)) => list.iter().map(Value::as_f64).collect(),
            Some(one) => one.as_f64().map(|x| vec![x; 3]),
        };
        let fine = |x: &f64| x.is_finite() && x.abs() <= 1e6 && *x >= least;
        let counts = |n: usize| n == 1 || n == 3;
        match numbers.filter(|all| counts(all.len()) && all.iter().all(fine)) {
            Some(numbers) => numbers,
            None => {
                let value = self.get(key).cloned().unwrap_or_default();
                self.faults.push(format!("`{key}` = {value} is not a number from {least} to 1e6 for each of 1 or 3 channels"));
                default.to_vec()
            }
        }
    }

    fn processor(&mut self) -> ImageProcessor {
        for key in REFUSED {
            if self.flag(key, false) {
                self.faults.push(format!("`{key}` = true is not supported"));
            }
        }
        let factor = match self.flag("do_rescale", true) {
            true => self.real("rescale_factor", 1.0 / 255.0) * 255.0,
            false => 255.0,
        };
        let usual = self.class.moments();
        let (mean, std) = match self.flag("do_normalize", true) {
            true => (
                self.channels("image_mean", -1e6, usual[0]),
                self.channels("image_std", 1e-6, usual[1]),
            ),
            false => (vec![0.0; 3], vec![1.0; 3]),
        };
        let scaled = |values: &[f64]| {
            values
                .iter()
                .map(|x| (x / factor) as f32)
                .collect::<Vec<f32>>()
        };
        let (mean, std) = (scaled(&mean), scaled(&std));
        if mean.len() != std.len() {
            self.faults.push(format!(
                "`image_mean` has {} number(s), but `image_std` has {}",
                mean.len(),
                std.len()
            ));
        }
        let idefics = self.class == Class::Idefics;
        let (size, fit) = self.sizes();
        let unread = |key: &str| !idefics && [IMAGE_SIZE, CHANNELS].contains(&key);
        let known = |key: &str| (READ.contains(&key) || REFUSED.contains(&key)) && !unread(key);
        ImageProcessor {
            size,
            mean,
            std,
            fit,
            ignored: self
                .object
                .keys()
                .filter(|key| !known(key))
                .cloned()
                .collect(),
        }
    }

    /// Height and width of inputs, and how images are resized and cropped to them.
    fn sizes(&mut self) -> (Option<[usize; 2]>, Option<Fit>) {
        let class = self.class;
        let filter = match self.get("resample").map(|v| (v.as_u64(), v.clone())) {
            None => class.filter(),
            Some((Some(BILINEAR), _)) => Filter::Bilinear,
            Some((Some(BICUBIC), _)) => Filter::Bicubic,
            Some((_, value)) => {
                self.faults.push(format!(
                    "`resample` = {value} is not supported; 2 is bilinear, 3 bicubic"
                ));
                Filter::Bilinear
            }
        };
        let resize = self.flag("do_resize", true);
        let crops = self.flag("do_center_crop", class.crops());
        let crop = crops.then(|| self.size("crop_size", false).or(class.crop()));
        let crop = crop.flatten();
        if crops && crop.is_none() && self.get("crop_size").is_none() {
            let message = "`do_center_crop` = true without `crop_size`: the class has no default, so the key is needed";
            self.faults.push(message.into());
        }
        let crop = crop.map(|crop| match crop {
            Size::Exact(size) => size,
            Size::Shorter(n) => [n, n],
        });
        if !resize {
            if crop.is_some() {
                self.faults.push(
                    "`do_center_crop` = true with `do_resize` = false is not supported: it crops images at their original size, \
                     and images of another size are resized here"
                        .into(),
                );
            }
            return (crop, None);
        }
        let idefics = class == Class::Idefics;
        let first = idefics.then(|| self.size(IMAGE_SIZE, false)).flatten();
        let size = first.or_else(|| self.size("size", class.number_is_shorter_side()));
        let size = size.or(class.size());
        let mut fit = Fit {
            filter,
            ..Fit::default()
        };
        let target = match size {
            None => None,
            Some(Size::Shorter(n)) if class == Class::ConvNext => {
                let share = self.real("crop_pct", 224.0 / 256.0);
                if n < CONVNEXT_WHOLE {
                    fit.shorter = Some(((n as f64 / share) as usize).clamp(n, LONGEST as usize));
                }
                Some([n, n])
            }
            Some(Size::Shorter(n)) => {
                fit.shorter = Some(n);
                if crop.is_none() {
                    self.faults.push(
                        "`size` with `shortest_edge` produces images of different sizes without `do_center_crop`".into(),
                    );
                }
                crop
            }
            Some(Size::Exact(exact)) => {
                fit.stretched = crop.filter(|crop| *crop != exact).map(|_| exact);
                crop.or(Some(exact))
            }
        };
        let before = fit.shorter.map(|n| [n, n]).or(fit.stretched);
        if let (Some(before), Some(target)) = (before, target)
            && (target[0] > before[0] || target[1] > before[1])
        {
            self.faults.push(format!(
                "`crop_size` {target:?} is larger than `size` {before:?}; padding is not supported"
            ));
        }
        (target, Some(fit))
    }

    /// A size. A single number means the shorter side if `shorter`, else both sides.
    fn size(&mut self, key: &str, shorter: bool) -> Option<Size> {
        let value = self.get(key)?.clone();
        let length = |v: &Value| {
            v.as_u64()
                .filter(|n| (1..=LONGEST).contains(n))
                .map(|n| n as usize)
        };
        let found = match &value {
            Value::Number(_) if shorter => length(&value).map(Size::Shorter),
            Value::Number(_) => length(&value).map(|n| Size::Exact([n, n])),
            Value::Object(object) => {
                let side = |key: &str| object.get(key).and_then(length);
                match (side("height"), side("width"), side("shortest_edge")) {
                    (Some(height), Some(width), _) => Some(Size::Exact([height, width])),
                    (_, _, Some(n)) if !object.contains_key("longest_edge") => {
                        Some(Size::Shorter(n))
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        if found.is_none() {
            self.faults.push(format!(
                "`{key}` = {value} is not {{height, width}} or {{shortest_edge}}, each 1 to {LONGEST}"
            ));
        }
        found
    }
}
