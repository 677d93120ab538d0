//! Reads HF's config.json: typed keys with the defaults of HF's classes; all faults are collected for one report.

use super::weights::Weights;
use crate::error::{Fault, suggestion};
use crate::nn::feed_forward::Activation;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The largest value accepted for a count. Tables and vectors are allocated by it, so a wrong value in a small file could
/// ask for any amount of memory. Released models stay below a sixteenth of these limits, and below a quarter of those of
/// layers and heads.
fn max_count(key: &str) -> u64 {
    match key {
        "n_layer" | "n_layers" | "num_layers" | "num_hidden_layers" | "num_decoder_layers"
        | "encoder_layers" | "decoder_layers" => 10_000,
        "n_head"
        | "n_heads"
        | "num_heads"
        | "num_attention_heads"
        | "num_kv_heads"
        | "n_head_kv"
        | "num_key_value_heads"
        | "encoder_attention_heads"
        | "decoder_attention_heads" => 4096,
        "vocab_size" => 1 << 24,
        "n_inner" | "d_ff" | "intermediate_size" | "ffn_hidden_size" | "encoder_ffn_dim"
        | "decoder_ffn_dim" => 1 << 22,
        "image_size" | "patch_size" => 1 << 14,
        "num_channels" => 1 << 10,
        "n_positions"
        | "max_position_embeddings"
        | "original_max_position_embeddings"
        | "max_seq_len"
        | "seq_length"
        | "sliding_window"
        | "relative_attention_max_distance" => 1 << 30,
        "head_dim" | "d_kv" | "rotary_dim" | "relative_attention_num_buckets" => 1 << 16,
        // Widths of the model, and counts that are smaller still.
        _ => 1 << 20,
    }
}

/// The values that a real number may have, in words and as a predicate.
fn limits(key: &str) -> (&'static str, fn(f64) -> bool) {
    if key.ends_with("eps") || key.ends_with("epsilon") {
        ("a number above 0 and at most 1", |x| x > 0.0 && x <= 1.0)
    } else if key.contains("drop") {
        ("a number of at least 0 and below 1", |x| {
            (0.0..1.0).contains(&x)
        })
    } else {
        ("a number in the range of 32-bit floats", |_| true)
    }
}

/// HF's names of the supported activation functions.
const ACTIVATIONS: [&str; 8] = [
    "relu",
    "gelu",
    "gelu_new",
    "gelu_pytorch_tanh",
    "silu",
    "relu2",
    "quick_gelu",
    "sigmoid",
];

/// A config.json, with the faults found in it so far.
#[derive(Debug)]
pub struct HfConfig<'a> {
    file: PathBuf,
    value: Value,
    faults: RefCell<Vec<Fault>>,
    warnings: RefCell<Vec<String>>,
    /// Keys that were asked for.
    read: RefCell<BTreeSet<String>>,
    /// The weights beside the file, when there are any.
    weights: Option<&'a Weights>,
}

impl<'a> HfConfig<'a> {
    /// Wraps a parsed file; `file` is named in faults.
    pub fn new(file: impl Into<PathBuf>, value: Value, weights: Option<&'a Weights>) -> Self {
        Self {
            file: file.into(),
            value,
            faults: RefCell::default(),
            warnings: RefCell::default(),
            read: RefCell::default(),
            weights,
        }
    }

    /// Records a fault once, even if a family reads the key several times.
    pub fn fault(&self, message: impl AsRef<str>) {
        let fault = super::fault(&self.file, message);
        let mut faults = self.faults.borrow_mut();
        if !faults.contains(&fault) {
            faults.push(fault);
        }
    }

    /// Quotes the HF keys that stand for our keys `ours`, in brackets to follow a fault; empty if the file has none of
    /// them.
    pub fn quote_keys(&self, ours: &str) -> String {
        match super::hf_keys(&self.value, ours) {
            said if said.is_empty() => String::new(),
            said => format!(" ({})", said.join(", ")),
        }
    }

    /// Whether there is a fault so far.
    pub fn is_faulty(&self) -> bool {
        !self.faults.borrow().is_empty()
    }

