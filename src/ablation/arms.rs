//! The arms of an `[ablation]`: named arms × grid of axes × random draws, each with a readable name.

use crate::experiment::ablation::{AblationConfig, RandomConfig, RangeConfig};
use crate::experiment::inline;
use crate::report::analyse::arms::short_key;
use crate::rng::{Purpose, Stream, mix};
use toml::Value;

/// A name and the settings that it stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Name of the arm, such as `norm_placement=pre, n_layers=4`.
    pub name: String,
    /// Values by dotted key, in the order of the file.
    pub sets: Vec<(String, Value)>,
}

impl Arm {
    /// Returns the settings as `--set` takes them.
    pub fn overrides(&self) -> Vec<String> {
        let set = |(key, value): &(String, Value)| format!("{key}={}", inline(value));
        self.sets.iter().map(set).collect()
    }
}

/// Returns all arms, in the order of the file: the last axis varies fastest.
pub fn arms(config: &AblationConfig) -> Vec<Arm> {
    let named: Vec<Arm> = config
        .arms
        .iter()
        .map(|arm| Arm {
            name: arm.name.clone(),
            sets: arm.set.clone().into_iter().collect(),
        })
        .collect();
    [named, grid(config), random(config.random.as_ref())]
        .into_iter()
        .filter(|list| !list.is_empty())
        .reduce(|left, right| product(&left, &right))
        .unwrap_or_default()
}

fn product(left: &[Arm], right: &[Arm]) -> Vec<Arm> {
    let joined = |l: &Arm, r: &Arm| Arm {
        name: format!("{}, {}", l.name, r.name),
        sets: l.sets.iter().chain(&r.sets).cloned().collect(),
    };
    left.iter()
        .flat_map(|l| right.iter().map(move |r| joined(l, r)))
        .collect()
}

/// Returns every combination of the values of the axes.
fn grid(config: &AblationConfig) -> Vec<Arm> {
    let keys: Vec<String> = config.axes.keys().cloned().collect();
    let axis = |(key, values): (&String, &Value)| -> Vec<Arm> {
        let values = values.as_array().map_or(&[][..], Vec::as_slice);
        let names = names(values);
        let short = short_key(key, &keys);
        values
            .iter()
            .zip(names)
            .map(|(value, name)| Arm {
                name: format!("{short}={name}"),
                sets: vec![(key.clone(), value.clone())],
            })
            .collect()
    };
    config
        .axes
        .iter()
        .map(axis)
        .reduce(|left, right| product(&left, &right))
        .unwrap_or_default()
}

/// Returns short names of the values of an axis: a table is named by its kind if that is unique.
fn names(values: &[Value]) -> Vec<String> {
    let kind = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Table(table) => match table.get("kind").and_then(Value::as_str) {
            Some(kind) => kind.to_string(),
            None => inline(value),
        },
        other => inline(other),
    };
    let short: Vec<String> = values.iter().map(kind).collect();
    let unique = |name: &String| short.iter().filter(|other| *other == name).count() == 1;
    short
        .iter()
        .zip(values)
        .map(|(name, value)| match unique(name) {
            true => name.clone(),
            false => inline(value),
        })
        .collect()
}

/// Returns the random arms. Draw number n of a key depends only on the seed, n and the key's name.
fn random(config: Option<&RandomConfig>) -> Vec<Arm> {
    let Some(config) = config else {
        return Vec::new();
    };
    let draw = |sample: u64| Arm {
        name: format!("draw {}", sample + 1),
        sets: config
            .ranges
            .iter()
            .map(|(key, range)| (key.clone(), draw_value(config.seed, sample, key, range)))
            .collect(),
    };
    (0..config.samples).map(draw).collect()
}

fn draw_value(seed: u64, sample: u64, key: &str, range: &RangeConfig) -> Value {
    let name = key
        .bytes()
        .fold(0, |name, byte| mix(name ^ u64::from(byte)));
    let mut stream = Stream::new(seed, Purpose::Ablation, (sample, name, 0));
    match range {
        RangeConfig::Uniform(b) => {
            Value::Float(rounded(uniform(&mut stream, b.min, b.max)).clamp(b.min, b.max))
        }
        RangeConfig::Log(b) => {
            let log = uniform(&mut stream, b.min.ln(), b.max.ln());
            Value::Float(rounded(log.exp()).clamp(b.min, b.max))
        }
        RangeConfig::Integer(b) => {
            let span = b.max.abs_diff(b.min).saturating_add(1);
            Value::Integer(b.min.saturating_add_unsigned(stream.below(span)))
        }
        RangeConfig::Choice(c) => c.values[stream.below(c.values.len() as u64) as usize].clone(),
    }
}

fn uniform(stream: &mut Stream, min: f64, max: f64) -> f64 {
    // 53 bits, so that the draw is a double's.
    let unit = (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    min + (max - min) * unit
}

/// Rounds to four significant digits: enough for a setting, and short enough for a table.
fn rounded(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}
