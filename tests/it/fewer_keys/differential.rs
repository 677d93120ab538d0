//! Differential attention: closed forms for pairs of equal heads, and where it is refused.

use super::{attend, attention, near, parameter, shape, some};
use crate::diagnostics::{RIGHT, judged};
use burn::tensor::Tensor;
use formwork::kernel::Visibility;
use formwork::nn::attention::Attention;
use serde_json::json;

/// If both heads of a pair have the same queries and keys, the output is (1 − λ)·A·[v_i ; v_{i+h}]: multi-head attention times
/// a constant, with the columns of the output projection in another order.
#[test]
fn heads_that_are_alike_cancel_by_lambda() {
    for (learned, lambda) in [(0.0, 0.4), (0.5, 0.5_f64.exp() - 0.25_f64.exp() + 0.4)] {
        let keys = json!({
            "kind": "differential", "n_heads": 4, "n_kv_heads": 2, "bias": false, "lambda_init": 0.4, "norm": { "kind": "none" },
        });
        let Attention::Differential(mut ours) = attention(&keys, &shape(9, true)) else {
            unreachable!("differential attention")
        };
        let keys = json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2, "bias": false });
        let Attention::MultiHead(mut dense) = attention(&keys, &shape(9, true)) else {
            unreachable!("multi-head attention")
        };
        // The second half of the heads repeats the first.
        let twice = |weight: Tensor<2>| {
            let [rows, _] = weight.dims();
            let half = weight.narrow(0, 0, rows / 2);
            parameter(Tensor::cat(vec![half.clone(), half], 0))
        };
        ours.heads.query.weight = twice(ours.heads.query.weight.val());
        ours.heads.key.weight = twice(ours.heads.key.weight.val());
        // Dot products over 4 elements: `learned`, and half of it.
        let even =
            |sum: f64| parameter(Tensor::<1>::ones([4], &super::device()) * (sum / 4.0).sqrt());
        (ours.lambda_q1, ours.lambda_k1) = (even(learned), even(learned));
        (ours.lambda_q2, ours.lambda_k2) = (even(learned / 2.0), even(learned / 2.0));
        dense.query.weight = parameter(ours.heads.query.weight.val());
        dense.key.weight = parameter(ours.heads.key.weight.val());
        dense.value.weight = parameter(ours.heads.value.weight.val());
        // The columns belong to heads 0, 2, 1, 3.
        let columns: Tensor<3> = ours.heads.output.weight.val().reshape([16, 4, 4]);
        let column = |at: usize| columns.clone().narrow(1, at, 1);
        let columns = Tensor::cat([0, 2, 1, 3].map(column).to_vec(), 1);
        dense.output.weight = parameter(columns.reshape([16, 16]));
        for visible in [Visibility::causal(), Visibility::default()] {
            let found = attend(&Attention::Differential(ours.clone()), some(2, 9), &visible);
            let wanted = attend(&Attention::MultiHead(dense.clone()), some(2, 9), &visible);
            let wanted = wanted * ((1.0 - lambda) * (1.0 - 0.4));
            near(found, wanted, "heads that are alike");
        }
    }
}

/// The norm gives every output the same length, times 1 − λ_init of the layer's depth.
#[test]
fn results_have_the_length_that_depth_says() {
    for layer in [0, 3] {
        let norm = json!({ "kind": "rms", "eps": 1e-12 });
        let keys = json!({ "kind": "differential", "n_heads": 2, "bias": false, "norm": norm });
        let shape = formwork::nn::attention::AttentionShape {
            layer,
            ..shape(9, true)
        };
        let Attention::Differential(mut ours) = attention(&keys, &shape) else {
            unreachable!("differential attention")
        };
        ours.heads.output.weight = parameter(Tensor::<2>::eye(16, &super::device()));
        let y = attend(
            &Attention::Differential(ours),
            some(2, 9),
            &Visibility::causal(),
        );
        let lengths = y.square().mean_dim(2).sqrt();
        let wanted = 1.0 - (0.8 - 0.6 * (-0.3 * layer as f64).exp());
        let wanted = lengths.ones_like() * wanted;
        near(lengths, wanted, "lengths of results");
    }
}

#[test]
fn what_it_cannot_do_is_refused_with_another_way() {
    let of = |keys: &str| format!("model.attention={{ kind = \"differential\"{keys} }}");
    let said = |sets: &[String]| match judged(RIGHT, sets) {
        Ok(_) => "nothing".to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(
        said(&[of(", n_heads = 4, gate = \"elementwise\"")]),
        "nothing"
    );
    for (sets, words) in [
        (
            vec![of(", n_heads = 1")],
            "n_heads = 1 is odd, but two heads make each result of differential attention; make it even",
        ),
        (
            vec![of(", n_heads = 4, n_kv_heads = 1")],
            "n_kv_heads = 1 is odd",
        ),
        (
            vec![of(", n_heads = 4, gate = \"headwise\"")],
            "gate = \"headwise\" would gate halves of results",
        ),
        (
            vec![of(", lambda_init = -0.5")],
            "lambda_init = -0.5 is not between 0 and 1",
        ),
        (vec![of(", sinks = \"zero\"")], "does not support sinks"),
        (
            vec![of(""), "model.position=shaw".into()],
            "cannot be used with attention of kind = \"differential\"; use learned, sinusoidal, rotary or none",
        ),
        (
            vec!["model.norm={ kind = \"layer\", gain = false }".into()],
            "gain = false removes the scale, and a shift without a scale is not supported; set bias = false as well",
        ),
        (
            vec!["model.norm={ kind = \"rms\", gain = false, zero_centered = true }".into()],
            "zero_centered = true has no effect with gain = false",
        ),
    ] {
        let found = said(&sets);
        assert!(found.contains(words), "{sets:?}: {found}");
    }
}
