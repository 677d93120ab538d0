//! All kernels except attention and losses: dropout, activations, norms, embeddings, rotations, linear maps, convolution,
//! AdamW.

use burn::tensor::{Device, Tensor};
use formwork::kernel::{self, Activation, ConvolutionSettings, DropKey, Operand};

use super::{device, integers, ints, random, same, same_convolutions, values};

fn key(p: f64) -> DropKey {
    DropKey {
        p,
        seed: 0x9e37_79b9_0000_0007,
        step: 70_000,
        first_row: u64::from(u32::MAX) - 1,
        site: 0xfeed_0123_4567_89ab,
    }
}

/// Element numbers exceed 2³² within these tensors.
#[test]
fn dropout_masks_are_flex_s_to_the_bit() {
    let Some(device) = device() else { return };
    for dims in [[1, 1, 1], [3, 5, 7], [4, 9, 64], [2, 33, 130]] {
        for p in [0.1, 0.5, 0.999, 1.0] {
            let x = random(dims, 1);
            let run = |device: &Device, f: fn(Tensor<3>, DropKey) -> Tensor<3>| {
                let x = x.on(&device.clone().autodiff()).require_grad();
                let y = f(x.clone(), key(p));
                let grads = y.clone().square().sum().backward();
                let d = x.grad(&grads).unwrap();
                [values(&y), values(&d)].map(|x| x.into_iter().map(f32::to_bits).collect())
            };
            for f in [kernel::dropout, kernel::drop_path] {
                let [ours, flex]: [[Vec<u32>; 2]; 2] = [run(&device, f), run(&Device::flex(), f)];
                assert!(ours == flex, "dropout {p} of {dims:?}");
            }
        }
    }
}

#[test]
fn dropout_on_its_way_into_a_stream() {
    let Some(device) = device() else { return };
    for dims in [[1, 1, 1], [3, 5, 7], [2, 33, 130]] {
        for p in [0.0, 0.1, 1.0] {
            let both = [random(dims, 1), random(dims, 2)];
            same("a dropped branch", &device, both, |_, [x, y]| {
                kernel::add_dropped(x, y, key(p))
            });
        }
    }
}

#[test]
fn activations_of_linear_maps() {
    let Some(device) = device() else { return };
    for kind in [Activation::Relu, Activation::Gelu, Activation::Silu] {
        for [b, s, d_in, d_out] in [[1, 1, 1, 1], [2, 3, 5, 7], [2, 70, 33, 12]] {
            let (x, weight) = (random([b, s, d_in], 1), random([1, d_out, d_in], 2));
            let all = [x.clone(), weight.clone(), random([1, 1, d_out], 3)];
            let name = format!("{kind:?} of a map of {s}, {d_in} to {d_out}");
            same(&name, &device, all, |_, [x, w, bias]| {
                let bias = Some(bias.reshape([d_out]));
                Operand::new(x).activated(w.squeeze_dim(0), bias, kind)
            });
            same(&name, &device, [x, weight], |_, [x, w]| {
                Operand::new(x).activated(w.squeeze_dim(0), None, kind)
            });
        }
    }
}

#[test]
fn activations() {
    let Some(device) = device() else { return };
    let kinds = [
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::ReluSquared,
        Activation::QuickGelu,
        Activation::Sigmoid,
    ];
    for kind in kinds {
        for dims in [[1, 1, 1], [2, 3, 5], [3, 40, 70]] {
            let [x, y] = [random(dims, 1).times(6.0), random(dims, 2)];
            let name = format!("{kind:?} {dims:?}");
            same(&name, &device, [x.clone()], |_, [x]| {
                kernel::activate(x, kind)
            });
            same(&name, &device, [x.clone()], |_, [x]| {
                kernel::activate(x.swap_dims(1, 2), kind)
            });
            same(&name, &device, [x, y], |_, [x, y]| {
                kernel::gated(x, y, kind)
            });
        }
    }
}

