//! How long a whole training step of a decoder language model takes with the fused operations: forward, backward,
//! clipping and AdamW, without data and journal. Prints lines; run it by name with `--ignored`.

use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use formwork::kernel::{self, Activation, AdamwArgs, AttentionMask, AttentionOptions};
use formwork::rng::{Purpose, Stream};

use super::speed::{device, median};

/// A pre-norm decoder language model as `bench/lm_s` and `bench/lm_m` describe it.
struct Decoder {
    shape: [usize; 4],
    heads: usize,
    weights: Vec<Tensor<2>>,
    vectors: Vec<Tensor<1>>,
}

impl Decoder {
    fn new([vocab, seq, d, layers]: [usize; 4], heads: usize) -> Self {
        let plain = Device::flex();
        let weight = |rows, columns| {
            Tensor::<2>::random([rows, columns], Distribution::Normal(0.0, 0.02), &plain)
        };
        let vector = |n, value: f32| Tensor::<1>::full([n], value, &plain);
        let mut weights = vec![weight(vocab, d), weight(seq, d), weight(d, vocab)];
        let mut vectors = vec![vector(d, 1.0), vector(d, 0.0)];
        for _ in 0..layers {
            weights.extend((0..4).map(|_| weight(d, d)));
            weights.extend([weight(d, 4 * d), weight(4 * d, d)]);
            vectors.extend((0..2).flat_map(|_| [vector(d, 1.0), vector(d, 0.0)]));
            vectors.extend((0..4).map(|_| vector(d, 0.0)));
            vectors.extend([vector(4 * d, 0.0), vector(d, 0.0)]);
        }
        Self {
            shape: [vocab, seq, d, layers],
            heads,
            weights,
            vectors,
        }
    }

    fn loss(
        &self,
        w: &[Tensor<2>],
        v: &[Tensor<1>],
        ids: &Tensor<2, Int>,
        targets: &Tensor<1, Int>,
    ) -> Tensor<1> {
        let ([vocab, seq, d, layers], batch) = (self.shape, ids.dims()[0]);
        let norm = |x, i: usize| kernel::layer_norm(x, v[i].clone(), Some(v[i + 1].clone()), 1e-5);
        let linear = |x, i: usize, b: usize| kernel::linear(x, w[i].clone(), Some(v[b].clone()));
        let at = Tensor::<2, Int>::from_data(
            TensorData::new((0..seq as i64).collect::<Vec<_>>(), [1, seq]),
            &device(),
        );
        let positions = kernel::embedding(w[1].clone(), at);
        let mut x = kernel::embedding(w[0].clone(), ids.clone()) + positions;
        let split = |x: Tensor<3>| {
            x.reshape([batch, seq, self.heads, d / self.heads])
                .swap_dims(1, 2)
        };
        let mask = AttentionMask {
            causal: true,
            ..Default::default()
        };
        let options = AttentionOptions {
            scale: 1.0 / ((d / self.heads) as f64).sqrt(),
            softcap: None,
            dropout: None,
        };
        for layer in 0..layers {
            let (wi, vi) = (3 + 6 * layer, 2 + 10 * layer);
            let h = norm(x.clone(), vi);
            let [q, k, u] = [0, 1, 2].map(|i| split(linear(h.clone(), wi + i, vi + 4 + i)));
            let a = kernel::attention(q, k, u, None, mask.clone(), options);
            let a = a.swap_dims(1, 2).reshape([batch, seq, d]);
            x = kernel::add(x, linear(a, wi + 3, vi + 7));
            let h = linear(norm(x.clone(), vi + 2), wi + 4, vi + 8);
            let h = kernel::activate(h, Activation::Gelu);
            x = kernel::add(x, linear(h, wi + 5, vi + 9));
        }
        let logits = kernel::linear(norm(x, 0), w[2].clone(), None);
        let logits = logits.reshape([batch * seq, vocab]);
        kernel::cross_entropy_sum(logits, targets.clone(), 0.0) / (batch * seq) as f64
    }
}

