//! Whether a run is long enough for its warmup and its decay.

use super::wsd::WSD_DECAY;
use super::{DecayConfig, ScheduleConfig, WsdConfig};

/// Key of the warmup in `[schedule]`.
const WARMUP: &str = "warmup_steps";
/// Key of the decay in `[schedule]`.
const DECAY: &str = "decay_steps";
/// Key of the number of cycles in `[schedule]`.
const CYCLES: &str = "cycles";

impl ScheduleConfig {
    /// Returns the fault of a warmup, or of a warmup with a decay, for which a run of `total` steps has no room: a
    /// sentence about keys of `[schedule]`.
    pub fn length_fault(&self, total: u64) -> Option<String> {
        let warmup = self.warmup_steps();
        if warmup > total {
            return Some(format!(
                "{WARMUP} = {warmup} is more than [train] steps = {total}"
            ));
        }
        match self {
            Self::Linear(c) | Self::Cosine(c) => c.misfit(total),
            Self::Polynomial(c) => c.decay().misfit(total),
            Self::CosineRestarts(c) => c.decay().misfit(total).or_else(|| c.length_fault(total)),
            Self::Wsd(c) => c.misfit(total),
            Self::Constant(_) | Self::InverseSqrt(_) | Self::Noam(_) => None,
        }
    }

    /// Returns values of keys of `[schedule]` with which a run of `total` steps, 1 or more, has room: the longest
    /// warmup that fits the decay, and a decay of another length if the configured one leaves no room at all.
    pub fn fitting_values(&self, total: u64) -> Vec<(&'static str, u64)> {
        match self {
            Self::Constant(_) | Self::InverseSqrt(_) | Self::Noam(_) => vec![(WARMUP, total)],
            Self::Linear(c) | Self::Cosine(c) => c.fitting(total),
            Self::Polynomial(c) => c.decay().fitting(total),
            Self::CosineRestarts(c)
                if c.warmup_steps <= total && c.decay().misfit(total).is_none() =>
            {
                let end = c.decay_steps.unwrap_or(total);
                vec![(CYCLES, c.max_cycles_in(end - c.warmup_steps))]
            }
            Self::CosineRestarts(c) => {
                let mut fitting = c.decay().fitting(total);
                fitting.push((CYCLES, 1));
                fitting
            }
            Self::Wsd(c) => match total.checked_sub(c.decay_length(total)) {
                Some(left) => vec![(WARMUP, left)],
                None => {
                    let decay = (WSD_DECAY * total as f64).round() as u64;
                    let left = total.saturating_sub(decay);
                    vec![(WARMUP, c.warmup_steps.min(left)), (DECAY, decay)]
                }
            },
        }
    }
}

impl DecayConfig {
    fn fitting(&self, total: u64) -> Vec<(&'static str, u64)> {
        match self.decay_steps.unwrap_or(total) {
            0 => {
                let left = total.saturating_sub(1);
                vec![(WARMUP, self.warmup_steps.min(left)), (DECAY, total)]
            }
            end => vec![(WARMUP, total.min(end - 1))],
        }
    }

    fn misfit(&self, total: u64) -> Option<String> {
        let (warmup, end) = (self.warmup_steps, self.decay_steps.unwrap_or(total));
        (end <= warmup).then(|| match self.decay_steps {
            Some(_) => format!(
                "{WARMUP} = {warmup} leaves no steps for a decay that ends at {DECAY} = {end}"
            ),
            None => {
                format!("{WARMUP} = {warmup} leaves none of [train] steps = {end} for the decay")
            }
        })
    }
}

impl WsdConfig {
    /// `None` if the length of the decay is itself a fault.
    fn misfit(&self, total: u64) -> Option<String> {
        let decay = self.decay_length(total);
        if self.fault().is_some() || decay.saturating_add(self.warmup_steps) <= total {
            return None;
        }
        let decay = match self.decay_steps {
            Some(_) => format!("{DECAY} = {decay}"),
            None => format!("a decay of {decay} steps"),
        };
        Some(format!(
            "{WARMUP} = {} and {decay} are more than [train] steps = {total}",
            self.warmup_steps
        ))
    }
}
