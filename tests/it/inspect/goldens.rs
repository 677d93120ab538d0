//! Results of `inspect` against NumPy, SciPy and scikit-learn (`tests/goldens/make_inspect.py`).

use crate::oracle::Oracle;
use burn::tensor::TensorData;
use formwork::inspect::filters::Filters;
use formwork::inspect::heads::{HeadStatistics, HeadSums};
use formwork::inspect::positions::Similarity;
use formwork::inspect::rollout::rollouts;
use formwork::inspect::weights::{Layout, Weights};
use formwork::nn::record::AttentionKey;
use std::collections::BTreeMap;

const GRID: Layout = Layout::Grid {
    rows: 3,
    cols: 4,
    first: 1,
    class_token: true,
    pixels: [8.0, 6.0],
};

fn near(ours: impl IntoIterator<Item = f64>, theirs: &[f32], what: &str) {
    let ours: Vec<f64> = ours.into_iter().collect();
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let apart = (ours - f64::from(*theirs)).abs();
        assert!(
            apart < 2e-6 * (1.0 + ours.abs()),
            "{what} {at}: {ours} {theirs}"
        );
    }
}

/// Reads the layers `[layers, heads, queries, keys]` of a golden array.
fn layers(golden: &Oracle, name: &str) -> BTreeMap<AttentionKey, Weights> {
    let array = golden.array(name);
    let [.., heads, queries, keys] = array.shape[..] else {
        panic!("{name} has too few dimensions")
    };
    let size = heads * queries * keys;
    let layer = |(layer, values): (usize, &[f32])| {
        let data = TensorData::new(values.to_vec(), [1, heads, queries, keys]);
        let at = AttentionKey {
            network: String::new(),
            is_cross: false,
            layer,
        };
        (at, Weights::of(&data))
    };
    array.values.chunks(size).enumerate().map(layer).collect()
}

fn heads(layout: Layout, example: &BTreeMap<AttentionKey, Weights>) -> Vec<HeadStatistics> {
    let mut heads = HeadSums::new(layout);
    // The example is added twice, so that sums which should be means over examples show.
    heads.add(example);
    heads.add(example);
    heads.finished()
}

#[test]
fn heads_look_as_far_and_as_widely() {
    let golden = Oracle::open("inspect");
    let example = layers(&golden, "weights");
    let line = heads(Layout::Sequence, &example);
    let of = |of: fn(&HeadStatistics) -> f64| line.iter().map(of).collect::<Vec<_>>();
    near(
        of(|h| h.entropy),
        &golden.array("entropy").values,
        "entropy",
    );
    near(
        of(|h| h.largest),
        &golden.array("largest").values,
        "largest",
    );
    near(of(|h| h.first), &golden.array("first").values, "first");
    let distances = |heads: &[HeadStatistics]| {
        heads
            .iter()
            .map(|h| h.distance.unwrap())
            .collect::<Vec<_>>()
    };
    near(distances(&line), &golden.array("line").values, "tokens");
    let grid = heads(GRID, &example);
    near(distances(&grid), &golden.array("grid").values, "pixels");
    assert!(grid.iter().all(|head| head.by_distance.is_empty()));
}

#[test]
fn keys_behind_a_query_of_a_decoder_do_not_count() {
    let golden = Oracle::open("inspect");
    let example = layers(&golden, "causal");
    let found = heads(Layout::Sequence, &example);
    let ours = found.iter().flat_map(|head| head.by_distance.clone());
    near(
        ours,
        &golden.array("causal_by_distance").values,
        "by distance",
    );
}

#[test]
fn attention_rolls_out() {
    let golden = Oracle::open("inspect");
    let mut example = layers(&golden, "weights");
    let found = rollouts(&example).remove("").unwrap().unwrap();
    near(
        found.shares.clone(),
        &golden.array("rollout").values,
        "rollout",
    );
    for position in 0..13 {
        let sum: f64 = found.row(position).iter().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{position}: {sum}");
    }
    let mean = found.mean(0..13);
    assert!((mean.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    // Rollout stops at a layer whose keys are not positions, and leaves out cross-attention.
    let mut odd = example.pop_last().unwrap();
    odd.1.keys = 1;
    odd.1.values.truncate(odd.1.heads * odd.1.queries);
    example.insert(odd.0.clone(), odd.1);
    assert_eq!(rollouts(&example).remove("").unwrap(), Err(2));
    let (mut at, weights) = example.pop_last().unwrap();
    at.is_cross = true;
    example.insert(at, weights);
    assert!(rollouts(&example).remove("").unwrap().is_ok());
}

#[test]
fn filters_have_the_components_of_scikit_learn() {
    let golden = Oracle::open("inspect");
    for name in ["many", "few"] {
        let theirs = golden.array(&format!("{name}.filters"));
        let filters = Filters {
            path: name.into(),
            shape: [2, 3, 3],
            values: theirs.values.clone(),
        };
        let wanted = golden.array(&format!("{name}.components"));
        let found = filters.components(wanted.shape[0]);
        near(found.vectors.concat(), &wanted.values, name);
        near(
            found.shares,
            &golden.array(&format!("{name}.shares")).values,
            name,
        );
        let vectors = TensorData::new(theirs.values, theirs.shape);
        let cosines = Similarity::of(&vectors).cosines;
        near(
            cosines,
            &golden.array(&format!("{name}.cosines")).values,
            name,
        );
    }
    // A single filter, or equal filters, have no variance.
    let one = Filters {
        path: String::new(),
        shape: [1, 1, 2],
        values: vec![1.0, 2.0],
    };
    assert!(one.components(3).vectors.is_empty());
    let alike = Filters {
        values: vec![1.0, 2.0, 1.0, 2.0],
        ..one
    };
    assert!(
        alike
            .components(3)
            .vectors
            .iter()
            .flatten()
            .all(|x| x.is_finite())
    );
    let none = TensorData::new(vec![0.0f32; 4], [2, 2]);
    assert_eq!(Similarity::of(&none).cosines, [0.0; 4]);
}
