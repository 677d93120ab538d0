//! Reward models: losses, rewards and gradients of a tiny LLaMA against TRL (`tests/goldens/make_reward.py` is the oracle), and
//! independence of rewards from padding and batches.

mod folders;
mod runs;
mod used;

use crate::batches::{self, cut, in_one_step};
use crate::goldens::TOLERANCE;
use crate::oracle::{Oracle, difference, hf_folder};
use crate::transfer::gradients_of;
use burn::module::Module;
use burn::tensor::Device;
use burn::train::InferenceStep;
use formwork::data::batch::{Batch, Content, Item, TextItem};
use formwork::interop::read_hf;
use formwork::interop::rename::Table;
use formwork::model::BuildContext;
use formwork::task::{Objective, RewardConfig, TaskConfig};
use formwork::train::gradients::{Gradient, accumulate};
use formwork::train::parameters::list;

const ORACLE: &str = "reward";

/// The oracle's model as a reward model, with the names of its parameters.
fn task(oracle: &Oracle, center: Option<f64>) -> (Objective, Table) {
    let weights = oracle.arrays(|name| name.starts_with("model.").then_some(name));
    let head = oracle.arrays(|name| (name == "score.weight").then_some(name));
    let weights = weights.into_iter().chain(head).collect();
    let dir = hf_folder(&oracle.config(), &weights);
    let hf = read_hf(dir.path(), &[]).unwrap();
    let Some(TaskConfig::Reward(own)) = hf.shape.task.as_reward() else {
        panic!("the folder holds no model with a number");
    };
    assert_eq!(own.head_bias, Some(false));
    let own = TaskConfig::Reward(RewardConfig {
        center_rewards_coefficient: center,
        ..own
    });
    let inputs = BuildContext {
        shape: &hf.shape.shape,
        seed: 1,
        device: &Device::flex().autodiff(),
    };
    let task = own.init(&hf.shape.model, &inputs, false).unwrap();
    (hf.load(task, hf.table()).unwrap(), hf.table())
}

/// The oracle's pairs, one in each row, with their margins or with margins of 0.
fn batch(oracle: &Oracle, margins: bool) -> Batch {
    let (shape, ids) = oracle.integers("input_ids");
    let (_, mask) = oracle.integers("attention_mask");
    let margin = oracle.array("margin").values;
    let (rows, cols) = (shape[0] / 2, shape[1]);
    let text = |number: usize| {
        let own = number * cols..(number + 1) * cols;
        let length = mask[own.clone()].iter().sum::<i32>() as usize;
        ids[own][..length].to_vec()
    };
    let items = (0..rows).map(|row| {
        let (better, worse) = (text(row), text(rows + row));
        let segments = [vec![0; better.len()], vec![1; worse.len()]].concat();
        Item::Text(TextItem {
            inputs: [better, worse].concat(),
            segments: Some(segments),
            number: Some(if margins { margin[row] } else { 0.0 }),
            ..TextItem::default()
        })
    });
    let items: Vec<Item> = items.collect();
    batches::of(Content::of(&items), rows)
}

fn number(oracle: &Oracle, name: &str) -> f64 {
    f64::from(oracle.array(name).values[0])
}

fn near(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() < 1e-5 * wanted.abs().max(1.0)
}

