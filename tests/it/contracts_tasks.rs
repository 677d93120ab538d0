//! Contracts of every task on texts and pairs, over all positions and norm placements: every parameter learns, micro-batches
//! make one batch, padding changes nothing, the same seed gives the same bits, dropout is off in evaluation, one batch is
//! learned by heart.

use crate::batches::{self, cut, in_one_step};
use crate::cases::{COLS, Case, LENGTHS, TARGET_COLS, TARGETS, VOCAB, base, cases, pairs};
use crate::oracle::difference;
use crate::transfer::{gradients_of, values_of};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{InferenceStep, TrainStep};
use formwork::data::Shape;
use formwork::data::batch::Content;
use formwork::evaluate::metric;
use formwork::kernel;
use formwork::model::LanguageModel;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, DecoderConfig};
use formwork::nn::pass::Pass;
use formwork::task::{METRICS, Objective, PrefixLm, StepOutput, TranslationConfig};
use formwork::train::gradients::{Gradient, accumulate};
use formwork::train::optim::{self, OptimizerConfig};

fn adamw(lr: f64) -> OptimizerConfig {
    serde_json::from_value(serde_json::json!({ "kind": "adamw", "lr": lr })).unwrap()
}

/// Whether a parameter has no gradient: key biases shift all scores of a query alike if positions do not rotate keys, and
/// biases of a head over a text's positions shift all its scores alike.
fn idle(path: &str, name: &str) -> bool {
    // A number added to all scores of a head changes no attention weight.
    let of_scores = path.contains("position") && path.ends_with("head.bias");
    of_scores
        || path.ends_with("key.bias")
        || path == "head.bias" && name.starts_with("question_answering")
}

#[test]
fn every_parameter_learns_and_alike_each_time() {
    for case in cases() {
        let name = &case.name;
        let stepped = || {
            let task = case.build();
            let gradient = accumulate(&task, vec![case.batch()]);
            for (path, array) in gradients_of(&task, &gradient.gradients) {
                let most = array.values.iter().fold(0.0f32, |m, x| m.max(x.abs()));
                assert!(most.is_finite(), "{name}: {path}");
                assert!(
                    most > 0.0 || idle(&path, name),
                    "{name}: {path} has no gradient"
                );
            }
            let before = values_of(&task);
            let mut optimizer = optim::build(&adamw(1e-3), &task).unwrap();
            (
                before,
                values_of(&optimizer.step(1e-3, task, gradient.gradients)),
            )
        };
        let (before, after) = stepped();
        for (path, old) in &before {
            assert!(
                *old != after[path] || idle(path, name),
                "{name}: {path} stays"
            );
        }
        assert!(stepped() == (before, after), "{name}: other bits");
    }
}

/// Whether a metric is in the tables of tasks and evaluations.
fn defined(name: &str) -> bool {
    let tables = METRICS.iter().copied().chain([metric::METRICS]);
    tables.flatten().any(|metric| metric.name == name)
}

/// Checks that sums and gradients are equal for every size of micro-batch. Auxiliary losses of layers are means over a
/// micro-batch, padding included, and so depend on the cut; here they do not contribute to the gradient.
fn equal(case: &Case, task: &Objective, one: &Gradient, two: &Gradient) {
    let name = &case.name;
    let near = |a: f64, b: f64| (a - b).abs() <= 2e-5 * b.abs().max(1e-3);
    let sums = |output: &StepOutput| {
        let defined = output.metrics.iter().filter(|(name, _)| defined(name));
        let metrics = defined.flat_map(|(_, s)| [s.sum, s.weight]);
        let rest = [output.loss.sum, output.loss.weight, output.items as f64];
        metrics.chain(rest).collect::<Vec<f64>>()
    };
    let (ours, theirs) = (sums(&one.output), sums(&two.output));
    let same = ours.iter().zip(&theirs).all(|(a, b)| near(*a, *b));
    assert!(same, "{name}: {ours:?} and {theirs:?}");
    let theirs = gradients_of(task, &two.gradients);
    for (path, ours) in gradients_of(task, &one.gradients) {
        let off = difference(&ours.values, &theirs[&path].values);
        assert!(off < 1e-4, "{name}: {path} is off by {off:e}");
    }
}

#[test]
fn micro_batches_equal_one_batch_with_dropout_on() {
    for case in cases().into_iter().filter(|case| !case.couples_rows()) {
        let case = case.dropping(0.2, 0.3);
        let task = case.build();
        let whole = case.batch();
        let parts = vec![cut(&whole, 0..1, false), cut(&whole, 1..4, false)];
        let whole = accumulate(&task, in_one_step(vec![whole], 3));
        equal(
            &case,
            &task,
            &whole,
            &accumulate(&task, in_one_step(parts, 3)),
        );
    }
}

#[test]
fn rows_alone_equal_rows_in_a_padded_batch() {
    for case in cases().into_iter().filter(|case| !case.couples_rows()) {
        let task = case.build();
        let whole = case.batch();
        let alone = (0..4).map(|row| cut(&whole, row..row + 1, true)).collect();
        let whole = accumulate(&task, in_one_step(vec![whole], 0));
        equal(
            &case,
            &task,
            &whole,
            &accumulate(&task, in_one_step(alone, 0)),
        );
    }
}

#[test]
fn dropout_and_drop_path_draw_by_step_and_rest_in_evaluation() {
    for (dropout, drop_path) in [(0.5, 0.0), (0.0, 0.5)] {
        for (case, still) in base(16).into_iter().zip(base(16)) {
            let case = case.dropping(dropout, drop_path);
            let task = case.build();
            let loss = |step: usize| {
                let batch = in_one_step(vec![case.batch()], step).remove(0);
                TrainStep::step(&task, batch.into()).item.loss.sum
            };
            assert_eq!(loss(1), loss(1), "{}", case.name);
            assert_ne!(loss(1), loss(2), "{}", case.name);
            let evaluated =
                |task: Objective| InferenceStep::step(&task.valid(), case.batch().into());
            assert_eq!(
                evaluated(task.clone()),
                evaluated(still.build()),
                "{}",
                case.name
            );
        }
    }
}

