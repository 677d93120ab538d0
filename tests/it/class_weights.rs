//! Class weights: a loss is the weighted mean of its rows, however these are spread over micro-batches, processes and
//! evaluation batches; weights computed from the training examples stay with the run; faults are reported.

use crate::batches::{cut, in_one_step};
use crate::case_tasks::tagging;
use crate::cases::{Case, base};
use crate::diagnostics::{RIGHT, says};
use crate::oracle::difference;
use crate::ranks::experiments::Files;
use crate::transfer::gradients_of;
use burn::module::Module;
use burn::train::InferenceStep;
use formwork::data::loader::{BatchSize, Extent, Order, step_batches, step_share};
use formwork::data::weighted_source::{self, WeightedSource};
use formwork::data::{Batch, Data, Item, Source, TextItem, Tokenizers};
use formwork::error::Result;
use formwork::experiment::assemble;
use formwork::experiment::{load, locate_error};
use formwork::task::Objective;
use formwork::task::class_weights::{BalancedConfig, ClassWeights};
use formwork::train::gradients::{accumulate, subtree_ranges};
use std::sync::Arc;

const WEIGHTS: [f32; 3] = [0.5, 3.0, 1.25];

/// The batch with weights for its three classes, as a whole step.
fn with_weights(mut batch: Batch) -> Batch {
    let weight = weighted_source::total_weight(&batch.content, &WEIGHTS);
    (batch.weight, batch.step_weight) = (weight, weight);
    batch.class_weights = Some(WEIGHTS.into());
    batch
}

/// A case of text classes, and one of token tags.
fn cases() -> [Case; 2] {
    let [_, texts, ..] = base(16);
    let [_, tags, ..] = base(16);
    [texts, tags.learning(tagging(None))]
}

#[test]
fn micro_batches_are_one_batch() {
    for case in cases() {
        let task = case.build();
        let whole = case.batch();
        let parts = [0..1, 1..4].map(|rows| with_weights(cut(&whole, rows, false)));
        let parts = in_one_step(parts.to_vec(), 0);
        let one = accumulate(&task, vec![with_weights(whole)]);
        let several = accumulate(&task, parts);
        assert_eq!(one.output.loss.weight, several.output.loss.weight);
        let [loss, other] = [&one, &several].map(|made| made.output.loss.mean());
        assert!((loss - other).abs() < 1e-5, "{loss} and {other}");
        let wanted = gradients_of(&task, &one.gradients);
        for (name, found) in gradients_of(&task, &several.gradients) {
            let off = difference(&found.values, &wanted[&name].values);
            assert!(off < 1e-4, "{name} is off by {off:e}");
        }
    }
}

/// The loss of an evaluation is Σ w(y)·loss / Σ w(y), in one batch and in two.
#[test]
fn an_evaluation_is_the_weighted_mean_of_its_rows() {
    let [texts, _] = cases();
    let task: Objective = texts.build().valid();
    let whole = texts.batch();
    let loss = |batch: Batch| InferenceStep::step(&task, batch.into()).loss;
    let labels = [0, 2, 1, 0];
    let rows = labels.iter().enumerate().map(|(row, label)| {
        let alone = loss(cut(&whole, row..row + 1, false)).mean();
        let weight = f64::from(WEIGHTS[*label]);
        (weight * alone, weight)
    });
    let (sums, weights): (Vec<f64>, Vec<f64>) = rows.unzip();
    let wanted = sums.iter().sum::<f64>() / weights.iter().sum::<f64>();
    let together = loss(with_weights(whole.clone()));
    let mut halves = loss(with_weights(cut(&whole, 0..2, false)));
    halves += loss(with_weights(cut(&whole, 2..4, false)));
    for found in [together.mean(), halves.mean()] {
        assert!((found - wanted).abs() < 1e-6, "{found}, not {wanted}");
    }
    let plain = loss(whole).mean();
    assert!((plain - wanted).abs() > 2e-5, "the weights have no effect");
}

/// Labelled texts of several lengths.
struct Labelled;

impl Source for Labelled {
    fn len(&self) -> usize {
        64
    }

    fn get(&self, sample: u64, _: u64) -> Result<Item> {
        Ok(Item::Text(TextItem {
            inputs: vec![1; 1 + sample as usize * 7 % 31],
            label: Some((sample * sample % 3) as i32),
            ..TextItem::default()
        }))
    }
}

#[test]
fn shares_of_a_step_divide_by_its_whole_weight() {
    let source = WeightedSource::of(Arc::new(Labelled), WEIGHTS.into());
    let order = || Order::new(3, BatchSize::Items(24));
    let whole = step_batches(source.as_ref(), &mut order(), 3, 5).unwrap();
    let sum: f64 = whole.iter().map(|batch| batch.weight).sum();
    assert!(sum > 0.0 && whole.iter().all(|batch| batch.step_weight == sum));
    for count in [2, 4] {
        let own = |rank: usize| {
            let part = |all| subtree_ranges(all, count).swap_remove(rank);
            step_share(source.as_ref(), &mut order(), 3, 5, &part).unwrap()
        };
        let made: Vec<_> = (0..count).map(own).collect();
        let sent = made.iter().map(|share| share.extent().to_bytes());
        let extent = sent
            .map(|bytes| Extent::from_bytes(&bytes).unwrap())
            .reduce(Extent::merged)
            .unwrap();
        let made = made.into_iter().flat_map(|share| share.in_step(extent));
        let made: Vec<Batch> = made.collect();
        assert!(made == whole, "{count} shares");
    }
}

