//! The weights of LSH attention for probes and records, computed query by query in plain loops.

use crate::kernel;
use crate::kernel::sorted_chunks::{SELF_SCORE, SortedSettings};
use crate::nn::attention::entropy::spread_indices;
use crate::nn::pass::Pass;
use crate::nn::probe::ProbeSample;
use burn::tensor::{Tensor, TensorData};

/// The arguments of the kernel.
pub(super) struct WeightArgs<'a> {
    /// The newest queries, `[batch, heads, queries, d_head]`.
    pub q: &'a Tensor<4>,
    /// All keys, `[batch, heads, tokens, d_head]`.
    pub k: &'a Tensor<4>,
    /// The plan of chunks and the visibility of keys.
    pub settings: &'a SortedSettings,
}

/// One head of one row of the batch.
struct HeadWeights {
    /// Position of the first query.
    first: usize,
    q: Vec<f32>,
    k: Vec<f32>,
    d_head: usize,
    /// Index of each position in the sorted order of each round.
    places: Vec<usize>,
    row: usize,
    head: usize,
}

impl WeightArgs<'_> {
    /// Notes entropies and records all weights, as the pass asks.
    pub(super) fn observe(&self, pass: &Pass, layer: usize) {
        if let Some(probe) = pass.probe()
            && let Some(sample) = probe.sample()
        {
            probe.note_entropy(self.entropy(sample), false);
        }
        if let Some(record) = pass.record().filter(|record| record.keeps_attentions()) {
            record.note_attention(layer, false, self.all());
        }
    }

    /// Returns the mean entropy in nats over heads and some queries of a row, padding left out.
    fn entropy(&self, ProbeSample { row, length, .. }: ProbeSample) -> f64 {
        let wanted = self.settings.wanted_queries();
        let queries = spread_indices(length.unwrap_or(wanted.len()).clamp(1, wanted.len()));
        let lengths = self.settings.visible.lengths.as_ref();
        let tokens = lengths.map_or(usize::MAX, |lengths| lengths[row]);
        let places = queries.into_iter().map(|query| wanted.start + query);
        let places: Vec<usize> = places.filter(|query| *query < tokens).collect();
        let [_, heads, _, _] = self.q.dims();
        let mut sum = 0.0;
        for head in (0..heads).map(|head| self.head(row, head)) {
            for query in &places {
                let weights = head.weights(self.settings, *query).into_iter();
                let terms = weights.filter(|w| *w > 0.0).map(|w| -w * w.ln());
                sum += terms.sum::<f64>();
            }
        }
        sum / (heads * places.len()).max(1) as f64
    }

    /// Returns all weights, `[batch, heads, queries, keys]`.
    fn all(&self) -> Tensor<4> {
        let ([batch, heads, tokens, _], wanted) = (self.k.dims(), self.settings.wanted_queries());
        let mut all = Vec::with_capacity(batch * heads * wanted.len() * tokens);
        for (row, head) in (0..batch).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            let head = self.head(row, head);
            for query in wanted.clone() {
                let weights = head.weights(self.settings, query).into_iter();
                all.extend(weights.map(|w| w as f32));
            }
        }
        let data = TensorData::new(all, [batch, heads, wanted.len(), tokens]);
        Tensor::from_data(data, &kernel::untracked(self.q.clone()).device())
    }

    fn head(&self, row: usize, head: usize) -> HeadWeights {
        let [_, _, tokens, d_head] = self.k.dims();
        let numbers = |x: &Tensor<4>| -> Vec<f32> {
            let x = x.clone().narrow(0, row, 1).narrow(1, head, 1);
            kernel::read(kernel::untracked(x)).iter::<f32>().collect()
        };
        let plan = &self.settings.plan;
        let padded = plan.sizes().padded();
        let mut places = vec![0; plan.sizes().rounds * tokens];
        for (place, position) in plan.order(row, head).iter().enumerate() {
            let position = *position as usize;
            if position < tokens {
                places[place / padded * tokens + position] = place;
            }
        }
        let [_, _, queries, _] = self.q.dims();
        HeadWeights {
            first: tokens - queries,
            q: numbers(self.q),
            k: numbers(self.k),
            d_head,
            places,
            row,
            head,
        }
    }
}

impl HeadWeights {
    /// Returns the weight of every key for a query: one softmax over the keys of all rounds.
    fn weights(&self, settings: &SortedSettings, query: usize) -> Vec<f64> {
        let (plan, d) = (&settings.plan, self.d_head);
        let sizes = plan.sizes();
        let order = plan.order(self.row, self.head);
        let of = |x: &[f32], position: usize| x[position * d..][..d].to_vec();
        let own = of(&self.q, query - self.first);
        let mut met: Vec<(usize, f64)> = Vec::new();
        for round in 0..sizes.rounds {
            let chunk = self.places[round * sizes.tokens + query] / sizes.chunk;
            for distance in -(sizes.back as isize)..=sizes.ahead as isize {
                let chunk = plan.neighbour(chunk, distance);
                for key in &order[chunk * sizes.chunk..][..sizes.chunk] {
                    let key = *key as usize;
                    if key == query {
                        met.push((key, f64::from(SELF_SCORE)));
                    } else if settings.sees(self.row, query, key) {
                        let of_key = of(&self.k, key);
                        let pairs = own.iter().zip(&of_key);
                        let score: f64 = pairs.map(|(q, k)| f64::from(q * k)).sum();
                        met.push((key, score * settings.scale));
                    }
                }
            }
        }
        let largest = met.iter().map(|(_, score)| *score).fold(f64::MIN, f64::max);
        let mut weights = vec![0.0; sizes.tokens];
        let mut total = 0.0;
        for (key, score) in met {
            let weight = (score - largest).exp();
            weights[key] += weight;
            total += weight;
        }
        weights.iter_mut().for_each(|weight| *weight /= total);
        weights
    }
}