/// A metric that no table defines would be taken for a loss.
#[test]
fn every_metric_is_defined_with_its_direction() {
    for case in base(16) {
        let output = InferenceStep::step(&case.build().valid(), case.batch().into());
        assert!(!output.metrics.is_empty());
        for name in output.metrics.keys() {
            assert!(defined(name), "{name}");
        }
    }
}

#[test]
fn seeds_draw_the_weights() {
    for case in base(16) {
        let values = |seed| values_of(&case.with_seed(seed));
        assert!(values(1) == values(1), "{}", case.name);
        let (one, two) = (values(1), values(2));
        for (path, array) in &one {
            let drawn = array.values.iter().any(|x| *x != array.values[0]);
            assert!(!drawn || *array != two[path], "{}: {path}", case.name);
        }
        // No two matrices are initialised alike.
        let drawn = one
            .iter()
            .filter(|(_, array)| array.values[0] != array.values[1]);
        let mut starts: Vec<String> = drawn
            .map(|(_, array)| format!("{:.4}", array.values[0] / array.values[1]))
            .collect();
        let count = starts.len();
        starts.sort();
        starts.dedup();
        assert_eq!(starts.len(), count, "{}", case.name);
    }
}

#[test]
fn one_batch_is_learnt_by_heart() {
    for case in base(32) {
        let mut task = case.build();
        let mut optimizer = optim::build(&adamw(5e-3), &task).unwrap();
        let mut last = f64::INFINITY;
        for _ in 0..150 {
            let gradient = accumulate(&task, vec![case.batch()]);
            let output = &gradient.output;
            let pairs = output.metrics.get("nsp_loss");
            last = output.loss.mean() + pairs.map_or(0.0, |sum| sum.mean());
            task = optimizer.step(5e-3, task, gradient.gradients);
        }
        println!("{}: {last:.4}", case.name);
        assert!(last < 0.05, "{}: the loss is still {last}", case.name);
    }
}

/// A micro-batch may have no scored position, and so may a whole step.
#[test]
fn masked_lm_bears_micro_batches_without_scored_positions() {
    let [case, ..] = base(16);
    let task = case.build();
    let whole = case.batch();
    let nothing = cut(&whole, 2..3, true);
    assert_eq!(nothing.scored, 0);
    let parts = vec![
        cut(&whole, 0..2, true),
        nothing.clone(),
        cut(&whole, 3..4, true),
    ];
    let whole = accumulate(&task, in_one_step(vec![cut(&whole, 0..4, false)], 0));
    equal(
        &case,
        &task,
        &whole,
        &accumulate(&task, in_one_step(parts, 0)),
    );
    let alone = accumulate(&task, in_one_step(vec![nothing], 0));
    assert_eq!(
        (alone.output.loss.sum, alone.output.loss.weight),
        (0.0, 0.0)
    );
    assert!(alone.norm.is_finite() && alone.norm > 0.0);
    let pairs = alone.output.metrics["nsp_loss"];
    assert!(pairs.weight == 1.0 && pairs.sum > 0.0);
    for (path, array) in gradients_of(&task, &alone.gradients) {
        let zero = array.values.iter().all(|x| *x == 0.0);
        assert!(zero || !path.starts_with("head."), "{path}");
    }
}

/// The loss of a prefix language model covers the target behind the source; predictions within the source are not scored.
#[test]
fn prefix_lm_scores_the_target_alone() {
    for bidirectional_source in [false, true] {
        let config = TranslationConfig {
            label_smoothing: 0.0,
            bidirectional_source,
            global_tokens: None,
        };
        let device = Device::flex();
        let inputs = BuildContext {
            shape: &Shape::of_text(COLS, VOCAB as usize),
            seed: 5,
            device: &device,
        };
        let task = Objective(PrefixLm::new(&DecoderConfig::default(), &config, &inputs));
        let output = InferenceStep::step(&task, batches::of(Content::Pairs(pairs()), 4).into());
        let mut sum = 0.0;
        for row in 0..4 {
            let pairs = pairs();
            let (n, m) = (LENGTHS[row], TARGETS[row]);
            let target = row * TARGET_COLS..row * TARGET_COLS + m;
            let mut read = pairs.source[row * COLS..row * COLS + n].to_vec();
            read.extend(&pairs.inputs[target.clone()]);
            let ids = TensorData::new(read, [1, n + m]);
            let mut input = DecoderInput::new(Tensor::<2, Int>::from_data(ids, &device));
            if bidirectional_source {
                input.visible.prefix = Some([n].into());
            }
            let hidden = task.model.forward(input, None, &Pass::evaluation());
            let logits = task.model.logits(hidden);
            let logits = logits.slice([0..1, n..n + m]).reshape([m, VOCAB as usize]);
            let targets = TensorData::new(pairs.targets[target].to_vec(), [m]);
            let targets = Tensor::<1, Int>::from_data(targets, &device);
            let loss = kernel::cross_entropy_sum(logits, targets, 0.0);
            sum += f64::from(loss.into_scalar::<f32>());
        }
        let ours = output.loss;
        assert_eq!(ours.weight, TARGETS.iter().sum::<usize>() as f64);
        assert!(
            (ours.sum / sum - 1.0).abs() < 1e-5,
            "{} and {sum}",
            ours.sum
        );
    }
}