#[test]
fn norms() {
    let Some(device) = device() else { return };
    for [b, s, d] in [[1, 1, 1], [2, 3, 5], [3, 50, 33], [2, 70, 300]] {
        let [x, y] = [random([b, s, d], 6).times(3.0), random([b, s, d], 9)];
        let [gamma, beta] = [random([1, 1, d], 7), random([1, 1, d], 8)];
        let all = [x.clone(), y.clone(), gamma.clone(), beta.clone()];
        same("layer norm", &device, all.clone(), |_, [x, y, g, b]| {
            let x = kernel::layer_norm(x, Some(g.reshape([d])), Some(b.reshape([d])), 1e-5);
            x + y
        });
        same("layer norm of a sum", &device, all, |_, [x, y, g, b]| {
            let [g, b] = [g, b].map(|vector| vector.reshape([d]));
            kernel::layer_norm_of_sum([x, y], 0.7, Some(g), Some(b), 1e-5)
        });
        let some = [x.clone(), gamma.clone()];
        same("layer norm, no beta", &device, some.clone(), |_, [x, g]| {
            kernel::layer_norm(x.swap_dims(0, 1), Some(g.reshape([d])), None, 1e-5)
        });
        same("rms norm", &device, some, |_, [x, g]| {
            kernel::rms_norm(x, Some(g.reshape([d])), 1e-6)
        });
        same("rms norm of a sum", &device, [x, y], |_, [x, y]| {
            kernel::rms_norm_of_sum([x, y], 1.0, None, 1e-6)
        });
    }
}

#[test]
fn dynamic_tanhs() {
    let Some(device) = device() else { return };
    for [b, s, d] in [[1, 1, 1], [2, 3, 5], [3, 50, 33], [2, 70, 300]] {
        let x = random([b, s, d], 6).times(2.0);
        let [gamma, beta] = [random([1, 1, d], 7), random([1, 1, d], 8)];
        let all = [x, random([1, 1, 1], 9), gamma, beta];
        same("dynamic tanh", &device, all, |_, [x, a, g, b]| {
            kernel::dynamic_tanh(x, a.reshape([1]), g.reshape([d]), b.reshape([d]))
        });
    }
}

/// Ids that occur once, many times, or never; gradients of the table are added in the order of positions, as on flex.
#[test]
fn embeddings() {
    let Some(device) = device() else { return };
    // The last one is sorted in five runs, the last of which has few positions.
    let sizes = [
        (1, 1, 1, 1),
        (5, 3, 2, 7),
        (70, 33, 3, 211),
        (70, 33, 1, 127),
        (900, 4, 2, 2051),
    ];
    for (rows, width, batch, seq) in sizes {
        for below in [1, rows as u64] {
            let ids = integers(batch * seq, below, 3);
            let table = random([rows, width], 4);
            same("embedding", &device, [table], |device, [table]| {
                kernel::embedding(table, ints(&ids, [batch, seq], device))
            });
        }
    }
}

#[test]
fn rotations() {
    let Some(device) = device() else { return };
    for [b, h, s, d] in [[1, 1, 1, 2], [2, 3, 5, 8], [1, 2, 17, 10]] {
        for pairs in [1, d / 2] {
            let angles = random([s, pairs], 3);
            for interleaved in [false, true] {
                same(
                    "rotary",
                    &device,
                    [random([b, s, h, d], 1)],
                    |device, [x]| {
                        let angles = angles.on(device);
                        let (cos, sin) = (angles.clone().cos(), angles.sin());
                        kernel::rotary(x.swap_dims(1, 2), cos, sin, interleaved)
                    },
                );
            }
        }
    }
}

/// The weight gradient of the last one is summed from several parts of the rows.
#[test]
fn linear_maps() {
    let Some(device) = device() else { return };
    for [b, s, i, o] in [
        [1, 1, 1, 1],
        [2, 3, 5, 7],
        [3, 50, 33, 65],
        [4, 256, 33, 65],
    ] {
        let x = random([b, s, i], 3);
        let w = random([1, o, i], 4).times(1.0 / (i as f32).sqrt());
        let all = [x, w, random([1, 1, o], 5)];
        same("linear", &device, all, |_, [x, w, b]| {
            kernel::linear(x, w.squeeze_dim(0), Some(b.reshape([o])))
        });
    }
}

#[test]
fn convolutions() {
    let Some(device) = device() else { return };
    for (stride, padding) in [(1, 1), (2, 0)] {
        let settings = ConvolutionSettings { stride, padding };
        let all = [random([2, 3, 9, 8], 1), random([5, 3, 3, 3], 2).times(0.2)];
        same_convolutions("convolution", &device, all, |_, [x, w]| {
            kernel::convolution(x, w, settings)
        });
    }
}
