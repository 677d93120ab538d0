//! The auxiliary losses of Al-Rfou et al. 2019 against their definition (`tests/goldens/make_al_rfou.py`), and what they cost;
//! runs with them in `auxiliary_losses/runs.rs`.

mod runs;

use crate::oracle::{Oracle, difference};
use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::InferenceStep;
use formwork::data::batch::{Batch, Item, TextItem};
use formwork::data::loader::{BatchSize, Order, step_batches};
use formwork::data::targets::{ScoredPositions, Targets};
use formwork::data::{NOT_SCORED, Shape, Source};
use formwork::error::Result;
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::position::PositionConfig;
use formwork::plan::{ModelCost, PlanRequest, plan};
use formwork::task::{CausalLmConfig, Objective, TaskConfig};
use formwork::train::checkpoint::weights;
use formwork::train::gradients::{Gradient, accumulate};
use formwork::train::parameters::{list, materialize, name_parameters};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const TOLERANCE: f64 = 1e-4;
const LENGTH: usize = 8;
const LAYERS: u32 = 4;
const STEPS: u64 = 100;
const SECOND: f64 = 0.5;

fn all() -> CausalLmConfig {
    CausalLmConfig {
        intermediate_layers: true,
        second_target: Some(SECOND),
        ..CausalLmConfig::default()
    }
}

fn model() -> ModelConfig {
    let config = json!({
        "kind": "decoder", "n_layers": LAYERS, "d_model": 12, "norm_placement": "post",
        "position": { "kind": "learned_per_layer" },
        "attention": { "kind": "multi_head", "n_heads": 2 },
        "feed_forward": { "kind": "dense", "activation": "relu", "d_ff": 20 },
        "tie_embeddings": false, "head_bias": true,
    });
    serde_json::from_value(config).unwrap()
}

fn task(config: &CausalLmConfig) -> Objective {
    let inputs = BuildContext {
        shape: &Shape::of_text(LENGTH, 13),
        seed: 5,
        device: &Device::flex().autodiff(),
    };
    let task = TaskConfig::CausalLm(config.clone());
    let task = task.init(&model(), &inputs, false).unwrap();
    materialize(name_parameters(task))
}

/// Rows of ten tokens each: eight are inputs, the last two are targets only.
struct Windows(Vec<TextItem>);

impl Windows {
    fn of(oracle: &Oracle) -> Arc<dyn Source> {
        let (_, window) = oracle.integers("window");
        let rows = window.chunks(LENGTH + 2).map(|row| TextItem {
            inputs: row[..LENGTH].to_vec(),
            targets: row[1..=LENGTH].to_vec(),
            next_token: Some(row[LENGTH + 1]),
            ..TextItem::default()
        });
        Arc::new(Self(rows.collect()))
    }

    /// Rows with different numbers of targets; one of them ends with its document.
    fn uneven(oracle: &Oracle) -> Arc<dyn Source> {
        let source = Self::of(oracle);
        let mut rows: Vec<TextItem> = (0..3)
            .map(|n| source.get(n, n).unwrap().text().unwrap())
            .collect();
        rows[0].targets[..5].fill(NOT_SCORED);
        rows[1].targets[3] = NOT_SCORED;
        rows[2].next_token = None;
        Arc::new(Self(rows))
    }
}

impl Source for Windows {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, sample: u64, _: u64) -> Result<Item> {
        Ok(Item::Text(self.0[sample as usize % self.0.len()].clone()))
    }

    fn is_endless(&self) -> bool {
        true
    }
}

fn batches(source: Arc<dyn Source>, targets: Targets, step: u64, micro: usize) -> Vec<Batch> {
    let source = targets.of(source);
    let mut order = Order::new(1, BatchSize::Items(3));
    let mut batches = step_batches(source.as_ref(), &mut order, micro, step).unwrap();
    for batch in &mut batches {
        batch.steps = STEPS;
    }
    batches
}

fn positions(positions: ScoredPositions) -> Targets {
    Targets {
        positions,
        second: true,
    }
}

/// Gradients by parameter path; parameters without a gradient are left out.
fn gradients<M: Module>(task: &M, gradient: &Gradient) -> BTreeMap<String, Vec<f32>> {
    let mut found = BTreeMap::new();
    let values = |data: TensorData| data.iter::<f32>().collect::<Vec<f32>>();
    for parameter in list(task) {
        let all = &gradient.gradients;
        let value = match parameter.shape.len() {
            1 => all.get::<1>(parameter.id).map(Tensor::into_data),
            _ => all.get::<2>(parameter.id).map(Tensor::into_data),
        };
        if let Some(value) = value {
            found.insert(parameter.path, values(value));
        }
    }
    found
}

/// The loss that is differentiated, computed from the journal's metrics, which are means over the `alive` layers before the
/// last.
fn total(gradient: &Gradient, alive: f64) -> f64 {
    let metric = |name: &str| {
        gradient
            .output
            .metrics
            .get(name)
            .map_or(0.0, |sum| sum.mean())
    };
    let next = gradient.output.loss.mean() + alive * metric("layer_loss");
    next + SECOND * (metric("second_loss") + alive * metric("layer_second_loss"))
}

