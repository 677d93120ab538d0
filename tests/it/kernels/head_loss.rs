//! The loss of an LM head computed in tiles, against all logits at once: with and without bias, smoothing and unscored
//! positions, over one tile and over several.

use burn::tensor::{Int, Tensor, TensorData};
use formwork::kernel::{self, Head, IGNORE_INDEX, composed};

use super::{bits, close, device, random, tokens, values};

/// Positions, width, vocabulary.
const SIZES: [[usize; 3]; 5] = [
    [1, 1, 1],
    [5, 3, 7],
    [33, 17, 65],
    [130, 24, 300],
    [700, 8, 9000],
];

struct Case {
    hidden: Tensor<2>,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    targets: Tensor<1, Int>,
    smoothing: f64,
}

fn targets(n: usize, vocab: usize, skipped: impl Fn(usize) -> bool) -> Tensor<1, Int> {
    let mut ids = tokens(n, vocab as u64, 5);
    ids.iter_mut()
        .enumerate()
        .filter(|(i, _)| skipped(*i))
        .for_each(|(_, id)| *id = IGNORE_INDEX);
    Tensor::from_data(TensorData::new(ids, [n]), &device())
}

impl Case {
    fn new([n, d, vocab]: [usize; 3], bias: bool, smoothing: f64) -> Self {
        Self {
            hidden: random([n, d], 1),
            weight: random([vocab, d], 2) / (d as f64).sqrt(),
            bias: bias.then(|| random([vocab], 3)),
            targets: targets(n, vocab, |i| i % 4 == 1),
            smoothing,
        }
    }

    /// Returns the loss, the flags, and the gradients of hidden states, weight and bias.
    fn run(
        &self,
        f: impl Fn(Tensor<2>, Head, Tensor<1, Int>, f64) -> kernel::HeadLoss,
    ) -> Vec<Vec<f32>> {
        let hidden = self.hidden.clone().detach().require_grad();
        let head = Head {
            weight: self.weight.clone().detach().require_grad(),
            bias: self.bias.clone().map(|bias| bias.detach().require_grad()),
        };
        let loss = f(
            hidden.clone(),
            head.clone(),
            self.targets.clone(),
            self.smoothing,
        );
        let (value, right) = (values(&loss.sum), values(&loss.is_correct));
        let grads = (loss.sum / 3.0).backward();
        let of_bias = head.bias.map(|bias| values(&bias.grad(&grads).unwrap()));
        let rest = [hidden, head.weight].map(|x| values(&x.grad(&grads).unwrap()));
        [value, right]
            .into_iter()
            .chain(rest)
            .chain(of_bias)
            .collect()
    }
}

#[test]
fn head_losses() {
    for size in SIZES {
        for (bias, smoothing) in [(false, 0.0), (false, 0.1), (true, 0.1), (true, 0.0)] {
            let case = Case::new(size, bias, smoothing);
            let (fused, oracle) = (case.run(kernel::head_loss), case.run(composed::head_loss));
            for (part, (a, b)) in fused.iter().zip(&oracle).enumerate() {
                let what = format!("part {part} of {size:?}, {bias} {smoothing}");
                close(&what, a, b);
            }
        }
    }
}

#[test]
fn a_batch_without_scored_positions_costs_nothing() {
    let case = Case {
        targets: targets(6, 9, |_| true),
        ..Case::new([6, 4, 9], true, 0.1)
    };
    let parts = case.run(kernel::head_loss);
    assert!(parts.iter().flatten().all(|x| *x == 0.0), "{parts:?}");
}

#[test]
fn numbers_that_are_not_finite_reach_the_loss() {
    for wrong in [f32::NAN, f32::INFINITY] {
        let case = Case::new([5, 3, 7], false, 0.0);
        let mut hidden = values(&case.hidden);
        hidden[6] = wrong;
        let case = Case {
            hidden: Tensor::from_data(TensorData::new(hidden, [5, 3]), &device()),
            ..case
        };
        assert!(case.run(kernel::head_loss)[0][0].is_nan());
        assert!(case.run(composed::head_loss)[0][0].is_nan());
    }
}

#[test]
fn head_losses_have_the_same_bits_on_one_thread() {
    let case = Case::new([300, 40, 9000], true, 0.1);
    let run = || -> Vec<Vec<u32>> {
        let parts = case.run(kernel::head_loss);
        let tensor =
            |x: &Vec<f32>| Tensor::<1>::from_data(TensorData::new(x.clone(), [x.len()]), &device());
        parts.iter().map(|x| bits(&tensor(x))).collect()
    };
    let alone = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    assert_eq!(alone.install(run), run());
}
