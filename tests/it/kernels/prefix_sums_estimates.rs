//! Attention by features against performer-pytorch and the closed form of linear attention, and its error as an estimate of
//! softmax attention.

use burn::tensor::{Tensor, TensorData};
use formwork::kernel::linear_attention::{FeatureMap, Features, linear_attention};
use formwork::kernel::{self, AttentionOptions, Positional, Visibility};

use super::prefix_sums::{exponential, leaves, projection};
use super::{device, values};
use crate::oracle::Oracle;

fn leaf(oracle: &Oracle, name: &str) -> Tensor<4> {
    let array = oracle.array(name);
    let shape: [usize; 4] = array.shape.try_into().unwrap();
    Tensor::from_data(TensorData::new(array.values, shape), &device())
}

/// Compares outputs and gradients with a golden's case, to 1e-4 of its largest values.
fn golden(oracle: &Oracle, case: &str, map: &FeatureMap, visible: &Visibility) {
    let leaves = ["query", "key", "value"].map(|name| leaf(oracle, name).require_grad());
    let [q, k, v] = leaves.clone();
    let y = linear_attention(q, k, v, map, visible);
    let near = |name: &str, found: &Tensor<4>| {
        let wanted = oracle.array(name).values;
        let largest = wanted.iter().fold(0f32, |m, x| m.max(x.abs()));
        for (a, b) in values(found).iter().zip(&wanted) {
            assert!(
                (a - b).abs() <= 1e-4 * largest,
                "{name}: {a} instead of {b}"
            );
        }
    };
    near(&format!("{case}.out"), &y);
    let grads = (y * leaf(oracle, "weight")).sum().backward();
    for (name, leaf) in ["query", "key", "value"].iter().zip(leaves) {
        near(&format!("{case}.grad.{name}"), &leaf.grad(&grads).unwrap());
    }
}

#[test]
fn performer_pytorch() {
    let oracle = Oracle::open("performer");
    let w = oracle.array("projection");
    let w: Tensor<2> = Tensor::from_data(TensorData::new(w.values, [16, 8]), &device());
    let scale = 8f64.powf(-0.5);
    let relu = FeatureMap {
        features: Features::Rectified { scale, eps: 1e-3 },
        projection: Some(w.clone()),
    };
    for (kernel, map) in [("softmax", exponential(scale, 1e-4, w)), ("relu", relu)] {
        golden(&oracle, &format!("{kernel}.both"), &map, &Visibility::ALL);
        golden(
            &oracle,
            &format!("{kernel}.causal"),
            &map,
            &Visibility::causal(),
        );
    }
}

#[test]
fn the_closed_form_of_linear_attention() {
    let oracle = Oracle::open("linear");
    let map = FeatureMap::plain(Features::Elu);
    golden(&oracle, "both", &map, &Visibility::ALL);
    golden(&oracle, "causal", &map, &Visibility::causal());
}

/// Root mean square error of Performer's estimate of softmax attention over several draws.
fn error(features: usize, draws: u64, causal: bool) -> f64 {
    let d = 8;
    let [q, k, v] = leaves([1, 2, 2, 48, d]);
    let [q, k] = [q, k].map(|x| x * 0.2);
    let visible = Visibility {
        causal,
        ..Visibility::default()
    };
    let relations = Positional {
        visible: visible.clone(),
        ..Positional::default()
    };
    let options = AttentionOptions {
        scale: 8f64.powf(-0.5),
        softcap: None,
        dropout: None,
    };
    let wanted = kernel::attention(q.clone(), k.clone(), v.clone(), relations, options);
    let squares: f64 = (0..draws)
        .map(|draw| {
            let map = exponential(options.scale, 0.0, projection(features, d, draw));
            let found = linear_attention(q.clone(), k.clone(), v.clone(), &map, &visible);
            let all = values(&(found - wanted.clone()));
            let sum: f64 = all.iter().map(|x| f64::from(*x).powi(2)).sum();
            sum / all.len() as f64
        })
        .sum();
    (squares / draws as f64).sqrt()
}

/// With sixteen times as many features, the error is a quarter.
#[test]
fn the_error_falls_with_the_root_of_the_features() {
    for causal in [true, false] {
        let errors = [64, 1024].map(|features| error(features, 48, causal));
        let ratio = errors[0] / errors[1];
        assert!((3.2..5.0).contains(&ratio), "{causal}: {errors:?}");
        let last = error(16_384, 3, causal);
        assert!(
            last < 1.5e-3 && last < errors[1] / 2.5,
            "{causal}: {last} after {errors:?}"
        );
    }
}