#[test]
fn losses_rewards_and_gradients_are_trl_s() {
    let oracle = Oracle::open(ORACLE);
    let rewards = oracle.array("rewards").values;
    let mean = |of: &[f32]| of.iter().map(|x| f64::from(*x)).sum::<f64>() / of.len() as f64;
    let (better, worse) = rewards.split_at(rewards.len() / 2);
    for (name, center, margins) in [
        ("plain", None, false),
        ("margins", None, true),
        ("centered", Some(0.3), false),
    ] {
        let (task, table) = task(&oracle, center);
        let batch = batch(&oracle, margins);
        let Gradient {
            gradients, output, ..
        } = accumulate(&task, vec![batch.clone()]);
        let told = |metric: &str| output.metrics[metric].mean();
        // The centering term is reported beside the loss.
        let added = center.map_or(0.0, |c| c * told("reward_center"));
        let (found, wanted) = (output.loss.mean(), number(&oracle, &format!("{name}.loss")));
        assert!(near(found + added, wanted), "{name}: {found} and {added}");
        assert_eq!(output.loss.weight, 5.0, "{name}: a mean over pairs");
        let found = table.export(&gradients_of(&task, &gradients));
        let prefix = format!("{name}.grad.");
        let theirs = oracle.arrays(|tensor| tensor.strip_prefix(&*prefix));
        assert!(found.keys().eq(theirs.keys()), "{name}: other gradients");
        for (weight, theirs) in &theirs {
            let off = difference(&found[weight].values, &theirs.values);
            assert!(off < TOLERANCE, "{name}: {weight} is off by {off:e}");
        }
        // Margins affect only the loss, not these metrics.
        for (metric, wanted) in [
            ("reward_accuracy", number(&oracle, "accuracy")),
            ("reward_margin", number(&oracle, "reward_margin")),
            ("reward_chosen", mean(better)),
            ("reward_rejected", mean(worse)),
        ] {
            assert!(near(told(metric), wanted), "{name}: {metric}");
            assert!(output.added.contains(metric), "training's journal");
        }
        let evaluated = InferenceStep::step(&task.valid(), batch.into());
        assert!(near(evaluated.loss.mean(), output.loss.mean()), "{name}");
        assert!(!evaluated.is_token_loss(), "no perplexity of pairs");
    }
}

/// The rows of a step may be cut into micro-batches anywhere: texts are padded to the width of the step.
#[test]
fn micro_batches_have_the_losses_of_one_batch() {
    let oracle = Oracle::open(ORACLE);
    let (task, _) = task(&oracle, Some(0.1));
    let whole = batch(&oracle, true);
    let cut_at = |cuts: &[usize]| {
        let ends = cuts.iter().copied().chain([5]);
        let begins = [0].into_iter().chain(cuts.iter().copied());
        let parts = begins
            .zip(ends)
            .map(|(from, to)| cut(&whole, from..to, false));
        parts.collect::<Vec<_>>()
    };
    let losses = |parts: Vec<Batch>| {
        let parts = in_one_step(parts, 0).into_iter();
        let loss = |part: Batch| InferenceStep::step(&task.valid(), part.into()).loss.sum;
        parts.map(loss).collect::<Vec<f64>>()
    };
    let alone = losses(cut_at(&[1, 2, 3, 4]));
    let [two, three] = losses(cut_at(&[2]))[..] else {
        panic!("two parts");
    };
    // 32-bit sums of the same values.
    let sum = |of: &[f64]| of.iter().fold(0.0f32, |sum, x| sum + *x as f32);
    assert!((two - f64::from(sum(&alone[..2]))).abs() < 1e-6);
    assert!((three - f64::from(sum(&alone[2..]))).abs() < 1e-6);
}

#[test]
fn a_reward_is_that_of_one_text() {
    let oracle = Oracle::open(ORACLE);
    let (task, _) = task(&oracle, None);
    let batch = batch(&oracle, false);
    let valid = task.valid();
    let model = valid.networks().reward.unwrap();
    let texts = batch.text().unwrap();
    let both = model.pair_rewards(texts, &formwork::nn::pass::Pass::evaluation());
    let found: Vec<f32> = both
        .iter()
        .flat_map(|rewards| {
            rewards
                .clone()
                .into_data()
                .iter::<f32>()
                .collect::<Vec<_>>()
        })
        .collect();
    let off = difference(&found, &oracle.array("rewards").values);
    assert!(off < 1e-5, "{off}");
    for parameter in list(&task) {
        let own = parameter.path.starts_with("model.") || parameter.path == "head.weight";
        assert!(own, "{}", parameter.path);
    }
}
