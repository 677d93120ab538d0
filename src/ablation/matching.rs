//! Makes arms comparable: how many steps a budget buys, and which feed-forward width gives an arm the baseline's number
//! of parameters.

use crate::ablation::prepared::Settings;
use crate::experiment::ablation::{AblationConfig, BudgetConfig, Matched};

/// The cost of an arm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Value of `train.steps` in the arm's experiment.
    pub steps: u64,
    /// Number of parameters.
    pub params: usize,
    /// Training FLOPs for each token or image.
    pub flops_per_item: f64,
    /// Tokens or images of a step; for pairs, on both sides; if examples differ in length, the maximum.
    pub items_per_step: f64,
    /// Milliseconds of a step, if measured.
    pub step_ms: Option<f64>,
}

impl Cost {
    /// Returns the FLOPs of a step.
    pub fn flops_per_step(&self) -> f64 {
        self.flops_per_item * self.items_per_step
    }
}

/// Returns whether the number of steps depends on a measured step time.
pub fn needs_timing(config: &AblationConfig) -> bool {
    config.matched == Some(Matched::Time)
        || config.budget.is_some_and(|budget| budget.minutes.is_some())
}

/// Upper bound of steps: more than any run takes, and small enough for a number in an experiment file.
const MOST_STEPS: f64 = 1e12;

/// Determines the steps of an arm: those of its experiment, those that the budget buys, or as many as cost the same as
/// the baseline.
///
/// # Errors
/// If the budget buys no step, or more than can be counted. The message is a clause that follows the arm's name.
pub fn steps(config: &AblationConfig, baseline: &Cost, arm: &Cost) -> Result<u64, String> {
    let of_baseline = |of: fn(&Cost) -> f64| of(baseline) * baseline.steps as f64 / of(arm);
    let steps = match (&config.budget, config.matched) {
        // A budget must not be exceeded, so round down.
        (Some(budget), _) => affordable_steps(budget, arm).floor(),
        (None, None | Some(Matched::Parameters)) => return Ok(arm.steps),
        (None, Some(Matched::Items)) => of_baseline(|c| c.items_per_step).round(),
        (None, Some(Matched::Flops)) => of_baseline(Cost::flops_per_step).round(),
        (None, Some(Matched::Time)) => of_baseline(|c| c.step_ms.unwrap_or(f64::NAN)).round(),
    };
    if !(1.0..=MOST_STEPS).contains(&steps) {
        return Err(format!(
            "would train for {steps:.0} steps; the number must be between 1 and {MOST_STEPS:e}"
        ));
    }
    Ok(steps as u64)
}

fn affordable_steps(budget: &BudgetConfig, arm: &Cost) -> f64 {
    match budget {
        BudgetConfig { steps: Some(n), .. } => *n as f64,
        BudgetConfig { items: Some(n), .. } => *n as f64 / arm.items_per_step,
        BudgetConfig { flops: Some(n), .. } => n / arm.flops_per_step(),
        BudgetConfig {
            minutes: Some(n), ..
        } => n * 60e3 / arm.step_ms.unwrap_or(f64::NAN),
        BudgetConfig {
            steps: None,
            items: None,
            flops: None,
            minutes: None,
        } => arm.steps as f64,
    }
}

/// The key that `match = "parameters"` changes.
pub const WIDTH: &str = "model.feed_forward.d_ff";

/// Returns the setting of an arm that gives [`WIDTH`] a value, by itself or in a table around it: the setting's key,
/// and the value.
pub fn width_setting(settings: &Settings) -> Option<(&str, String)> {
    settings.iter().find_map(|(key, value)| {
        if key == WIDTH {
            return Some((key.as_str(), value.clone()));
        }
        let within = WIDTH.strip_prefix(key.as_str())?.strip_prefix('.')?;
        let table: toml::Table = format!("value = {value}").parse().ok()?;
        let mut found = table.get("value")?;
        for name in within.split('.') {
            found = found.get(name)?;
        }
        Some((key.as_str(), found.to_string()))
    })
}

/// Widths are multiples of this number, to suit vector registers.
const WIDTH_STEP: usize = 8;

/// Returns the width whose parameter count comes nearest to `target`, from the counts at two widths: the count is
/// linear in the width. `None` if the count does not depend on the width, or if no width comes within half a step.
pub fn matching_width(target: usize, [(w0, p0), (w1, p1)]: [(usize, usize); 2]) -> Option<usize> {
    let slope = (p1.checked_sub(p0)? as f64) / (w1.checked_sub(w0)? as f64);
    if slope <= 0.0 || !slope.is_finite() {
        return None;
    }
    let wanted = w0 as f64 + (target as f64 - p0 as f64) / slope;
    let steps = (wanted / WIDTH_STEP as f64).round();
    (steps >= 1.0).then_some(steps as usize * WIDTH_STEP)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(params: usize, flops_per_item: f64, items_per_step: f64) -> Cost {
        Cost {
            steps: 1000,
            params,
            flops_per_item,
            items_per_step,
            step_ms: Some(10.0),
        }
    }

    #[test]
    fn a_model_of_twice_the_flops_takes_half_the_steps() {
        let (base, large) = (cost(10, 60.0, 64.0), cost(20, 120.0, 64.0));
        let config = |matched| AblationConfig {
            matched: Some(matched),
            ..AblationConfig::default()
        };
        assert_eq!(steps(&config(Matched::Flops), &base, &large), Ok(500));
        assert_eq!(steps(&config(Matched::Flops), &base, &base), Ok(1000));
        let batches = cost(10, 60.0, 128.0);
        assert_eq!(steps(&config(Matched::Items), &base, &batches), Ok(500));
        assert_eq!(steps(&config(Matched::Parameters), &base, &large), Ok(1000));
    }

    #[test]
    fn a_budget_is_not_exceeded() {
        let arm = cost(10, 60.0, 64.0);
        let config = |budget| AblationConfig {
            budget: Some(budget),
            ..AblationConfig::default()
        };
        let items = BudgetConfig {
            items: Some(64 * 10 + 63),
            ..BudgetConfig::default()
        };
        assert_eq!(steps(&config(items), &arm, &arm), Ok(10));
        let flops = BudgetConfig {
            flops: Some(60.0 * 64.0 * 7.9),
            ..BudgetConfig::default()
        };
        assert_eq!(steps(&config(flops), &arm, &arm), Ok(7));
        let minutes = BudgetConfig {
            minutes: Some(0.001),
            ..BudgetConfig::default()
        };
        assert_eq!(steps(&config(minutes), &arm, &arm), Ok(6));
        for flops in [1.0, 1e300] {
            let budget = BudgetConfig {
                flops: Some(flops),
                ..BudgetConfig::default()
            };
            assert!(steps(&config(budget), &arm, &arm).is_err());
        }
    }

    #[test]
    fn widths_meet_a_number_of_parameters() {
        let params = |width: usize| 1000 + 30 * width;
        let at = |width| (width, params(width));
        assert_eq!(matching_width(params(256), [at(8), at(64)]), Some(256));
        assert_eq!(matching_width(params(253), [at(8), at(64)]), Some(256));
        assert_eq!(matching_width(10, [at(8), at(64)]), None);
        assert_eq!(matching_width(10, [(8, 5), (64, 5)]), None);
    }
}
