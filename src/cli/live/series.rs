//! Curves of any length in bounded memory: neighbouring points are merged when there are too many.

/// Maximum number of points of a curve; a terminal shows fewer.
const MOST: usize = 1024;

/// A curve: values by step.
#[derive(Clone, Debug, Default)]
pub struct Series {
    points: Vec<(f64, f64)>,
    /// Number of values that each point averages.
    each: usize,
    /// Sums of steps and values of the unfinished point, and the number of its values.
    partial_point: (f64, f64, usize),
}

impl Series {
    /// Adds a value; values that are not finite are ignored.
    pub fn push(&mut self, step: u64, value: f64) {
        if !value.is_finite() {
            return;
        }
        let each = self.each.max(1);
        let (steps, sum, count) = self.partial_point;
        self.partial_point = (steps + step as f64, sum + value, count + 1);
        if self.partial_point.2 < each {
            return;
        }
        let (steps, sum, count) = std::mem::take(&mut self.partial_point);
        self.points.push((steps / count as f64, sum / count as f64));
        if self.points.len() > MOST {
            self.each = each * 2;
            let joined = self.points.chunks_exact(2);
            self.points = joined
                .map(|pair| ((pair[0].0 + pair[1].0) / 2.0, (pair[0].1 + pair[1].1) / 2.0))
                .collect();
        }
    }

    /// The finished points.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The running mean of the points over a fiftieth of the curve, for values that fluctuate from step to step.
    pub fn smooth(&self) -> Vec<(f64, f64)> {
        let weight = 1.0 / (self.points.len() as f64 / 50.0).max(1.0);
        let mut mean = None;
        let points = self.points.iter().map(|&(step, value)| {
            let next = mean.map_or(value, |mean: f64| mean + weight * (value - mean));
            mean = Some(next);
            (step, next)
        });
        points.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_shape_in_few_points() {
        let mut series = Series::default();
        for step in 1..=100_000 {
            series.push(step, step as f64 / 1e5);
        }
        series.push(100_001, f64::NAN);
        let points = series.points();
        assert!(points.len() > MOST / 2 - 1 && points.len() <= MOST);
        assert!(
            points
                .iter()
                .all(|(step, value)| (step / 1e5 - value).abs() < 1e-9)
        );
        let last = series.smooth().last().copied().unwrap();
        assert!((0.97..1.0).contains(&last.1), "{last:?}");
    }
}
