//! Exponentially decayed rates, which follow recent observations.

/// Time constant in seconds: after it an observation weighs 1/e of a new one.
const TIME_CONSTANT: f64 = 30.0;

/// Amount per second over about the last half minute, available from the first observation on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    amount: f64,
    seconds: f64,
}

impl Rate {
    /// Adds an amount that was done within the given seconds.
    pub fn add(&mut self, amount: f64, seconds: f64) {
        let kept = (-seconds.max(0.0) / TIME_CONSTANT).exp();
        self.amount = self.amount * kept + amount;
        self.seconds = self.seconds * kept + seconds.max(0.0);
    }

    /// Returns the amount per second; `None` until amount and time are positive.
    pub fn per_second(&self) -> Option<f64> {
        (self.seconds > 0.0 && self.amount > 0.0).then(|| self.amount / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_there_at_once_and_follows_a_change() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(), None);
        rate.add(1.0, 0.5);
        assert_eq!(rate.per_second(), Some(2.0));
        for _ in 0..100 {
            rate.add(1.0, 0.5);
        }
        assert!((rate.per_second().unwrap() - 2.0).abs() < 1e-9);
        // Two minutes at a tenth of the speed.
        for _ in 0..24 {
            rate.add(1.0, 5.0);
        }
        let now = rate.per_second().unwrap();
        assert!((0.2..0.3).contains(&now), "{now}");
    }
}
