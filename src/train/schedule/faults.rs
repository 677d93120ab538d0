//! Schedules that contradict themselves.

use super::{ScheduleConfig, Warmup};

impl ScheduleConfig {
    /// Returns contradictory or invalid values, each as a sentence about keys of `[schedule]`, for a full learning rate
    /// of `base`. Faults that depend on the length of the run are in [`ScheduleConfig::length_fault`].
    pub fn faults(&self, base: f64) -> Vec<String> {
        let mut faults = Vec::new();
        let warmup = self.warmup_steps();
        let ends = match self {
            Self::Linear(c) | Self::Cosine(c) => Some((c.min_lr, c.final_fraction)),
            Self::Wsd(c) => Some((c.min_lr, c.final_fraction)),
            Self::Polynomial(c) => Some((c.min_lr, c.final_fraction)),
            Self::CosineRestarts(c) => Some((c.min_lr, c.final_fraction)),
            Self::InverseSqrt(c) => Some((Some(c.min_lr), None)),
            Self::Constant(_) | Self::Noam(_) => None,
        };
        match ends {
            Some((Some(_), Some(_))) => {
                faults.push(
                    "min_lr and final_fraction both set the final learning rate; keep one".into(),
                );
            }
            Some((Some(low), None)) if !(0.0..=base).contains(&low) => {
                faults.push(format!("min_lr = {low} is not between 0 and lr = {base}"));
            }
            Some((None, Some(f))) if !(0.0..=1.0).contains(&f) => {
                faults.push(format!("final_fraction = {f} is not between 0 and 1"));
            }
            _ => {}
        }
        match self {
            Self::Wsd(c) => faults.extend(c.fault()),
            Self::Polynomial(c) => faults.extend(c.fault()),
            Self::CosineRestarts(c) => faults.extend(c.fault()),
            Self::InverseSqrt(c) if c.warmup == Warmup::Constant && warmup == 0 => {
                faults.push("warmup = \"constant\" has no effect with warmup_steps = 0".into());
            }
            Self::Noam(c) if c.d_model == Some(0) || c.warmup_steps == 0 => {
                faults.push("noam needs d_model and warmup_steps of 1 or more".into());
            }
            _ => {}
        }
        faults
    }
}
