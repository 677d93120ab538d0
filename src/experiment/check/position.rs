//! The sense of `[model] position`.

use super::Sense;
use super::model::{LONGEST, WIDEST};
use crate::nn::position::PositionConfig;
use crate::nn::position::rotary::{RotaryConfig, ScalingConfig};

/// Faults of a position scheme for heads of width `head` and inputs of `context` tokens, as far as these are known.
pub(super) fn check(
    sense: &mut Sense,
    position: &PositionConfig,
    head: Option<usize>,
    context: Option<usize>,
) {
    match position {
        PositionConfig::None(_) => {}
        PositionConfig::Sinusoidal(c) => sense.positive("model.position.base", c.base),
        PositionConfig::Learned(c) => table(sense, c.max_len, c.first, context),
        PositionConfig::LearnedPerLayer(c) => table(sense, c.max_len, 0, context),
        PositionConfig::Sinusoidal2d(c) => sense.positive("model.position.base", c.base),
        PositionConfig::Rotary(c) => rotary(sense, c, head),
        PositionConfig::Alibi(c) => sense.positive("model.position.max_exponent", c.max_exponent),
        PositionConfig::RelativeBias(c) => {
            let (buckets, most) = (c.buckets, c.max_distance);
            if sense.count("model.position.buckets", buckets, WIDEST) && buckets < 2 {
                sense.fault(&["model.position.buckets"], "buckets = 1 must be 2 or more");
            } else if most <= buckets / 2 || most > LONGEST {
                let half = buckets / 2;
                sense.fault(
                    &["model.position.max_distance", "model.position.buckets"],
                    format!("max_distance = {most} is not between {half}, half of the buckets, and {LONGEST}"),
                );
            }
        }
    }
}

/// A learned table must reach as far as the inputs.
fn table(sense: &mut Sense, max_len: Option<usize>, first: usize, context: Option<usize>) {
    if first > LONGEST || max_len.is_some_and(|rows| first > 0 && first >= rows) {
        sense.fault(
            &["model.position.first", "model.position.max_len"],
            format!("first = {first} leaves no row of the table for a position"),
        );
        return;
    }
    let Some(rows) = max_len else { return };
    if !sense.count("model.position.max_len", rows, LONGEST) {
        return;
    }
    if let Some(context) = context.filter(|context| *context > rows - first) {
        sense.fault(
            &["model.position.max_len", "data.context"],
            format!("max_len = {rows} is shorter than the context of {context} tokens; leave it out to follow the data"),
        );
    }
}

fn rotary(sense: &mut Sense, c: &RotaryConfig, head: Option<usize>) {
    let key = |name: &str| format!("model.position.{name}");
    sense.positive(&key("theta"), c.theta);
    if !(c.fraction > 0.0 && c.fraction <= 1.0) {
        let rule = format!("fraction = {:?} must be above 0 and at most 1", c.fraction);
        sense.fault(&[&key("fraction")], rule);
    } else if let Some(head) = head {
        let rotated = (head as f64 * c.fraction) as usize;
        let keys = [
            &key("fraction"),
            "model.attention.d_head",
            "model.attention.n_heads",
            "model.d_model",
        ];
        if rotated < 2 || !rotated.is_multiple_of(2) {
            sense.fault(
                &keys,
                format!(
                    "rotary positions turn pairs, but fraction = {:?} of a head of {head} is {rotated} elements; \
                     make it even and at least 2",
                    c.fraction
                ),
            );
        } else if rotated == 2 && matches!(c.scaling, ScalingConfig::Ntk(_)) {
            sense.fault(
                &["model.position.scaling.kind"],
                "kind = \"ntk\" needs 4 or more rotated elements in a head",
            );
        }
    }
    scaling(sense, &c.scaling);
}

fn scaling(sense: &mut Sense, scaling: &ScalingConfig) {
    let key = |name: &str| format!("model.position.scaling.{name}");
    let (factor, original) = match scaling {
        ScalingConfig::None(_) => return,
        ScalingConfig::Linear(c) => (c.factor, None),
        ScalingConfig::Ntk(c) => (c.factor, None),
        ScalingConfig::Yarn(c) => {
            if !(c.beta_slow > 0.0 && c.beta_fast > c.beta_slow) {
                let rule = format!(
                    "beta_fast = {:?} must be above beta_slow = {:?}, and both above 0",
                    c.beta_fast, c.beta_slow
                );
                sense.fault(&[&key("beta_fast"), &key("beta_slow")], rule);
            }
            (c.factor, Some(c.original_context))
        }
        ScalingConfig::Llama3(c) => {
            let (low, high) = (c.low_freq_factor, c.high_freq_factor);
            if !(low > 0.0 && high > low) {
                let rule = format!(
                    "high_freq_factor = {high:?} must be above low_freq_factor = {low:?}, and both above 0"
                );
                sense.fault(&[&key("high_freq_factor"), &key("low_freq_factor")], rule);
            }
            (c.factor, Some(c.original_context))
        }
    };
    if !(factor >= 1.0 && factor.is_finite()) {
        sense.fault(
            &[&key("factor")],
            format!("factor = {factor:?} must be 1 or more"),
        );
    }
    sense.count(&key("original_context"), original.unwrap_or(1), LONGEST);
}
