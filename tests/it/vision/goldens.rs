//! HF's ViT (`tests/goldens/make_vision.py`): hidden states, logits, loss and all gradients, at the size it was made for and at
//! a larger one with resampled positions.

use super::{classifier, collect, images, tensor, tiny_vit, vit, with_weights};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, values};
use burn::module::Param;
use burn::tensor::{Device, Tensor};
use formwork::interop::weights::Array;
use formwork::kernel::cross_entropy_sum;
use formwork::model::{ImageModel, Vision};
use formwork::nn::pass::Pass;
use formwork::nn::position::Position;
use formwork::nn::position::resample::resample_grid;
use formwork::task::{ImageClassification, ImageClassificationConfig, Objective};
use std::collections::BTreeMap;

const IMAGE: [usize; 3] = [3, 12, 12];
const CLASSES: usize = 5;

/// Returns the tensors of an oracle under a prefix, in Formwork's paths and layout.
fn ours(oracle: &Oracle, prefix: &str) -> BTreeMap<String, Array> {
    let theirs = oracle.arrays(|name| name.strip_prefix(prefix));
    theirs.into_iter().map(|(name, a)| vit(&name, a)).collect()
}

fn network(task: &Objective<ImageClassification>) -> &Vision {
    match &task.model {
        ImageModel::Vision(network) => network,
        ImageModel::Resnet(_) | ImageModel::Swin(_) => unreachable!(),
    }
}

/// Compares hidden states, logits and loss with an oracle; returns the loss.
fn forward(name: &str, task: &Objective<ImageClassification>, oracle: &Oracle) -> Tensor<1> {
    let device = Device::flex().autodiff();
    let pixels = oracle.array("pixel_values");
    let shape = [pixels.shape[1], pixels.shape[2], pixels.shape[3]];
    let pass = Pass::evaluation();
    let hidden = network(task).forward(tensor(&pixels, &device), &pass);
    let off = difference(&values(hidden), &oracle.array("last_hidden_state").values);
    assert!(off < TOLERANCE, "{name}: hidden states are off by {off:e}");
    let (_, labels) = oracle.integers("labels");
    let batch = images(&pixels.values, shape, &labels);
    let formwork::data::Content::Images(content) = &batch.content else {
        unreachable!()
    };
    let logits = task.logits(content, &pass);
    let off = difference(&values(logits.clone()), &oracle.array("logits").values);
    assert!(off < TOLERANCE, "{name}: logits are off by {off:e}");
    let rows = labels.len();
    let labels = Tensor::from_data(&labels[..], &device);
    let loss = cross_entropy_sum(logits, labels, 0.0) / rows as f64;
    let off = difference(&values(loss.clone()), &oracle.array("loss").values);
    assert!(off < 1e-5, "{name}: the loss is off by {off:e}");
    loss
}

fn compare(name: &str, found: &BTreeMap<String, Array>, wanted: &BTreeMap<String, Array>) {
    assert!(found.keys().eq(wanted.keys()), "{name}: other gradients");
    for (path, theirs) in wanted {
        assert_eq!(found[path].shape, theirs.shape, "{name}: {path}");
        let off = difference(&found[path].values, &theirs.values);
        assert!(
            off < TOLERANCE,
            "{name}: gradient of {path} is off by {off:e}"
        );
    }
}

fn loaded(size: [usize; 3], weights: &BTreeMap<String, Array>) -> Objective<ImageClassification> {
    let config = ImageClassificationConfig::default();
    with_weights(classifier(&tiny_vit(4), &config, size, CLASSES), weights)
}

#[test]
fn a_vit_is_hf_s() {
    let oracle = Oracle::open("vit");
    let task = loaded(IMAGE, &ours(&oracle, "weight."));
    let gradients = forward("vit", &task, &oracle).backward();
    compare(
        "vit",
        &collect(&task, Some(&gradients)),
        &ours(&oracle, "grad."),
    );
}

#[test]
fn a_vit_at_a_higher_resolution_is_hf_s() {
    const TABLE: &str = "model.position.table";
    let oracle = Oracle::open("vit_resized");
    let mut weights = ours(&Oracle::open("vit"), "weight.");
    let device = Device::flex().autodiff();
    let table = tensor::<2>(&weights[TABLE], &device).require_grad();
    let resampled = resample_grid(table.clone(), [3, 3], [5, 5], true, false);
    let off = difference(
        &values(resampled.clone()),
        &oracle.array("position_embeddings").values,
    );
    assert!(off < 1e-6, "positions are off by {off:e}");
    let array = Array {
        shape: resampled.dims().to_vec(),
        values: values(resampled.clone()),
    };
    weights.insert(TABLE.into(), array);
    let mut task = loaded([3, 20, 20], &weights);
    let ImageModel::Vision(vision) = &mut task.0.model else {
        unreachable!()
    };
    let Position::Learned(learned) = &mut vision.position else {
        unreachable!()
    };
    learned.table = Param::initialized(learned.table.id, resampled);
    let gradients = forward("vit_resized", &task, &oracle).backward();
    let gradient = table.grad(&gradients).unwrap();
    let found = {
        let mut with_leaf = task.clone();
        let ImageModel::Vision(vision) = &mut with_leaf.0.model else {
            unreachable!()
        };
        let Position::Learned(learned) = &mut vision.position else {
            unreachable!()
        };
        learned.table = Param::initialized(learned.table.id, table);
        collect(&with_leaf, Some(&gradients))
    };
    assert_eq!(found[TABLE].values, values(gradient));
    compare("vit_resized", &found, &ours(&oracle, "grad."));
}
