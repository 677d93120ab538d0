//! Kernels of optimizers: AdamW and all other element-wise ones, moving averages, steps that are decided on the device, sums of
//! squares.

use burn::tensor::{Device, Tensor};
use formwork::kernel::{
    self, AdamwArgs, AdaptiveArgs, AdemamixArgs, AdoptArgs, DescentArgs, ElementwiseStep, LionArgs,
    MomentumArgs, ScheduledStep, StepDecision,
};

use super::{close, device, random, values};

const ARGS: AdamwArgs = AdamwArgs {
    lr: 1e-2,
    beta_1: 0.9,
    beta_2: 0.99,
    eps: 1e-8,
    weight_decay: 0.1,
    time: 3,
};

const ADAPTIVE: AdaptiveArgs = AdaptiveArgs {
    lr: 1e-2,
    betas: [0.9, 0.95],
    keep: 0.99,
    first: 1.5,
    other: 0.25,
    root: 3.0,
    eps: 1e-6,
};

/// RAdam's first steps: the divisor is 1.
const UNROOTED: AdaptiveArgs = AdaptiveArgs {
    other: 0.0,
    root: 0.0,
    eps: 1.0,
    ..ADAPTIVE
};

const SLOWED: AdemamixArgs = AdemamixArgs {
    fast: ADAPTIVE,
    slow: 0.999,
};

const NORMED: AdoptArgs = AdoptArgs {
    lr: 1e-2,
    betas: [0.9, 0.95],
    keep: 0.99,
    eps: 0.2,
    limit: 1.25,
};

/// ADOPT's first step, in which no parameter moves.
const NORMED_AT_FIRST: AdoptArgs = AdoptArgs {
    lr: 0.0,
    betas: [0.9, 0.0],
    keep: 1.0,
    limit: 0.0,
    ..NORMED
};

const SIGNED: LionArgs = LionArgs {
    lr: 1e-2,
    betas: [0.9, 0.99],
    keep: 0.97,
};

const DESCENT: DescentArgs = DescentArgs {
    lr: 0.1,
    penalty: 0.05,
};

const MOMENTUM: MomentumArgs = MomentumArgs {
    descent: DESCENT,
    decay: [0.9, 0.8],
    nesterov: None,
};

const NESTEROV: MomentumArgs = MomentumArgs {
    nesterov: Some(0.9),
    decay: [0.9, 1.0],
    ..MOMENTUM
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
        // A buffer that is also held elsewhere is not overwritten.
        assert_eq!(values(&kept), before);
        [param, first, second].map(|x| values(&x))
    };
    let (ours, flex) = (run(&device), run(&Device::flex()));
    for (a, b) in ours.iter().zip(&flex) {
        close("AdamW", a, b);
    }
}

/// Values that are not finite, steps after such a one, and gradients below and above their limit.
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
                    let made = kernel::decide_step(one(loss), one(squares), limit, before);
                    all.push(values(&made.0));
                }
            }
        }
        all
    };
    for (ours, oracle) in each(&device).iter().zip(&each(&Device::flex())) {
        assert_eq!(ours[0].to_bits(), oracle[0].to_bits());
        // The factor of a rejected step is not read.
        if oracle[0] == 1.0 {
            close("a factor", &ours[1..], &oracle[1..]);
        }
    }
}

fn decision(numbers: [f32; 2], device: &Device) -> StepDecision {
    StepDecision(Tensor::from_floats(numbers, device))
}

/// Returns a parameter and its N further values after a step; without a decision, the gradient is not scaled.
fn after<A: ElementwiseStep<N>, const N: usize>(
    args: A,
    decided: Option<[f32; 2]>,
    device: &Device,
) -> Vec<Vec<f32>> {
    let [param, grad, first, second] = inputs(device);
    let slow = random([13, 37], 5).times(0.3).on(device);
    let values = [first, second, slow];
    let mut values = values.into_iter();
    let values = [(); N].map(|()| values.next().unwrap());
    let (param, values) = match decided {
        None => kernel::elementwise_step(param, grad, values, args),
        Some(numbers) => {
            let decision = decision(numbers, device);
            let timed = ScheduledStep::always(args);
            kernel::elementwise_step_if(param, grad, values, &timed, &decision)
        }
    };
    let all = std::iter::once(param).chain(values);
    all.map(|x| super::values(&x)).collect()
}

