//! Attention with relative position vectors: tables for queries, keys and values, shared by heads or not, with every visibility
//! rule, biases, shifts and shared key-value heads.

use formwork::kernel::{Span, Visibility, Window};
use formwork::rng::{Purpose, Stream};

use super::{close, device};
use crate::kernels::relative::{Case, Map, several_tiles};

fn check(case: &Case) {
    let Some(device) = device() else { return };
    let flex = burn::tensor::Device::flex().autodiff();
    let (ours, wanted) = (
        case.run_on(&device.autodiff(), true),
        case.run_on(&flex, true),
    );
    case.compare(ours, wanted, close);
}

#[test]
fn drawn_cases() {
    let mut stream = Stream::new(7, Purpose::Split, (0, 0, 0));
    for seed in 0..16 {
        check(&Case::drawn(&mut stream, seed));
    }
}

/// The forms of Shaw et al., Transformer-XL and DeBERTa.
#[test]
fn forms_of_the_papers() {
    let shaw = Some((Map::Clipped(16), true));
    check(&Case {
        shifts: [false, false],
        ..several_tiles([shaw, None, shaw])
    });
    check(&several_tiles([
        Some((Map::Before(529), false)),
        None,
        None,
    ]));
    let classes = Some((Map::Classes(8), false));
    check(&Case {
        factor: Some(1.0 / 3.0_f64.sqrt()),
        visible: Visibility::from_lengths(&[530, 411]),
        shifts: [false, false],
        ..several_tiles([classes, classes, None])
    });
}

/// Each block of queries reaches only some of the table's rows; rows in descending order, and rows that nothing reads.
#[test]
fn blocks() {
    let window = Window {
        before: 40,
        after: 0,
        dilation: [].into(),
    };
    let visible = Visibility {
        window: Some(window),
        ..Visibility::causal()
    };
    let falling = Some((Map::Each { falling: true }, false));
    let apart = Some((Map::Apart(2), true));
    check(&Case {
        span: Span::full(300),
        heads: [2, 1],
        d_head: 8,
        visible,
        ..several_tiles([falling, apart, falling])
    });
}
