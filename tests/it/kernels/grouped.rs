//! Grouped products against their composed implementations: uneven groups, empty ones, choices without a group; the same bits
//! for any number of threads (`contracts`) and in every run.

use burn::tensor::Tensor;
use formwork::kernel::grouped::{Groups, combine, composed, gather, grouped_linear};
use formwork::rng::{Purpose, Stream};

use super::{bits, close, random, values};

/// Tokens, choices, groups, d_in, d_out.
const SIZES: [[usize; 5]; 5] = [
    [1, 1, 1, 1, 1],
    [5, 2, 7, 3, 4],
    [40, 2, 4, 17, 33],
    [33, 3, 3, 64, 48],
    [700, 2, 8, 64, 96],
];

/// The choices of some tokens; if there are several groups, no choice takes the last, and every fifth choice has no group.
fn groups([tokens, choices, groups, ..]: [usize; 5]) -> Groups {
    let mut stream = Stream::new(3, Purpose::Split, (tokens as u64, 0, 0));
    let most = groups.max(2) as u64 - 1;
    let chosen: Vec<Option<usize>> = (0..tokens * choices)
        .map(|i| (i % 5 != 4).then(|| stream.below(most) as usize))
        .collect();
    Groups::new(&chosen, choices, groups)
}

struct Leaves {
    x: Tensor<2>,
    weight: Tensor<3>,
    bias: Option<Tensor<2>>,
    gates: Tensor<2>,
}

/// Returns the sum of each token's outputs, and the gradients of all leaves.
fn run(
    size: [usize; 5],
    biased: bool,
    f: impl Fn(&Leaves, &Groups) -> Tensor<2>,
) -> Vec<Tensor<1>> {
    let [tokens, choices, count, d_in, d_out] = size;
    let leaves = Leaves {
        x: random([tokens, d_in], 1).require_grad(),
        weight: (random([count, d_out, d_in], 2) / (d_in as f64).sqrt())
            .detach()
            .require_grad(),
        bias: biased.then(|| random([count, d_out], 3).require_grad()),
        gates: random([tokens, choices], 4).require_grad(),
    };
    let y = f(&leaves, &groups(size));
    let weights = random(y.dims(), 99);
    let grads = (y.clone() * weights).sum().backward();
    let flat = |x: Tensor<2>| {
        let n = x.shape().num_elements();
        x.reshape([n])
    };
    let of_weight = leaves.weight.grad(&grads).unwrap();
    let n = of_weight.shape().num_elements();
    let mut all = vec![
        flat(y.inner()),
        flat(leaves.x.grad(&grads).unwrap()),
        flat(leaves.gates.grad(&grads).unwrap()),
        of_weight.reshape([n]),
    ];
    all.extend(leaves.bias.map(|bias| flat(bias.grad(&grads).unwrap())));
    all
}

fn fused(leaves: &Leaves, groups: &Groups) -> Tensor<2> {
    let rows = gather(leaves.x.clone(), groups);
    let y = grouped_linear(rows, leaves.weight.clone(), leaves.bias.clone(), groups);
    combine(y, leaves.gates.clone(), groups)
}

fn plain(leaves: &Leaves, groups: &Groups) -> Tensor<2> {
    let rows = composed::gather(leaves.x.clone(), groups);
    let y = composed::grouped_linear(rows, leaves.weight.clone(), leaves.bias.clone(), groups);
    composed::combine(y, leaves.gates.clone(), groups)
}

#[test]
fn grouped_products() {
    for size in SIZES {
        for biased in [false, true] {
            let (ours, oracle) = (run(size, biased, fused), run(size, biased, plain));
            for (i, (a, b)) in ours.iter().zip(&oracle).enumerate() {
                close(&format!("{size:?} {biased}: {i}"), &values(a), &values(b));
            }
            let again = run(size, biased, fused);
            assert!(ours.iter().zip(&again).all(|(a, b)| bits(a) == bits(b)));
        }
    }
}
