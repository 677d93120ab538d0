//! The sense of everything but the model and the data: name, task, optimizer, schedule, `[train]`, `[expect]`.

use super::Sense;
use crate::data::{DataConfig, Gives, Split};
use crate::device::DeviceName;
use crate::error::suggestion;
use crate::experiment::Expect;
use crate::task::TaskConfig;
use crate::train::TrainConfig;

const MOST_ITEMS: usize = 1 << 24;
/// Longer names do not fit in paths.
const LONGEST_NAME: usize = 100;

/// What the validation split is measured by.
const METRICS: [&str; 7] = [
    "valid_loss",
    "valid_best_loss",
    "valid_perplexity",
    "valid_bits_per_byte",
    "valid_accuracy",
    "valid_top5_accuracy",
    "valid_exact_match",
];

pub(super) fn check(sense: &mut Sense) {
    let experiment = &sense.loaded.experiment;
    name(sense, &experiment.name);
    match &experiment.task {
        TaskConfig::CausalLm(c) => sense.probability("task.label_smoothing", c.label_smoothing),
        TaskConfig::MaskedLm(_) => {}
        TaskConfig::Translation(c) => {
            sense.probability("task.label_smoothing", c.label_smoothing);
            if c.bidirectional_source && experiment.model.kind() == "encoder_decoder" {
                sense.fault(
                    &["task.bidirectional_source"],
                    "bidirectional_source = true has no effect: an encoder always sees the whole source; leave it out",
                );
            }
        }
        TaskConfig::TextClassification(c) => {
            sense.probability("task.label_smoothing", c.label_smoothing);
            sense.probability("task.dropout", c.dropout);
        }
        TaskConfig::ImageClassification(c) => {
            sense.probability("task.label_smoothing", c.label_smoothing);
        }
    }
    for fault in experiment.init.faults() {
        sense.sentence("init", &fault);
    }
    for fault in experiment.optimizer.faults() {
        sense.sentence("optimizer", &fault);
    }
    train(sense, &experiment.train, &experiment.data);
    schedule(sense);
    for (metric, expect) in &experiment.expect {
        expectation(sense, metric, expect);
    }
}

/// A name is a folder's name.
fn name(sense: &mut Sense, name: &str) {
    let allowed = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    let reason = if name.is_empty() {
        "is empty; the run folder is called by it"
    } else if name.len() > LONGEST_NAME {
        "is longer than 100 bytes"
    } else if name.starts_with(['.', '-']) {
        "must begin with a letter or a digit"
    } else if !name.chars().all(allowed) {
        "cannot name a folder; use letters, digits, `-`, `_`, `.` and `+`"
    } else {
        return;
    };
    let shown: String = name.chars().take(40).collect();
    sense.fault(&["name"], format!("name = {shown:?} {reason}"));
}

fn train(sense: &mut Sense, c: &TrainConfig, data: &DataConfig) {
    if c.steps == 0 {
        sense.fault(&["train.steps"], "steps = 0 must be 1 or more");
    }
    let batch = sense.count("train.batch_size", c.batch_size, MOST_ITEMS);
    let micro = c.micro_batch_size();
    if batch && (micro == 0 || micro > c.batch_size) {
        sense.fault(
            &["train.micro_batch_size", "train.batch_size"],
            format!(
                "micro_batch_size = {micro} is not between 1 and batch_size = {}",
                c.batch_size
            ),
        );
    }
    sense.count(
        "train.eval_batch_size",
        c.eval_batch_size.unwrap_or(1),
        MOST_ITEMS,
    );
    sense.count("train.keep_last", c.keep_last, MOST_ITEMS);
    sense.some("train.eval_every", c.eval_every);
    sense.some("train.checkpoint_every", c.checkpoint_every);
    sense.some("train.eval_batches", c.eval_batches.map(|n| n as u64));
    sense.some("train.patience", c.patience);
    if c.log_every == 0 {
        sense.fault(&["train.log_every"], "log_every = 0 must be 1 or more");
    }
    if !(c.clip_norm >= 0.0 && c.clip_norm.is_finite()) {
        sense.fault(
            &["train.clip_norm"],
            format!(
                "clip_norm = {:?} must be 0 (no clipping) or more",
                c.clip_norm
            ),
        );
    }
    if let Some(ema) = c.ema.filter(|ema| !(*ema > 0.0 && *ema < 1.0)) {
        sense.fault(
            &["train.ema"],
            format!(
                "ema = {ema:?} must be between 0 and 1, as in 0.999; leave it out to do without"
            ),
        );
    }
    if let Some(factor) = c.spike_factor.filter(|f| !(*f > 1.0 && f.is_finite())) {
        sense.fault(
            &["train.spike_factor"],
            format!("spike_factor = {factor:?} must be above 1"),
        );
    }
    if let Err(error) = c.device.parse::<DeviceName>() {
        sense.fault(&["train.device"], error.to_string());
    }
    evaluations(sense, c, data);
}

