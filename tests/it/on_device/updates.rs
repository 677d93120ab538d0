//! The work of an optimizer: AdamW, moving averages, steps that are decided on the device, sums of squares.

use burn::tensor::{Device, Tensor};
use formwork::kernel::{self, AdamwArgs, Decision};

use super::{close, device, random, values};

const ARGS: AdamwArgs = AdamwArgs {
    lr: 1e-2,
    beta_1: 0.9,
    beta_2: 0.99,
    eps: 1e-8,
    weight_decay: 0.1,
    time: 3,
};

/// Parameter, gradient and moments.
fn inputs(device: &Device) -> [Tensor<2>; 4] {
    let [param, grad, first, second] =
        [1, 2, 3, 4].map(|seed| random([13, 37], seed).times(0.3).on(device));
    [param, grad, first, second.square()]
}

#[test]
fn adamw() {
    let Some(device) = device() else { return };
    let run = |device: &Device| {
        let [param, grad, first, second] = inputs(device);
        let (kept, before) = (param.clone(), values(&param));
        let (param, first, second) = kernel::adamw_step(param, grad, first, second, ARGS);
        // What something else holds is not written over.
        assert_eq!(values(&kept), before);
        [param, first, second].map(|x| values(&x))
    };
    let (ours, flex) = (run(&device), run(&Device::flex()));
    for (a, b) in ours.iter().zip(&flex) {
        close("AdamW", a, b);
    }
}

/// Bad numbers, steps behind a bad one, gradients within their limit and beyond it.
#[test]
fn decisions() {
    let Some(device) = device() else { return };
    let numbers = [0.0, 4.0, 1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let each = |device: &Device| {
        let one = |x: f32| Tensor::<1>::from_floats([x], device);
        let mut all = Vec::new();
        for loss in numbers {
            for squares in numbers {
                for (limit, before) in
                    [(None, None), (Some(1.5), Some(1.0)), (Some(9.0), Some(0.0))]
                {
                    let before = before.map(one);
                    let made = kernel::decide(one(loss), one(squares), limit, before);
                    all.push(values(&made.0));
                }
            }
        }
        all
    };
    for (ours, oracle) in each(&device).iter().zip(&each(&Device::flex())) {
        assert_eq!(ours[0].to_bits(), oracle[0].to_bits());
        // The factor of a step that is not taken is not read.
        if oracle[0] == 1.0 {
            close("a factor", &ours[1..], &oracle[1..]);
        }
    }
}

fn decision(numbers: [f32; 2], device: &Device) -> Decision {
    Decision(Tensor::from_floats(numbers, device))
}

#[test]
fn a_step_that_is_taken_scales_its_gradient() {
    let Some(device) = device() else { return };
    let run = |device: &Device| {
        let [param, grad, first, second] = inputs(device);
        let decision = decision([1.0, 0.25], device);
        let moments = [first, second];
        let (param, [first, second]) = kernel::adamw_step_if(param, grad, moments, ARGS, &decision);
        [param, first, second].map(|x| values(&x))
    };
    let (ours, flex) = (run(&device), run(&Device::flex()));
    for (a, b) in ours.iter().zip(&flex) {
        close("a decided step of AdamW", a, b);
    }
}

/// Even where its gradient is no number.
#[test]
fn a_step_that_is_not_taken_changes_no_bit() {
    let Some(device) = device() else { return };
    for device in [device, Device::flex()] {
        let [param, grad, first, second] = inputs(&device);
        let before = [&param, &first, &second].map(values);
        let bad = decision([0.0, f32::NAN], &device);
        let grad = grad * f64::INFINITY;
        let moments = [first, second];
        let mean = kernel::moved_if(param.clone(), grad.clone(), 0.9, &bad);
        let (param, [first, second]) = kernel::adamw_step_if(param, grad, moments, ARGS, &bad);
        assert_eq!([&param, &first, &second].map(values), before);
        assert_eq!(values(&mean), before[0]);
    }
}

#[test]
fn moving_averages() {
    let Some(device) = device() else { return };
    let run = |device: &Device| {
        let [mean, value, ..] = inputs(device);
        values(&kernel::moved_if(
            mean,
            value,
            0.99,
            &decision([1.0, 1.0], device),
        ))
    };
    close("a moving average", &run(&device), &run(&Device::flex()));
}

/// Of fewer tensors than a launch reads, as many, and more; of one element and of more than all units read at once.
#[test]
fn sums_of_squares() {
    let Some(device) = device() else { return };
    for count in [1, 5, 6, 7, 20] {
        let run = |device: &Device| {
            let sizes = (0..count).map(|i| if i == 3 { 150_000 } else { 1 + 301 * i });
            let all = sizes.map(|n| random([n], n as u64).on(device));
            values(&kernel::squares(all.collect()))
        };
        let (ours, flex) = (run(&device)[0], run(&Device::flex())[0]);
        assert!((ours - flex).abs() < 1e-5 * flex, "{count}: {ours}, {flex}");
    }
}

/// Parameters of every size, more of them than a launch takes, move and are averaged together as each of them alone, to the bit.
#[test]
fn updates_that_share_launches() {
    let Some(device) = device() else { return };
    let sizes = (0..40).map(|i| if i == 9 { 300_000 } else { 1 + 37 * i });
    let sizes: Vec<usize> = sizes.collect();
    let run = |shared: bool, decided: [f32; 2]| {
        let decision = decision(decided, &device);
        let update = |(i, n): (usize, &usize)| {
            let [param, grad, first, second] =
                [1, 2, 3, 4].map(|seed| random([*n], seed + i as u64).on(&device));
            let args = AdamwArgs {
                weight_decay: if i % 2 == 0 { 0.1 } else { 0.0 },
                ..ARGS
            };
            let (mean, moments) = (param.clone() * 0.5, [first, second.square()]);
            let step = match shared {
                true => kernel::adamw_step_among,
                false => kernel::adamw_step_if,
            };
            let (param, [first, second]) = step(param, grad.clone(), moments, args, &decision);
            let mean = match shared {
                true => kernel::moved_among(mean, grad, 0.9, &decision),
                false => kernel::moved_if(mean, grad, 0.9, &decision),
            };
            [param, first, second, mean]
        };
        let all = || sizes.iter().enumerate().map(update).collect::<Vec<_>>();
        let all = if shared { kernel::together(all) } else { all() };
        let all = all.iter().flatten();
        all.flat_map(values).map(f32::to_bits).collect::<Vec<_>>()
    };
    for decided in [[1.0, 0.3], [0.0, f32::NAN]] {
        assert!(run(true, decided) == run(false, decided));
    }
    assert!(run(true, [1.0, 0.3]) != run(true, [0.0, 0.3]));
}
