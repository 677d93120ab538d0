//! Convolutions against Burn's own, over kernel sizes, strides, padding, groups of small images and odd sizes.

use formwork::kernel::{ConvolutionSettings, composed, convolution};

use super::{bits, random, same};

/// Images, channels, height, width; outputs, kernel rows and columns; stride, padding.
const CASES: [([usize; 4], [usize; 3], [usize; 2]); 11] = [
    ([1, 1, 1, 1], [1, 1, 1], [1, 0]),
    ([2, 3, 8, 8], [4, 3, 3], [1, 1]),
    ([3, 2, 9, 7], [5, 3, 3], [2, 1]),
    ([2, 3, 11, 13], [4, 7, 7], [2, 3]),
    ([2, 4, 6, 6], [3, 1, 1], [1, 0]),
    ([2, 4, 7, 7], [3, 1, 1], [2, 0]),
    ([37, 3, 3, 3], [6, 3, 3], [1, 1]),
    ([9, 5, 32, 32], [8, 3, 3], [1, 1]),
    ([2, 2, 6, 5], [3, 2, 3], [3, 0]),
    ([2, 1, 2, 2], [2, 5, 5], [1, 2]),
    ([1, 2, 3, 4], [2, 3, 3], [4, 2]),
];

#[test]
fn convolutions() {
    for ([n, planes, height, width], [outputs, rows, columns], [stride, padding]) in CASES {
        let settings = ConvolutionSettings { stride, padding };
        let x = random([n, planes, height, width], 1);
        let taps = (planes * rows * columns) as f64;
        let weight = random([outputs, planes, rows, columns], 2) / taps.sqrt();
        let name = format!("{n}x{planes}x{height}x{width} by {rows}x{columns}, {settings:?}");
        same(
            &name,
            [x.clone(), weight.clone()],
            |[x, w]| convolution(x, w, settings),
            |[x, w]| composed::convolution(x, w, settings),
        );
        let square = (height == width).then(|| x.swap_dims(2, 3));
        if let Some(turned) = square {
            same(
                &format!("{name}, turned"),
                [turned, weight],
                |[x, w]| convolution(x.swap_dims(2, 3), w, settings),
                |[x, w]| composed::convolution(x.swap_dims(2, 3), w, settings),
            );
        }
    }
}

#[test]
fn no_images_give_none_and_weights_that_are_not_used() {
    let settings = ConvolutionSettings {
        stride: 1,
        padding: 1,
    };
    let x = random([0, 3, 4, 4], 1).require_grad();
    let weight = random([2, 3, 3, 3], 2).require_grad();
    let y = convolution(x, weight.clone(), settings);
    assert_eq!(y.dims(), [0, 2, 4, 4]);
    let grads = y.sum().backward();
    let gradient = weight.grad(&grads).unwrap();
    assert!(
        gradient
            .to_data()
            .try_to_vec::<f32>()
            .unwrap()
            .iter()
            .all(|g| *g == 0.0)
    );
}

#[test]
fn convolutions_have_the_same_bits_on_one_thread() {
    let settings = ConvolutionSettings {
        stride: 2,
        padding: 1,
    };
    let run = || {
        let x = random([19, 5, 17, 17], 3).require_grad();
        let weight = random([7, 5, 3, 3], 4).require_grad();
        let y = convolution(x.clone(), weight.clone(), settings);
        let grads = (y.clone() * random(y.dims(), 5)).sum().backward();
        let [dx, dw] = [x, weight].map(|leaf| bits(&leaf.grad(&grads).unwrap()));
        (bits(&y), dx, dw)
    };
    let alone = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap();
    assert_eq!(alone.install(run), run());
}
