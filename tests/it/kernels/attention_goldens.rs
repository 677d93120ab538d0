//! Attention against torch with explicit masks: windows with dilation and biases by distance, and what schemes that see
//! queries and keys add (Shaw et al. 2018).

use burn::tensor::{Device, Tensor, TensorData};
use formwork::kernel::{self, AttentionOptions, Relations, ScoreBias, Span, Visibility, Window};
use formwork::nn::position::{Compared, PositionScheme};

use super::{close, device, values};
use crate::oracle::Oracle;

fn leaf<const D: usize>(oracle: &Oracle, name: &str) -> Tensor<D> {
    let array = oracle.array(name);
    let shape: [usize; D] = array.shape.try_into().unwrap();
    Tensor::from_data(TensorData::new(array.values, shape), &device()).require_grad()
}

#[test]
fn windows_with_dilation_and_biases_by_distance() {
    let oracle = Oracle::open("attention_windows");
    for (case, causal) in [("causal", true), ("both", false)] {
        let [q, k, v] = ["query", "key", "value"].map(|name| leaf::<4>(&oracle, name));
        let bias = leaf::<2>(&oracle, "bias");
        let relations = Relations {
            visible: Visibility {
                causal,
                window: Some(Window {
                    before: 19,
                    after: 19,
                    dilation: [1, 2, 1, 3].into(),
                }),
                ..Visibility::default()
            },
            bias: ScoreBias::ByDistance(bias.clone()),
            ..Relations::default()
        };
        let options = AttentionOptions {
            scale: 8f64.powf(-0.5),
            softcap: None,
            dropout: None,
        };
        let out = kernel::attention(q.clone(), k.clone(), v.clone(), relations, options);
        close(
            case,
            &values(&out),
            &oracle.array(&format!("{case}.out")).values,
        );
        let grads = (out * leaf(&oracle, "weight")).sum().backward();
        let wanted = |name: &str| oracle.array(&format!("{case}.grad.{name}")).values;
        for (name, x) in [("query", q), ("key", k), ("value", v)] {
            let found = values(&x.grad(&grads).unwrap());
            close(&format!("{case} {name}"), &found, &wanted(name));
        }
        let found = values(&bias.grad(&grads).unwrap());
        close(&format!("{case} bias"), &found, &wanted("bias"));
    }
}

/// Shaw's relative positions as a scheme: vectors of clipped distances, multiplied with queries and added to values.
struct Shaw {
    keys: Tensor<2>,
    values: Tensor<2>,
}

impl Shaw {
    /// The rows of a table for the distances of a span, `[1, distances, d]`.
    fn rows(table: &Tensor<2>, span: Span) -> Tensor<3> {
        let clip = (table.dims()[0] / 2) as i64;
        let rows: Vec<i32> = (0..span.distances())
            .map(|diagonal| (span.distance(diagonal).clamp(-clip, clip) + clip) as i32)
            .collect();
        let rows = TensorData::new(rows, [1, span.distances()]);
        kernel::embedding(table.clone(), Tensor::from_data(rows, &table.device()))
    }
}

impl PositionScheme for Shaw {
    fn score_bias(&self, compared: &Compared, _: ScoreBias) -> ScoreBias {
        let rows = Self::rows(&self.keys, compared.span).unsqueeze_dim::<4>(0);
        let products = compared.query.clone().matmul(rows.transpose()) * compared.scale;
        ScoreBias::Dense(kernel::by_pair(products, compared.span))
    }

    fn values(&self, _: usize, span: Span, _: &Device) -> Option<Tensor<3>> {
        Some(Self::rows(&self.values, span))
    }
}

#[test]
fn a_scheme_may_see_queries_and_add_to_values() {
    let oracle = Oracle::open("attention_shaw");
    let [q, k, v] = ["query", "key", "value"].map(|name| leaf::<4>(&oracle, name));
    let [keys, of_values] = ["keys", "values"].map(|name| leaf::<2>(&oracle, name));
    let scheme = Shaw {
        keys: keys.clone(),
        values: of_values.clone(),
    };
    let span = Span::of(7);
    let compared = Compared {
        layer: 0,
        query: &q,
        key: &k,
        span,
        scale: 0.5,
    };
    let relations = Relations {
        visible: Visibility::causal(),
        offset: 0,
        bias: scheme.score_bias(&compared, ScoreBias::None),
        values: scheme.values(0, span, &device()),
    };
    let options = AttentionOptions {
        scale: 0.5,
        softcap: None,
        dropout: None,
    };
    let out = kernel::attention(q.clone(), k.clone(), v.clone(), relations, options);
    close("Shaw", &values(&out), &oracle.array("out").values);
    let grads = (out * leaf(&oracle, "weight")).sum().backward();
    let wanted = |name: &str| oracle.array(&format!("grad.{name}")).values;
    for (name, x) in [("query", q), ("key", k), ("value", v)] {
        close(name, &values(&x.grad(&grads).unwrap()), &wanted(name));
    }
    for (name, x) in [("keys", keys), ("values", of_values)] {
        close(name, &values(&x.grad(&grads).unwrap()), &wanted(name));
    }
}