const BALANCED: &str = "task.class_weights=\"balanced\"";

fn data(files: &Files, set: &str) -> Result<Data> {
    let loaded = load(&files.path("x.toml"), &[set.to_string()])?;
    assemble::training_data(&loaded)
}

#[test]
fn balanced_weights_are_counted_once() {
    let files = Files::images();
    let first = data(&files, BALANCED).unwrap();
    // Of 60 images, 20 of each class, 42 are training examples.
    let counts = weighted_source::class_counts(first.train.as_ref(), 3).unwrap();
    assert_eq!(counts, Ok(vec![15, 14, 13]));
    let wanted = [14.0 / 15.0, 1.0, 14.0 / 13.0].map(|weight: f64| weight as f32);
    let wanted = wanted.to_vec();
    assert_eq!(first.shape.class_weights, wanted);
    for source in [Some(&first.train), first.valid.as_ref()] {
        let weights = source.and_then(|source| source.class_weights());
        assert_eq!(weights.map(|all| all.to_vec()), Some(wanted.clone()));
    }
    // A run that is resumed or opened keeps its own weights, whatever the files contain by now.
    let mut run = first.shape.clone();
    run.class_weights = WEIGHTS.to_vec();
    let loaded = load(&files.path("x.toml"), &[BALANCED.to_string()]).unwrap();
    let none = Tokenizers::default();
    let places = loaded.places();
    let later = assemble::data(&loaded.experiment, &places, &none, Some(&run)).unwrap();
    let weights = later.train.class_weights().map(|all| all.to_vec());
    assert_eq!(weights, Some(WEIGHTS.to_vec()));
}

/// A source of endlessly drawn examples.
struct Endless;

impl Source for Endless {
    fn len(&self) -> usize {
        1
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        Labelled.get(sample, draw)
    }

    fn is_endless(&self) -> bool {
        true
    }
}

/// The fault of a student's weights is reported at the key of the task that it learns.
#[test]
fn what_is_not_counted_is_told_at_its_line() {
    let files = Files::images();
    let plain = std::fs::read_to_string(files.path("x.toml")).unwrap();
    let of = "[task]\nkind = \"distillation\"\nteacher = \"other\"\n[task.of]";
    let student = plain.replacen("[task]", of, 1);
    let student = student.replacen(
        "\n[optimizer]",
        "\nclass_weights = \"balanced\"\n[optimizer]",
        1,
    );
    let line = student
        .lines()
        .position(|line| line.starts_with("class_weights"));
    let path = files.path("student.toml");
    std::fs::write(&path, &student).unwrap();
    let loaded = load(&path, &[]).unwrap();
    let weights = ClassWeights::Balanced(BalancedConfig {});
    let classes = ["a", "b"].map(String::from);
    let error = weights.resolve("task.of", &classes, &Endless).unwrap_err();
    let told = locate_error(&loaded, error).to_string();
    let rule = format!(
        "student.toml:{}: [task.of] class_weights = \"balanced\" counts the classes of the training examples, but this data generates them without \
         end",
        line.unwrap() + 1
    );
    assert!(told.contains(&rule), "{told}");
}

#[test]
fn faults_are_told() {
    let with = |task: &str| RIGHT.replacen("kind = \"causal_lm\"", task, 1);
    let given = |weights: &str| {
        with(&format!(
            "kind = \"text_classification\"\nclass_weights = {{ kind = \"given\", weights = {weights} }}"
        ))
    };
    for (weights, rule) in [
        (
            "[1.0, 0.0]",
            "[task.class_weights] weights: weight 2 is 0.0; it must be between 1e-6 and 1e6",
        ),
        ("[-1.0]", "weights: weight 1 is -1.0"),
        ("[1e60]", "weights: weight 1 is 1e60"),
        ("[0.0, 0.0]", "weights: weight 1 is 0.0"),
        ("[1e-6, 2e6]", "weights: weight 2 is 2000000.0"),
    ] {
        says(&given(weights), rule);
    }
    let several = "kind = \"multi_label_classification\"\npositive_weights = [1.0, -2.0]";
    says(&with(several), "positive_weights: weight 2 is -2.0");
    let files = Files::images();
    let two = "task.class_weights={ kind = \"given\", weights = [1.0, 2.0] }";
    let told = data(&files, two).err().unwrap().to_string();
    let rule = "class_weights has 2 numbers, but the data has 3 classes: ";
    assert!(told.contains(rule), "{told}");
}
