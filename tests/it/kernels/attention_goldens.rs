//! Attention against torch with explicit masks: windows with dilation and biases by distance, and schemes that add vectors to
//! keys and values (Shaw et al. 2018).

use burn::tensor::{Tensor, TensorData};
use formwork::kernel::{
    self, AttentionOptions, DistanceRows, DistanceTable, Positional, Relative, ScoreBias, Span,
    Visibility, Window,
};
use formwork::nn::pass::Pass;
use formwork::nn::position::{AttentionView, HeadProjections, PositionScheme, Prepared};

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
        let relations = Positional {
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
            ..Positional::default()
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

impl PositionScheme for Shaw {
    fn relative(&self, attending: &AttentionView) -> Option<Relative> {
        let clip = (self.keys.dims()[0] / 2) as i64;
        let row = |distance: i64| (distance.clamp(-clip, clip) + clip) as usize;
        let rows = DistanceRows::new(attending.span, row);
        let table = |table: &Tensor<2>| {
            Some(DistanceTable {
                table: table.clone().unsqueeze_dim(0),
                rows: rows.clone(),
            })
        };
        Some(Relative {
            queries: table(&self.keys),
            values: table(&self.values),
            ..Relative::default()
        })
    }
}

/// Attention without projections of its own.
struct Bare;

impl HeadProjections for Bare {
    fn queries(&self, x: Tensor<2>) -> Tensor<3> {
        x.unsqueeze_dim(0)
    }

    fn keys(&self, x: Tensor<2>) -> Tensor<3> {
        x.unsqueeze_dim(0)
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
    let span = Span::full(7);
    let attending = AttentionView {
        layer: 0,
        span,
        scale: 0.5,
        heads: &Bare,
        cached_table: None,
        prepared: &Prepared::default(),
        device: &device(),
        pass: &Pass::evaluation(),
    };
    let relations = Positional {
        visible: Visibility::causal(),
        relative: scheme.relative(&attending),
        ..Positional::default()
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
