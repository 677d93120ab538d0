//! Steps of optimizers other than AdamW: the CPU's against the composed ones, NaN, and bit equality for a part of a parameter.

use burn::tensor::{Device, Tensor};
use formwork::kernel::{self, AdaptiveArgs, AdoptArgs, composed};

use super::{bits, close, random, values};

const ADAPTIVE: AdaptiveArgs = AdaptiveArgs {
    lr: 1e-2,
    betas: [0.9, 0.95],
    keep: 0.99,
    first: 1.5,
    other: 0.25,
    root: 3.0,
    eps: 1e-6,
};

const NORMED: AdoptArgs = AdoptArgs {
    lr: 1e-2,
    betas: [0.9, 0.95],
    keep: 0.99,
    eps: 1e-2,
    limit: 1.25,
};

/// A parameter, a gradient, a further tensor and two moments, large enough for several CPU chunks and a remainder.
fn tensors() -> [Tensor<2>; 5] {
    let plain = Device::flex();
    let fresh = |seed| Tensor::<2>::from_data(random::<2>([300, 201], seed).to_data(), &plain);
    [
        fresh(1),
        fresh(2),
        fresh(3),
        fresh(4) * 0.1,
        fresh(5).square(),
    ]
}

#[test]
fn steps_equal_the_composed_ones() {
    let [mut p, g, x, m, v] = tensors();
    let (mut p2, mut moments, mut moments2) = (p.clone(), [m.clone(), v.clone()], [m, v]);
    for _ in 0..3 {
        let (g, x) = (g.clone(), x.clone());
        (p, moments) = kernel::adaptive_step(p, g.clone(), x.clone(), moments, ADAPTIVE);
        (p2, moments2) = composed::adaptive_step(p2, g.clone(), x.clone(), moments2, ADAPTIVE);
        (p, moments) = kernel::adopt_step(p, x.clone(), moments, NORMED);
        (p2, moments2) = composed::adopt_step(p2, x, moments2, NORMED);
    }
    close("param", &values(&p), &values(&p2));
    for (ours, theirs) in moments.iter().zip(&moments2) {
        close("moment", &values(ours), &values(theirs));
    }
    let mean = kernel::mean_step(x.clone(), g.clone(), 0.9);
    close(
        "mean",
        &values(&mean),
        &values(&composed::mean_step(x, g, 0.9)),
    );
}

/// A NaN in the gradient or the second moment becomes a NaN in the parameter, and clipping hides none.
#[test]
fn nan_comes_through() {
    let device = Device::flex();
    let row = |values: [f32; 4]| Tensor::<1>::from_data(values, &device);
    let (p, m) = (row([1.0; 4]), row([0.0; 4]));
    let (g, v) = (
        row([f32::NAN, 1.0, 1.0, 1e30]),
        row([1.0, f32::NAN, 1.0, 0.0]),
    );
    let (after, _) = kernel::adopt_step(p, g, [m, v], NORMED);
    let after = values(&after);
    assert!(after[0].is_nan() && after[1].is_nan(), "{after:?}");
    assert!(after[2].is_finite(), "{after:?}");
    let step = 0.99 - 1e-2 * 0.1 * 1.25;
    assert!((after[3] - step).abs() < 1e-6, "{after:?}");
}

/// Ranks update slices of a parameter, bit for bit as in the whole one.
#[test]
fn a_stretch_has_the_bits_of_the_whole() {
    let flat = |x: Tensor<2>| x.reshape([1, 300 * 201]);
    let [p, g, x, m, v] = tensors().map(flat);
    let step = |first: usize, len: usize| {
        let part = |x: &Tensor<2>| x.clone().narrow(1, first, len);
        let moments = [part(&m), part(&v)];
        let (p, moments) = kernel::adaptive_step(part(&p), part(&g), part(&x), moments, ADAPTIVE);
        let (p, [m, v]) = kernel::adopt_step(p, part(&g), moments, NORMED);
        let slow = kernel::mean_step(part(&x), part(&g), 0.9);
        [p, m, v, slow].map(|x| bits(&x))
    };
    let whole = step(0, 300 * 201);
    for (first, len) in [(0, 17), (16_383, 3), (40_001, 20_299)] {
        for (part, whole) in step(first, len).iter().zip(&whole) {
            assert_eq!(part[..], whole[first..first + len], "{len} from {first}");
        }
    }
}