/// Keys about evaluations that never happen.
fn evaluations(sense: &mut Sense, c: &TrainConfig, data: &DataConfig) {
    if !data.set().has(Split::Valid) && c.eval_every.is_some() {
        sense.fault(
            &["train.eval_every"],
            "eval_every has no effect: [data] has no validation split; leave it out",
        );
    }
    let measured = data.set().has(Split::Valid) || data.set().has(Split::Test);
    if c.eval_batch_size.is_some() && !measured {
        sense.fault(
            &["train.eval_batch_size"],
            "eval_batch_size has no effect: [data] has no validation or test split; leave it out",
        );
    }
    for (key, given) in [
        ("patience", c.patience.is_some()),
        ("eval_batches", c.eval_batches.is_some()),
    ] {
        if given && c.eval_every.is_none() {
            let key = format!("train.{key}");
            let name = super::last(&key);
            sense.fault(
                &[&key],
                format!("{name} has no effect without eval_every; add it or leave {name} out"),
            );
        }
    }
    let Some(sample) = &c.sample else { return };
    if !data.set().is_text() {
        sense.fault(
            &["train.sample"],
            "sample has no effect: random tokens stand for no text; leave it out",
        );
    } else if !data.set().has(Split::Valid) {
        sense.fault(
            &["train.sample"],
            "sample has no effect: [data] has no validation split to evaluate on; leave it out",
        );
    }
    if sample.prompt.is_empty() {
        sense.fault(
            &["train.sample.prompt"],
            "prompt is empty; a line break, \"\\n\", is the shortest beginning",
        );
    }
    sense.count("train.sample.tokens", sample.tokens, MOST_ITEMS);
    if !(sample.temperature >= 0.0 && sample.temperature.is_finite()) {
        let rule = format!(
            "temperature = {:?} must be 0 (the likeliest token) or more",
            sample.temperature
        );
        sense.fault(&["train.sample.temperature"], rule);
    }
}

fn schedule(sense: &mut Sense) {
    let experiment = &sense.loaded.experiment;
    let (steps, lr) = (experiment.train.steps, experiment.optimizer.lr());
    let warmup = experiment.schedule.warmup_steps();
    if steps == 0 || !(lr > 0.0 && lr.is_finite()) {
        return;
    }
    if warmup > steps {
        sense.fault(
            &["schedule.warmup_steps", "train.steps"],
            format!("warmup_steps = {warmup} is more than [train] steps = {steps}"),
        );
        return;
    }
    for fault in experiment.schedule.faults(lr, steps) {
        sense.sentence("schedule", &fault);
    }
}

fn expectation(sense: &mut Sense, metric: &str, expect: &Expect) {
    for rule in wrong_expectation(metric, expect, &sense.loaded.experiment.data) {
        sense.fault(&[&format!("expect.{metric}")], rule);
    }
}

fn wrong_expectation(metric: &str, expect: &Expect, data: &DataConfig) -> Vec<String> {
    if !METRICS.contains(&metric) {
        return vec![format!(
            "{metric} is not measured{}",
            suggestion(metric, METRICS)
        )];
    }
    let mut faults = Vec::new();
    let mut fault = |wrong: bool, rule: &str| {
        if wrong {
            faults.push(format!("{metric} {rule}"));
        }
    };
    let text = data.set().needs_tokenizer();
    let classes = match data.set().gives() {
        Gives::Labelled | Gives::Images => true,
        Gives::Text | Gives::Pairs => false,
    };
    let answers = match metric {
        "valid_accuracy" => data.set().has_answers() || classes,
        "valid_exact_match" => data.set().has_answers(),
        _ => true,
    };
    fault(
        !data.set().has(Split::Valid),
        "is not measured: [data] has no validation split",
    );
    fault(!answers, "is not measured: this data has no right answers");
    fault(
        metric == "valid_top5_accuracy" && !classes,
        "is not measured: this data has no classes",
    );
    fault(
        metric == "valid_bits_per_byte" && !text,
        "is not measured: this data is no text",
    );
    let Expect {
        at_most,
        at_least,
        equals,
        tolerance,
    } = *expect;
    let empty = at_most.or(at_least).or(equals).is_none();
    fault(empty, "expects nothing; give at_most, at_least or equals");
    let crossed = at_most.is_some_and(|most| at_least.is_some_and(|least| most < least));
    fault(crossed, "has at_most below at_least: nothing meets both");
    fault(
        tolerance.is_some() && equals.is_none(),
        "has a tolerance, which has no effect without equals",
    );
    fault(
        tolerance.is_some_and(|t| t < 0.0),
        "has a tolerance below 0",
    );
    faults
}
