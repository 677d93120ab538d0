//! Arms with the same seed are paired: their common parameters have the same initial weights.

use crate::binary::shipped;
use crate::transfer::{Arrays, values_of};
use formwork::experiment::{self, assemble};

/// Returns the initial weights of the smoke test's model with some keys changed.
fn weights(sets: &[&str]) -> Arrays {
    let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
    let loaded = experiment::load(&shipped("experiments/smoke/tiny.toml"), &sets).unwrap();
    let data = assemble::training_data(&loaded).unwrap();
    let device = assemble::device(&loaded.experiment, false).unwrap();
    values_of(&assemble::objective(&loaded.experiment, &data.shape, &device).unwrap())
}

/// Returns the number of parameters that two models share by name and shape, and those of them that differ.
fn in_common(one: &Arrays, two: &Arrays) -> (usize, Vec<String>) {
    let common = one
        .iter()
        .filter_map(|(name, a)| Some((name, a, two.get(name)?)));
    let common: Vec<_> = common.filter(|(_, a, b)| a.shape == b.shape).collect();
    let differ = common.iter().filter(|(_, a, b)| a.values != b.values);
    (
        common.len(),
        differ.map(|(name, _, _)| name.to_string()).collect(),
    )
}

#[test]
fn what_two_arms_have_in_common_begins_alike() {
    let base = weights(&[]);
    let cases: [&[&str]; 5] = [
        &["model.norm_placement=post"],
        &["model.position={ kind = \"learned\" }"],
        &["model.feed_forward={ kind = \"dense\" }"],
        &["model.tie_embeddings=false"],
        &["model.attention={ kind = \"multi_head\", n_heads = 4, bias = true }"],
    ];
    for sets in cases {
        let (n, differ) = in_common(&base, &weights(sets));
        assert!(n >= 10, "{sets:?}: {n} parameters in common");
        assert!(differ.is_empty(), "{sets:?}: {differ:?}");
    }
    // Another depth scales only the projections back into the residual stream.
    let (_, differ) = in_common(&base, &weights(&["model.n_layers=3"]));
    assert!(!differ.is_empty());
    let projection = |name: &String| name.contains("output") || name.contains("down");
    assert!(differ.iter().all(projection), "{differ:?}");
    // With another seed, all matrices differ.
    let (n, differ) = in_common(&base, &weights(&["seed=4"]));
    let matrices = base.values().filter(|a| a.shape.len() > 1).count();
    assert!(n >= matrices && differ.len() == matrices, "{differ:?}");
}
