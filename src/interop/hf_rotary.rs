//! Rotary positions in a config.json (Su et al. 2021): keys in one object since version 5 of transformers, separate
//! top-level keys before.

use super::HfConfig;
use crate::error::suggestion;
use crate::nn::position::rotary::{
    LinearScalingConfig, Llama3ScalingConfig, LongropeScalingConfig, NoScalingConfig, RotaryConfig,
    ScalingConfig, YarnScalingConfig,
};
use serde_json::Value;

/// The fraction of each head that is rotated.
const FRACTION: &str = "partial_rotary_factor";

/// The context length before scaling.
const ORIGINAL_CONTEXT: &str = "original_max_position_embeddings";

/// A family's own key names and default values.
#[derive(Clone, Copy, Debug)]
pub struct RotaryKeys {
    /// The key of the base outside the object.
    pub theta: &'static str,
    /// The default base.
    pub default_theta: f64,
    /// The key of the rotated fraction outside the object, and its default; `None` for a family that rotates whole heads.
    pub fraction: Option<(&'static str, f64)>,
    /// The class's own original context length, for classes that use one when none is given outside the object.
    pub original_context: Option<usize>,
}

/// The key names and defaults of most families.
pub const WHOLE_HEADS: RotaryKeys = RotaryKeys {
    theta: "rope_theta",
    default_theta: 10_000.0,
    fraction: None,
    original_context: None,
};

impl HfConfig<'_> {
    /// Reads rotary positions from `rope_scaling`, or else from `rope_parameters`; keys missing in that object are looked up
    /// outside of it. `context` stands in for a missing original length.
    pub fn rotary(&self, keys: RotaryKeys, context: usize) -> RotaryConfig {
        let given = |key: &&str| {
            let value = self.get(key);
            // Python's `or` skips an empty object in the same way.
            value.is_some_and(|value| value.as_object().is_none_or(|object| !object.is_empty()))
        };
        let given: Vec<&str> = ["rope_scaling", "rope_parameters"]
            .into_iter()
            .filter(given)
            .collect();
        if given.len() == 2 {
            self.warn("`rope_parameters` has no effect with `rope_scaling`, as in transformers 5");
        }
        let scaling = self.nested(given.first().unwrap_or(&"rope_parameters"));
        let theta = self.real(keys.theta, keys.default_theta);
        let original = self
            .count_if_any(&[ORIGINAL_CONTEXT])
            .or(keys.original_context);
        let config = RotaryConfig {
            theta: scaling.real("rope_theta", theta),
            fraction: match keys.fraction {
                // With a null outside the object, the class does not use the family's default fraction.
                Some((FRACTION, _)) if self.is_null(FRACTION) => scaling.real(FRACTION, 1.0),
                Some((key, usual)) => scaling.real(FRACTION, self.real(key, usual)),
                None => 1.0,
            },
            // The class prefers the length outside the object to the one inside.
            scaling: scaling.rope_scaling(original, context),
            ..RotaryConfig::default()
        };
        if keys.fraction.is_none() {
            self.require_whole_heads();
            scaling.require_whole_heads();
        }
        if config.theta <= 0.0 {
            let theta = config.theta;
            self.fault(format!("`{}` = {theta} must be above 0", keys.theta));
        }
        self.merge_faults(scaling);
        config
    }

    /// Reads rotary positions of whole heads from one object of keys.
    pub fn rotary_in(&self, object: &str, usual_theta: f64, context: usize) -> RotaryConfig {
        let keys = self.nested(object);
        let theta = keys.real("rope_theta", usual_theta);
        if theta <= 0.0 {
            keys.fault(format!("`rope_theta` = {theta} must be above 0"));
        }
        keys.require_whole_heads();
        let config = RotaryConfig {
            theta,
            scaling: keys.rope_scaling(None, context),
            ..RotaryConfig::default()
        };
        self.merge_faults(keys);
        self.for_layer_kind(config, object)
    }