/// Checks that a step with and without a decision equals the CPU's, and that a rejected step changes no bit, even if its
/// gradient is NaN.
fn holds<A: ElementwiseStep<N>, const N: usize>(kind: &str, args: A) {
    let Some(device) = device() else { return };
    for decided in [None, Some([1.0, 0.25])] {
        let [ours, flex] = [&device, &Device::flex()].map(|on| after(args, decided, on));
        assert_eq!(ours.len(), 1 + N);
        for (a, b) in ours.iter().zip(&flex) {
            close(kind, a, b);
        }
    }
    for device in [&device, &Device::flex()] {
        let [param, _, first, second] = inputs(device);
        let slow = random([13, 37], 5).times(0.3).on(device);
        let before = [param, first, second, slow].map(|x| values(&x));
        let left = after(args, Some([0.0, f32::NAN]), device);
        assert_eq!(left, before[..=N], "{kind}");
    }
}

#[test]
fn decided_adamw() {
    holds("AdamW", ARGS);
}

#[test]
fn steps_over_roots() {
    holds("NAdam", ADAPTIVE);
    holds("RAdam at first", UNROOTED);
    holds("AdEMAMix", SLOWED);
    holds("ADOPT", NORMED);
    holds("ADOPT at first", NORMED_AT_FIRST);
}

#[test]
fn steps_along_gradients() {
    holds("Lion", SIGNED);
    holds("SGD", DESCENT);
    holds("SGD with momentum", MOMENTUM);
    holds("SGD that looks ahead", NESTEROV);
}

/// Buffers that are also held elsewhere are not overwritten, whatever is kept beside a parameter.
#[test]
fn what_others_hold_stays() {
    let Some(device) = device() else { return };
    let [param, grad, momentum, _] = inputs(&device);
    let held = [param.clone(), grad.clone(), momentum.clone()];
    let before = held.each_ref().map(values);
    let (moved, [kept]) = kernel::elementwise_step(param, grad, [momentum], SIGNED);
    assert_eq!(held.each_ref().map(values), before);
    assert!(values(&moved) != before[0] && values(&kept) != before[2]);
}

#[test]
fn moving_averages() {
    let Some(device) = device() else { return };
    let run = |device: &Device| {
        let [mean, value, ..] = inputs(device);
        values(&kernel::mean_step_if(
            mean,
            value,
            0.99,
            &decision([1.0, 1.0], device),
        ))
    };
    close("a moving average", &run(&device), &run(&Device::flex()));
}

/// Fewer tensors than a launch reads, as many, and more; with one element, and with more than all units read at once.
#[test]
fn sums_of_squares() {
    let Some(device) = device() else { return };
    for count in [1, 5, 6, 7, 20] {
        let run = |device: &Device| {
            let sizes = (0..count).map(|i| if i == 3 { 150_000 } else { 1 + 301 * i });
            let all = sizes.map(|n| random([n], n as u64).on(device));
            values(&kernel::sum_of_squares_on_device(all.collect()))
        };
        let (ours, flex) = (run(&device)[0], run(&Device::flex())[0]);
        assert!((ours - flex).abs() < 1e-5 * flex, "{count}: {ours}, {flex}");
    }
}

/// Parameters of every size, more of them than one launch takes, are updated by different formulas and averaged together as
/// each would be alone, bit for bit.
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
            let args = ScheduledStep::always(args);
            let mean = match shared {
                true => kernel::mean_step_batched(mean, grad.clone(), 0.9, &decision),
                false => kernel::mean_step_if(mean, grad.clone(), 0.9, &decision),
            };
            // Every third parameter is updated by another formula, which keeps one value.
            if i % 3 == 2 {
                let ([first, second], args) = (moments, ScheduledStep::always(SIGNED));
                let (param, [first]) = match shared {
                    true => {
                        kernel::elementwise_step_batched(param, grad, [first], &args, &decision)
                    }
                    false => kernel::elementwise_step_if(param, grad, [first], &args, &decision),
                };
                return [param, first, second, mean];
            }
            let (param, [first, second]) = match shared {
                true => kernel::elementwise_step_batched(param, grad, moments, &args, &decision),
                false => kernel::elementwise_step_if(param, grad, moments, &args, &decision),
            };
            [param, first, second, mean]
        };
        let all = || sizes.iter().enumerate().map(update).collect::<Vec<_>>();
        let all = if shared {
            kernel::batch_launches(all)
        } else {
            all()
        };
        let all = all.iter().flatten();
        all.flat_map(values).map(f32::to_bits).collect::<Vec<_>>()
    };
    for decided in [[1.0, 0.3], [0.0, f32::NAN]] {
        assert!(run(true, decided) == run(false, decided));
    }
    assert!(run(true, [1.0, 0.3]) != run(true, [0.0, 0.3]));
}
