//! Chunks as embeddings, compared by the cosine with every vector of the database.

use super::database::nearest;

/// Number of products that are added in parallel, which the compiler keeps in one register.
const LANES: usize = 16;

/// Vectors of length 1, one for each chunk.
#[derive(Debug)]
pub(super) struct Vectors {
    all: Vec<f32>,
    width: usize,
}

/// Scales vectors to length 1; zero vectors stay unchanged.
fn normalised(mut all: Vec<f32>, width: usize) -> Vec<f32> {
    for vector in all.chunks_mut(width.max(1)) {
        let length = product(vector, vector).sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|x| *x /= length);
        }
    }
    all
}

fn product(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

impl Vectors {
    /// Builds the index from the concatenated vectors of `chunks` chunks.
    pub(super) fn new(all: Vec<f32>, chunks: usize) -> Self {
        let width = all.len() / chunks.max(1);
        Self {
            all: normalised(all, width),
            width,
        }
    }

    /// Returns the nearest `count` chunks to a vector for which `allowed` is true, nearest first.
    pub(super) fn nearest(
        &self,
        query: &[f32],
        count: usize,
        allowed: &dyn Fn(usize) -> bool,
    ) -> Vec<u32> {
        let query = normalised(query.to_vec(), self.width);
        let each = self.all.chunks(self.width.max(1));
        let scores = each.map(|vector| Some(product(vector, &query)));
        nearest(scores, count, allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_are_compared() {
        let all = vec![3.0, 0.0, 0.0, 1.0, -1.0, 0.0, 5.0, 5.0];
        let vectors = Vectors::new(all, 4);
        assert_eq!(vectors.nearest(&[0.1, 0.0], 3, &|_| true), [0, 3, 1]);
        assert_eq!(vectors.nearest(&[0.1, 0.0], 1, &|chunk| chunk > 0), [3]);
        let wide: Vec<f32> = (0..40).map(|x| x as f32).collect();
        let sum: f32 = wide.iter().map(|x| x * x).sum();
        assert!((product(&wide, &wide) - sum).abs() < 1e-3 * sum);
    }
}