    /// Records a note for the user: the transformers class computes something other than the file says.
    pub fn warn(&self, message: impl Into<String>) {
        self.warnings.borrow_mut().push(message.into());
    }

    /// The notes recorded for the user.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// The faults recorded so far.
    pub fn into_faults(self) -> Vec<Fault> {
        self.faults.into_inner()
    }

    /// Keys that have a value and were not asked for, in the order of the file.
    pub fn unread(&self) -> Vec<String> {
        let read = self.read.borrow();
        let entries = self.value.as_object().into_iter().flatten();
        entries
            .filter(|(key, value)| !value.is_null() && !read.contains(*key))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Whether the weights have a tensor of this name; true if there are no weights.
    pub fn has_tensor(&self, name: &str) -> bool {
        self.weights
            .is_none_or(|weights| weights.shape(name).is_some())
    }

    /// Whether the weights are available.
    pub fn has_weights(&self) -> bool {
        self.weights.is_some()
    }

    /// Whether the weights have both tensors and these are not equal.
    pub fn tensors_differ(&self, name: &str, other: &str) -> bool {
        self.weights.is_some_and(|weights| {
            let read = |name| weights.read(name).ok();
            let (one, other) = (read(name), read(other));
            one.is_some() && other.is_some() && one != other
        })
    }

    /// Keys that were asked for.
    pub fn requested_keys(&self) -> Vec<String> {
        self.read.borrow().iter().cloned().collect()
    }

    /// The class that the weights were saved from, such as `BertForMaskedLM`; `None` if the file does not say.
    pub fn architecture(&self) -> Option<&str> {
        let value = self.get("architectures")?;
        let names = value.as_array();
        if !names.is_some_and(|names| names.iter().all(Value::is_string)) {
            self.fault(format!(
                "`architectures` = {value} is not a list of class names, for example [\"BertForMaskedLM\"]"
            ));
        }
        names?.first()?.as_str()
    }

    /// The class names of a classifier, in the order of their ids.
    pub fn classes(&self) -> Vec<String> {
        let names = self.object("id2label");
        let Some(names) = names.filter(|names| !names.is_empty()) else {
            let count = self.count(&["num_labels", "_num_labels"], 2);
            return (0..count).map(|id| format!("LABEL_{id}")).collect();
        };
        let ids = 0..names.len();
        let named: Option<Vec<String>> = ids
            .map(|id| Some(names.get(&id.to_string())?.as_str()?.to_string()))
            .collect();
        named.unwrap_or_else(|| {
            self.fault("`id2label` must name the classes 0, 1, 2 and so on");
            Vec::new()
        })
    }

    /// A nested object, as a config of its own with its own list of faults; empty if absent.
    pub fn nested(&self, key: &str) -> Self {
        let object = self.object(key).cloned().unwrap_or_default();
        Self::new(self.file.clone(), Value::Object(object), self.weights)
    }

    /// An object; reports a fault if the value is of another type.
    fn object(&self, key: &str) -> Option<&Map<String, Value>> {
        self.typed(key, "an object {…}", Value::as_object)
    }

    /// The value of a key as `read` converts it. `None` if it is absent; if it is of another type, also reports a fault
    /// that says what is `wanted`.
    pub fn typed<'v, T>(
        &'v self,
        key: &str,
        wanted: &str,
        read: impl Fn(&'v Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.get(key)?;
        let found = read(value);
        if found.is_none() {
            self.fault(format!("`{key}` = {value} is not {wanted}"));
        }
        found
    }

    /// Takes over the faults of a nested object; its keys that were not asked for are faults, unless they are harmless.
    pub fn merge_faults(&self, nested: Self) {
        for key in nested.unread() {
            if super::harmless::is_harmless(&key) {
                continue;
            }
            if super::harmless::is_harmless_off(&key) {
                nested.only(&key, false);
                continue;
            }
            nested.fault(format!("`{key}` is not known in this object"));
        }
        self.warnings.borrow_mut().extend(nested.warnings());
        self.faults.borrow_mut().extend(nested.into_faults());
    }

    /// The value of a key; `None` if it is absent or null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.note(key);
        self.value.get(key).filter(|v| !v.is_null())
    }

