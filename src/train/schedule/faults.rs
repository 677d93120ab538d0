//! Schedules that contradict themselves.

use super::{ScheduleConfig, Warmup, WsdConfig};

impl ScheduleConfig {
    /// Faults of sense, each as a sentence about keys of `[schedule]`, for a run of `total` steps.
    pub fn faults(&self, base: f64, total: u64) -> Vec<String> {
        let mut faults = Vec::new();
        let warmup = self.warmup_steps();
        let ends = match self {
            Self::Linear(c) | Self::Cosine(c) => Some((c.min_lr, c.final_fraction)),
            Self::Wsd(c) => Some((c.min_lr, c.final_fraction)),
            Self::InverseSqrt(c) => Some((Some(c.min_lr), None)),
            Self::Constant(_) | Self::Noam(_) => None,
        };
        match ends {
            Some((Some(_), Some(_))) => {
                faults.push("min_lr and final_fraction say the same thing; keep one".into());
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
            Self::Linear(c) | Self::Cosine(c) if c.decay_steps.unwrap_or(total) <= warmup => {
                faults.push(format!(
                    "warmup_steps = {warmup} leaves nothing of the {} steps to decay over",
                    c.decay_steps.unwrap_or(total)
                ));
            }
            Self::Wsd(c) => c.faults(total, &mut faults),
            Self::InverseSqrt(c) if c.warmup == Warmup::Constant && warmup == 0 => {
                faults.push("warmup = \"constant\" has no effect on warmup_steps = 0".into());
            }
            Self::Noam(c) if c.d_model == Some(0) || c.warmup_steps == 0 => {
                faults.push("noam wants d_model and warmup_steps of 1 or more".into());
            }
            _ => {}
        }
        faults
    }
}

impl WsdConfig {
    fn faults(&self, total: u64, faults: &mut Vec<String>) {
        if self.decay_steps.is_some() && self.decay_fraction.is_some() {
            faults.push("decay_steps and decay_fraction say the same thing; keep one".into());
        } else if let Some(f) = self.decay_fraction.filter(|f| !(0.0..=1.0).contains(f)) {
            faults.push(format!("decay_fraction = {f} is not between 0 and 1"));
        } else if self.decay_length(total) + self.warmup_steps > total {
            faults.push(format!(
                "warmup_steps = {} and a decay of {} steps are more than the {total} of the run",
                self.warmup_steps,
                self.decay_length(total)
            ));
        }
    }
}
