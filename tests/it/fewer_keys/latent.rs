//! Latent attention: equal to multi-head attention if no rank is reduced, and where it is refused.

use super::{attend, attention, near, parameter, shape, some};
use crate::diagnostics::{RIGHT, judged};
use crate::experts::device;
use burn::tensor::Tensor;
use formwork::kernel::Visibility;
use formwork::nn::attention::Attention;
use serde_json::json;

/// If the latent is the input itself and the shared key is zero, it equals multi-head attention with the same projections,
/// whether keys are wider than values or not.
#[test]
fn it_is_multi_head_attention_where_the_latent_is_the_input() {
    for (d_nope, d_rope) in [(4, 2), (4, 6)] {
        let keys = json!({
            "kind": "latent", "n_heads": 4, "d_nope": d_nope, "d_rope": d_rope, "d_value": d_nope, "kv_rank": 16, "scale": 0.5,
            "norm": { "kind": "none" },
        });
        let Attention::Latent(mut latent) = attention(&keys, &shape(9, true)) else {
            unreachable!("latent attention")
        };
        let keys = json!({ "kind": "multi_head", "n_heads": 4, "d_head": d_nope, "bias": false, "scale": 0.5 });
        let Attention::MultiHead(mut dense) = attention(&keys, &shape(9, true)) else {
            unreachable!("multi-head attention")
        };
        latent.latent.weight = parameter(Tensor::<2>::eye(16, &device()));
        latent.shared_key.weight = parameter(latent.shared_key.weight.val() * 0.0);
        let query: Tensor<3> = latent.query.weight.val().reshape([4, d_nope + d_rope, 16]);
        let query = query.narrow(1, 0, d_nope).reshape([4 * d_nope, 16]);
        dense.query.weight = parameter(query);
        dense.key.weight = parameter(latent.key.weight.val());
        dense.value.weight = parameter(latent.value.weight.val());
        dense.output.weight = parameter(latent.output.weight.val());
        for visible in [Visibility::causal(), Visibility::default()] {
            let ours = attend(&Attention::Latent(latent.clone()), some(2, 9), &visible);
            let wanted = attend(&Attention::MultiHead(dense.clone()), some(2, 9), &visible);
            near(ours, wanted, "the input as latent");
        }
    }
}

#[test]
fn what_it_cannot_do_is_refused_with_another_way() {
    let latent = |keys: &str| format!("model.attention={{ kind = \"latent\"{keys} }}");
    let said = |sets: &[String]| match judged(RIGHT, sets) {
        Ok(_) => "nothing".to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(said(&[latent(", d_rope = 8")]), "nothing");
    for (sets, words) in [
        (vec![latent(", memory = 8")], "has no key `memory`"),
        (vec![latent(", d_head = 8")], "has no key `d_head`"),
        (
            vec![latent(", d_rope = 7")],
            "d_rope = 7 is odd, but positions rotate pairs of these elements",
        ),
        (
            vec![latent(", kv_rank = 0")],
            "kv_rank = 0 is not between 1 and",
        ),
        (
            vec![latent(""), "model.position.rotate_values=true".into()],
            "rotate_values = true has no effect on kind = \"latent\"",
        ),
        (
            vec![latent(""), "model.position=shaw".into()],
            "cannot be used with attention of kind = \"latent\"; use learned, sinusoidal, rotary or none",
        ),
    ] {
        let found = said(&sets);
        assert!(found.contains(words), "{sets:?}: {found}");
    }
}