    /// Whether a key is present with the value null, for keys whose null differs from absence.
    pub fn is_null(&self, key: &str) -> bool {
        self.note(key);
        self.value.get(key).is_some_and(Value::is_null)
    }

    fn note(&self, key: &str) {
        self.read.borrow_mut().insert(key.to_string());
    }

    /// The value of the first key present among several names of one count: at least 1, at most the limit; else `default`.
    pub fn count(&self, keys: &[&str], default: usize) -> usize {
        self.count_if_any(keys).unwrap_or(default)
    }

    /// Same as [`Self::count`], but `None` if absent.
    pub fn count_if_any(&self, keys: &[&str]) -> Option<usize> {
        let (key, value) = keys.iter().find_map(|k| Some((k, self.get(k)?)))?;
        let most = max_count(key);
        match value.as_u64() {
            Some(n) if (1..=most).contains(&n) => return Some(n as usize),
            Some(n) if n > most => self.fault(format!("`{key}` = {n} must be at most {most}")),
            _ => self.fault(format!(
                "`{key}` = {value} is not a whole number of at least 1"
            )),
        }
        Some(1)
    }

    /// A finite real number within the limits of the key.
    pub fn real(&self, key: &str, default: f64) -> f64 {
        let (wanted, allowed) = limits(key);
        let sound = |x: &f64| (*x as f32).is_finite() && allowed(*x);
        self.typed(key, wanted, |value| value.as_f64().filter(sound))
            .unwrap_or(default)
    }

    /// A clipping bound above 0; `None` if absent.
    pub fn clip(&self, key: &str) -> Option<f64> {
        let above = |x: &f64| *x > 0.0 && (*x as f32).is_finite();
        self.typed(key, "a number above 0", |value| {
            value.as_f64().filter(above)
        })
    }

    /// A boolean; `default` if absent or null.
    pub fn flag(&self, key: &str, default: bool) -> bool {
        self.typed(key, "true or false", Value::as_bool)
            .unwrap_or(default)
    }

    /// A boolean for which null means false.
    pub fn flag_or_off(&self, key: &str, default: bool) -> bool {
        !self.is_null(key) && self.flag(key, default)
    }

    /// A string; `default` if absent or null.
    pub fn word<'k>(&'k self, key: &str, default: &'k str) -> &'k str {
        let wanted = format!("a name in quotes, for example \"{default}\"");
        self.typed(key, &wanted, Value::as_str).unwrap_or(default)
    }

    /// Reports a fault unless the value of `key` is absent, null or `allowed`.
    pub fn only(&self, key: &str, allowed: impl Into<Value>) {
        let allowed = allowed.into();
        if let Some(value) = self.get(key).filter(|v| **v != allowed) {
            let near = |(a, b): (f64, f64)| (a - b).abs() <= 1e-6 * b.abs();
            if !value.as_f64().zip(allowed.as_f64()).is_some_and(near) {
                self.fault(format!(
                    "`{key}` = {value} is not supported; it must be {allowed}"
                ));
            }
        }
    }

    /// An activation function by its HF name.
    pub fn activation(&self, key: &str, default: &str) -> Activation {
        let wanted = format!(
            "the name of an activation function{}",
            suggestion("", ACTIVATIONS)
        );
        let name = self.typed(key, &wanted, Value::as_str);
        self.activation_named(key, name.unwrap_or(default))
    }

    /// Returns the activation function that HF calls `name`; the fault for an unknown name mentions `key`.
    pub fn activation_named(&self, key: &str, name: &str) -> Activation {
        match name {
            "relu" => Activation::Relu,
            "gelu" | "gelu_python" => Activation::Gelu,
            "gelu_new" | "gelu_fast" | "gelu_pytorch_tanh" => Activation::GeluTanh,
            "silu" | "swish" => Activation::Silu,
            "relu2" => Activation::ReluSquared,
            "quick_gelu" => Activation::QuickGelu,
            "sigmoid" => Activation::Sigmoid,
            other => {
                let hint = suggestion(other, ACTIVATIONS);
                self.fault(format!("`{key}` = \"{other}\" is not supported{hint}"));
                Activation::Gelu
            }
        }
    }
}