fn step_time(shape: [usize; 4], heads: usize, batch: usize) -> (f64, f32, f32) {
    let mut model = Decoder::new(shape, heads);
    let [vocab, seq, ..] = shape;
    let mut stream = Stream::new(1, Purpose::Split, (0, 0, 0));
    let mut ints =
        |n: usize| -> Vec<i64> { (0..n).map(|_| stream.below(vocab as u64) as i64).collect() };
    let ids = TensorData::new(ints(batch * seq), [batch, seq]);
    let ids = Tensor::<2, Int>::from_data(ids, &device());
    let targets = TensorData::new(ints(batch * seq), [batch * seq]);
    let targets = Tensor::<1, Int>::from_data(targets, &device());
    let zeros2 = |x: &Tensor<2>| (x.zeros_like(), x.zeros_like());
    let zeros1 = |x: &Tensor<1>| (x.zeros_like(), x.zeros_like());
    let mut moments2: Vec<_> = model.weights.iter().map(zeros2).collect();
    let mut moments1: Vec<_> = model.vectors.iter().map(zeros1).collect();
    let (mut time, mut first, mut last) = (0, None, 0.0);
    let ms = median(|| {
        time += 1;
        let args = AdamwArgs {
            lr: 1e-3,
            beta_1: 0.9,
            beta_2: 0.999,
            eps: 1e-8,
            weight_decay: 0.01,
            time,
        };
        let lift2 = |x: &Tensor<2>| Tensor::from_inner(x.clone()).require_grad();
        let lift1 = |x: &Tensor<1>| Tensor::from_inner(x.clone()).require_grad();
        let w: Vec<Tensor<2>> = model.weights.iter().map(lift2).collect();
        let v: Vec<Tensor<1>> = model.vectors.iter().map(lift1).collect();
        let loss = model.loss(&w, &v, &ids, &targets);
        let mut grads = loss.backward();
        let g2: Vec<Tensor<2>> = w
            .iter()
            .map(|x| x.grad_remove(&mut grads).unwrap())
            .collect();
        let g1: Vec<Tensor<1>> = v
            .iter()
            .map(|x| x.grad_remove(&mut grads).unwrap())
            .collect();
        drop((w, v));
        let norm: f64 = g2.iter().map(kernel::sum_of_squares).sum::<f64>()
            + g1.iter().map(kernel::sum_of_squares).sum::<f64>();
        let clip = (1.0 / norm.sqrt()).min(1.0);
        let weights = std::mem::take(&mut model.weights);
        for ((p, g), state) in weights.into_iter().zip(g2).zip(&mut moments2) {
            // Nothing else may hold the moments: their buffers are written in place.
            let (m, s) = std::mem::replace(state, (g.clone(), g.clone()));
            let (p, m, s) = kernel::adamw_step(p, kernel::scale(g, clip), m, s, args);
            *state = (m, s);
            model.weights.push(p);
        }
        let vectors = std::mem::take(&mut model.vectors);
        for ((p, g), state) in vectors.into_iter().zip(g1).zip(&mut moments1) {
            let (m, s) = std::mem::replace(state, (g.clone(), g.clone()));
            let (p, m, s) = kernel::adamw_step(p, kernel::scale(g, clip), m, s, args);
            *state = (m, s);
            model.vectors.push(p);
        }
        last = loss.into_scalar::<f32>();
        first.get_or_insert(last);
    });
    (ms, first.unwrap_or(0.0), last)
}

#[test]
#[ignore = "a measurement"]
fn whole_steps() {
    for (name, shape, heads, batch) in [
        ("lm_s", [65, 64, 128, 4], 4, 12),
        ("lm_w", [8000, 256, 256, 4], 4, 4),
        ("lm_m", [65, 256, 384, 6], 6, 8),
    ] {
        let (ms, first, last) = step_time(shape, heads, batch);
        println!("{name}: {ms:.1} ms a step; loss {first:.4} to {last:.4}");
    }
}