/// Layer 2 of 4 stops at step 25 of 100, the step of the cases in the middle of training.
#[test]
fn losses_and_gradients_are_those_of_the_definition() {
    let oracle = Oracle::open("al_rfou");
    let given: BTreeMap<String, TensorData> = oracle
        .arrays(|name| name.strip_prefix("weight."))
        .into_iter()
        .map(|(path, array)| (path, TensorData::new(array.values, array.shape)))
        .collect();
    let task = task(&all());
    assert!(list(&task).iter().all(|p| given.contains_key(&p.path)));
    let task = weights::fill(task, given).unwrap();
    for (case, step, alive, scored) in [
        ("start", 0, 3.0, ScoredPositions::All),
        ("middle", 25, 1.0, ScoredPositions::All),
        ("end", 90, 0.0, ScoredPositions::All),
        ("half", 25, 1.0, ScoredPositions::SecondHalf),
        ("last", 25, 1.0, ScoredPositions::Last),
    ] {
        let batches = batches(Windows::of(&oracle), positions(scored), step, 3);
        let gradient = accumulate(&task, batches);
        let theirs = f64::from(oracle.array(&format!("{case}.loss")).values[0]);
        let ours = total(&gradient, alive);
        assert!(
            (ours / theirs - 1.0).abs() < 1e-5,
            "{case}: {ours} {theirs}"
        );
        let found = gradients(&task, &gradient);
        let prefix = format!("{case}.grad.");
        let theirs = oracle.arrays(|name| name.strip_prefix(&prefix));
        assert!(found.keys().eq(theirs.keys()), "{case}: {:?}", found.keys());
        for (path, gradient) in found {
            let off = difference(&gradient, &theirs[&path].values);
            assert!(off < TOLERANCE, "{case}: {path} is off by {off:e}");
        }
    }
}

/// Gradients do not depend on how the rows of a step are cut into micro-batches, nor on how targets are spread over them.
#[test]
fn micro_batches_are_one_batch() {
    let oracle = Oracle::open("al_rfou");
    let task = task(&all());
    for scored in [
        ScoredPositions::All,
        ScoredPositions::SecondHalf,
        ScoredPositions::Last,
    ] {
        let of = |micro: usize| {
            let source = Windows::uneven(&oracle);
            accumulate(&task, batches(source, positions(scored), 13, micro))
        };
        let (one, three) = (of(3), of(1));
        assert!((total(&one, 2.0) / total(&three, 2.0) - 1.0).abs() < 1e-6);
        let (one, three) = (gradients(&task, &one), gradients(&task, &three));
        for (path, gradient) in one {
            let off = difference(&gradient, &three[&path]);
            assert!(off < 1e-5, "{scored:?}: {path} is off by {off:e}");
        }
    }
}

/// Evaluation gives the numbers of a model without these losses that has the same network from the same seed.
#[test]
fn an_evaluation_is_of_the_next_token_alone() {
    let oracle = Oracle::open("al_rfou");
    let evaluated = |task: &Objective| {
        let mut batch = batches(Windows::of(&oracle), Targets::default(), 0, 3);
        InferenceStep::step(task, batch.remove(0).into())
    };
    let (plain, with) = (task(&CausalLmConfig::default()), task(&all()));
    assert_eq!(evaluated(&with), evaluated(&plain));
    let names = |task: &Objective| -> Vec<String> {
        let all = list(task).into_iter().map(|p| p.path);
        all.filter(|path| path.starts_with("auxiliary.")).collect()
    };
    // Two output maps for each of the 4 layers, except next-token prediction in the last, which is the LM head.
    assert_eq!((names(&plain).len(), names(&with).len()), (0, 14));
}

#[test]
fn weights_are_used_without_those_of_training() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("model.safetensors");
    let plain = || task(&CausalLmConfig::default());
    weights::save(&task(&all()), &file).unwrap();
    let used = weights::load_for_inference(plain(), &file).unwrap();
    assert_eq!(
        weights::weights_hash(&used),
        weights::weights_hash(&plain())
    );
    let error = weights::load(plain(), &file).unwrap_err().to_string();
    assert!(error.contains("`auxiliary.layers.0.next.bias`"), "{error}");
}

fn planned(model: &ModelConfig, task: &CausalLmConfig, shape: &Shape) -> ModelCost {
    let task = TaskConfig::CausalLm(task.clone());
    let question = PlanRequest {
        task: Some(&task),
        ..PlanRequest::of(model, shape)
    };
    plan(&question, &Device::default()).unwrap()
}

/// Layer l of n computes its map during the first l/2n of training; positions that are not scored cost nothing.
#[test]
fn a_plan_counts_the_maps_as_long_as_they_are_used() {
    let shape = Shape::of_text(LENGTH, 13);
    let flops = |task: &CausalLmConfig| planned(&model(), task, &shape).flops_per_item;
    let plain = flops(&CausalLmConfig::default());
    let product = 6.0 * 12.0 * 13.0;
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-6, "{found} {wanted}");
    // The three layers before the last compute for (1 + 2 + 3)/8 of training, each for two targets.
    near(flops(&all()) - plain, product * (2.0 * (1.0 + 0.75) - 1.0));
    let last = CausalLmConfig {
        positions: ScoredPositions::Last,
        ..CausalLmConfig::default()
    };
    near(flops(&last) - plain, product * (1.0 / 8.0 - 1.0));
}

/// Learned positions of every layer take N·T·d values (SYSTEMS.md, section 3): one table for each layer.
#[test]
fn positions_of_each_layer_are_counted() {
    for (n, t, d) in [(1, 5, 8), (3, 7, 16)] {
        let ModelConfig::Decoder(mut config) = model() else {
            panic!("a decoder")
        };
        (config.n_layers, config.stack.d_model) = (Some(n), d);
        let shape = Shape::of_text(t, 13);
        let cost = |position: &str| {
            let mut config = config.clone();
            config.stack.position =
                serde_json::from_value::<PositionConfig>(json!({ "kind": position })).unwrap();
            planned(
                &ModelConfig::Decoder(config),
                &CausalLmConfig::default(),
                &shape,
            )
        };
        let (with, without) = (cost("learned_per_layer"), cost("none"));
        assert_eq!(with.parts["position"], n * t * d);
        assert_eq!(with.params - without.params, n * t * d);
    }
}