    /// Adapts the positions of one kind of layers: their classes look for YaRN's `truncate` outside the objects of the
    /// kinds, and so always use true.
    pub fn for_layer_kind(&self, mut config: RotaryConfig, object: &str) -> RotaryConfig {
        if let ScalingConfig::Yarn(yarn) = &mut config.scaling
            && !yarn.truncate
        {
            yarn.truncate = true;
            self.warn(format!(
                "`truncate` = false of `{object}` has no effect: the class of transformers always uses true, and so does this model"
            ));
        }
        config
    }

    /// Reports a fault for each of two names of the same rotary setting, the family's own and that of other families, whose
    /// value differs from the one that the transformers class takes. The class takes the other name's value in `rope_parameters`,
    /// else the own name's value, else the default.
    pub fn require_agreement(&self, [own, other]: [&str; 2], taken: f64) {
        let nested = ["rope_scaling", "rope_parameters"].into_iter();
        let nested = nested.filter(|object| self.get(object).is_some_and(|o| !o[other].is_null()));
        let nested = nested.last();
        for key in [own, other] {
            let Some(value) = self.get(key) else { continue };
            let near = |x: f64| (x - taken).abs() <= 1e-6 * taken.abs();
            if value.as_f64().is_some_and(near) {
                continue;
            }
            let taken = match (nested, self.get(own)) {
                (Some(object), _) => format!("`{other}` = {taken} in `{object}`"),
                (None, Some(given)) => format!("`{own}` = {given}"),
                (None, None) => format!("`{own}` = {taken}, the default"),
            };
            self.fault(format!(
                "`{key}` = {value} and {taken} disagree; the class of transformers uses the latter: remove `{key}` or pass --ignore-key {key}"
            ));
        }
    }

    /// Reports a fault if only a part of each head is rotated: the class rotates whole heads, or fails.
    fn require_whole_heads(&self) {
        if let Some(part) = self.get(FRACTION).filter(|part| part.as_f64() != Some(1.0)) {
            self.fault(format!(
                "`{FRACTION}` = {part} is not supported: the class of transformers rotates whole heads; it must be 1.0"
            ));
        }
    }

    /// YaRN's factor on cosines and sines; `None` if it is the one that follows from `factor` only.
    fn attention_factor(&self, factor: f64) -> Option<f64> {
        let usual = yarn_mscale(factor, 1.0);
        let derived = match ["mscale", "mscale_all_dim"].map(|key| self.real(key, 0.0)) {
            [0.0, _] | [_, 0.0] => usual,
            [above, below] => yarn_mscale(factor, above) / yarn_mscale(factor, below),
        };
        let taken = self.real("attention_factor", derived);
        if taken <= 0.0 {
            self.fault(format!(
                "the rope scaling factor {taken} of cosines and sines must be above 0"
            ));
        }
        let near = (taken - usual).abs() <= 1e-6 * usual;
        (!near).then_some(taken)
    }

    /// The factor on all attention scores in families that, besides the rotation, scale the scores by `mscale_all_dim`.
    pub fn score_scale(&self) -> f64 {
        let given = ["rope_scaling", "rope_parameters"].into_iter();
        let mut given = given.filter_map(|key| self.get(key)?.as_object());
        let Some(scaling) = given.find(|object| !object.is_empty()) else {
            return 1.0;
        };
        let number = |key: &str| scaling.get(key).and_then(Value::as_f64);
        match (number("factor"), number("mscale_all_dim")) {
            (Some(factor), Some(all)) if all != 0.0 => yarn_mscale(factor, all).powi(2),
            _ => 1.0,
        }
    }

    /// Reads LongRoPE's two lists, and its factor on cosines and sines or the length ratio that the factor follows from. If the
    /// file gives neither, the ratio is that of the two context lengths.
    fn longrope(&self, original_context: usize, context: usize) -> LongropeScalingConfig {
        let factors = |key: &str| {
            if self.get(key).is_none() {
                let rule = "a list with one number for each pair of rotated elements of a head";
                self.fault(format!("rope scaling \"longrope\" needs `{key}`, {rule}"));
            }
            self.typed(key, "a list of numbers", numbers)
        };
        let factor = self.real("factor", context as f64 / original_context as f64);
        let magnitude = self.get("attention_factor").is_some();
        let magnitude = magnitude.then(|| self.real("attention_factor", 1.0));
        if let Some(taken) = magnitude.filter(|taken| *taken <= 0.0) {
            self.fault(format!("`attention_factor` = {taken} must be above 0"));
        }
        LongropeScalingConfig {
            short_factor: factors("short_factor").unwrap_or_default(),
            long_factor: factors("long_factor").unwrap_or_default(),
            original_context,
            // The class raises lower values to 1.
            factor: magnitude.is_none().then_some(factor.max(1.0)),
            magnitude,
        }
    }

    /// Reports a fault for each number that this kind of rope scaling needs, and has no default for, but lacks.
    fn require_numbers(&self, kind: &str, keys: &[&str]) {
        for key in keys.iter().filter(|key| self.get(key).is_none()) {
            self.fault(format!("rope scaling \"{kind}\" needs `{key}`, a number"));
        }
    }

    /// Reads YaRN's settings from this object.
    fn yarn(&self, original_context: usize, context: usize) -> YarnScalingConfig {
        let factor = match self.is_null("factor") {
            // The ratio of the two lengths, as in the class.
            true => context as f64 / original_context as f64,
            false => {
                self.require_numbers("yarn", &["factor"]);
                self.real("factor", 1.0)
            }
        };
        YarnScalingConfig {
            factor,
            original_context,
            beta_fast: self.real("beta_fast", 32.0),
            beta_slow: self.real("beta_slow", 1.0),
            magnitude: self.attention_factor(factor),
            truncate: self.flag("truncate", true),
        }
    }

    /// Reads this object as a rope scaling; `beside` is the original context length given outside of it.
    fn rope_scaling(&self, beside: Option<usize>, context: usize) -> ScalingConfig {
        let original = || {
            let within = self.count(&[ORIGINAL_CONTEXT], context);
            beside.unwrap_or(within)
        };
        let factor = self.real("factor", 1.0);
        if factor <= 0.0 {
            self.fault(format!("rope scaling `factor` = {factor} must be above 0"));
        }
        match self.word("rope_type", self.word("type", "default")) {
            "default" => ScalingConfig::None(NoScalingConfig {}),
            "linear" => {
                self.require_numbers("linear", &["factor"]);
                ScalingConfig::Linear(LinearScalingConfig { factor })
            }
            "yarn" => ScalingConfig::Yarn(self.yarn(original(), context)),
            "llama3" => {
                let keys = ["factor", "low_freq_factor", "high_freq_factor"];
                self.require_numbers("llama3", &keys);
                ScalingConfig::Llama3(Llama3ScalingConfig {
                    factor,
                    original_context: original(),
                    low_freq_factor: self.real("low_freq_factor", 1.0),
                    high_freq_factor: self.real("high_freq_factor", 4.0),
                })
            }
            // "su" is the older name.
            "longrope" | "su" => ScalingConfig::Longrope(self.longrope(original(), context)),
            other => {
                let allowed = ["default", "linear", "yarn", "llama3", "longrope"];
                let hint = suggestion(other, allowed);
                self.fault(format!("rope scaling \"{other}\" is not supported{hint}"));
                ScalingConfig::None(NoScalingConfig {})
            }
        }
    }
}

/// Whether these positions can be those of one kind of layers, as [`HfConfig::for_layer_kind`] reads them.
pub fn fits_per_layer_kind(rotary: &RotaryConfig) -> bool {
    !matches!(&rotary.scaling, ScalingConfig::Yarn(yarn) if !yarn.truncate)
}

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(Value::as_f64).collect()
}

/// YaRN's factor on queries and keys for texts `factor` times as long: `0.1·scale·ln(factor) + 1` (Peng et al. 2024, section
/// 3.3).
pub fn yarn_mscale(factor: f64, scale: f64) -> f64 {
    0.1 * scale * factor.max(1.0).ln() + 1.0
}
