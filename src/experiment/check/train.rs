//! Checks everything except the model and the data: name, task, `[init]`, `[decode]`, optimizer, `[train]`.

use super::{Checker, init};
use crate::data::{DataConfig, ExampleForm, Pairs, Split, View};
use crate::device::DeviceName;
use crate::generate::DecodeConfig;
use crate::generate::beam::BeamConfig;
use crate::model::Use;
use crate::train::TrainConfig;

const MOST_ITEMS: usize = 1 << 24;

/// Maximum length of a run in passes over the data.
const MOST_EPOCHS: f64 = 1e6;
/// Maximum length of a name in bytes; longer names do not fit in paths.
const LONGEST_NAME: usize = 100;

pub(super) fn check(sense: &mut Checker) {
    let experiment = &sense.loaded.experiment;
    name(sense, &experiment.name);
    sense.collect_faults("task", |at| experiment.task.facts().faults(at));
    init::check(sense);
    let uses = experiment.task.network_use();
    if uses == Use::SpeechCharacters {
        check_ctc_decode(sense, &experiment.decode);
    } else if let Use::ImageToText | Use::SpeechToText = uses {
        let what = match uses == Use::SpeechToText {
            true => "a recording has no tokens that its text",
            false => "an image has no tokens that a caption",
        };
        let decode = &experiment.decode;
        for fault in decode.faults().into_iter().chain(decode.sampling.faults()) {
            sense.add_worded("decode", &fault);
        }
        refuse_search(sense, "about an input that is no text", decode);
        if uses == Use::SpeechToText && !decode.sampling.is_default() {
            let rule = "sampling has no effect: a text of a recording is searched for, as [decode.search] says; leave it out";
            sense.fault(&["decode.sampling"], rule);
        }
        if decode.search.max_len_a != BeamConfig::default().max_len_a {
            sense.fault(
                &["decode.search.max_len_a"],
                format!("max_len_a has no effect: {what} could be longer than; say max_len_b"),
            );
        }
    } else if uses == Use::TextToText {
        for fault in experiment.decode.faults() {
            sense.add_worded("decode", &fault);
        }
        refuse_text_metrics(sense, &experiment.decode);
        if !experiment.decode.sampling.is_default() {
            sense.fault(
                &["decode.sampling"],
                "sampling has no effect: a text for a text is searched for, as [decode.search] says; leave it out",
            );
        }
        refuse_search(sense, "for a text", &experiment.decode);
    } else if experiment.task.network_use() == Use::NextTokens {
        check_continuation_decode(sense, &experiment.decode);
    } else if experiment.decode != DecodeConfig::default() {
        let rule = format!(
            "decode has no effect: [task] kind = \"{}\" writes no texts for texts; leave it out",
            experiment.task.kind()
        );
        sense.add_worded("decode", &rule);
    }
    for fault in experiment.optimizer.faults() {
        sense.add_worded("optimizer", &fault);
    }
    train(sense, &experiment.train, &experiment.data);
}

/// Checks `[decode]` for CTC, which takes the best character of each frame without a search.
fn check_ctc_decode(sense: &mut Checker, decode: &DecodeConfig) {
    let usual = DecodeConfig::default();
    let rest = DecodeConfig {
        search: usual.search.clone(),
        ..decode.clone()
    };
    for fault in rest.faults() {
        sense.add_worded("decode", &fault);
    }
    for (key, given) in [
        ("search", decode.search != usual.search),
        ("valid_beam", decode.valid_beam != usual.valid_beam),
        ("sampling", !decode.sampling.is_default()),
    ] {
        if given {
            let rule = format!(
                "{key} has no effect: [task] kind = \"ctc\" takes the likeliest character of each frame; leave it out"
            );
            sense.fault(&[&format!("decode.{key}")], rule);
        }
    }
}

/// Checks `[decode]` for text continuation, in which keys of text-to-text generation have no effect.
fn check_continuation_decode(sense: &mut Checker, decode: &DecodeConfig) {
    for fault in decode.continuation_faults() {
        sense.add_worded("decode", &fault);
    }
    let others = DecodeConfig {
        sampling: Default::default(),
        beam_search: None,
        ..decode.clone()
    };
    if others != DecodeConfig::default() {
        let kind = sense.loaded.experiment.task.kind();
        let rule = format!(
            "no key has an effect but those of its tables sampling and beam_search: [task] kind = \"{kind}\" writes no texts for \
             texts; leave the other keys out"
        );
        sense.add_worded("decode", &rule);
    }
}

/// Reports a beam search for continuations if no text is continued.
fn refuse_search(sense: &mut Checker, of: &str, decode: &DecodeConfig) {
    if decode.beam_search.is_some() {
        let rule = format!(
            "beam_search has no effect: it is for texts that are continued, and a text {of} is searched for as [decode.search] says; \
             leave it out"
        );
        sense.fault(&["decode.beam_search"], rule);
    }
}

/// Reports keys about generated texts if evaluations generate none.
fn refuse_text_metrics(sense: &mut Checker, decode: &DecodeConfig) {
    let task = &sense.loaded.experiment.task;
    if task.compares_texts() {
        return;
    }
    let (kind, usual) = (task.kind(), DecodeConfig::default());
    for (key, given) in [
        ("valid_beam", decode.valid_beam != usual.valid_beam),
        ("valid_items", decode.valid_items.is_some()),
        ("metrics", decode.metrics != usual.metrics),
    ] {
        if given {
            sense.fault(
                &[&format!("decode.{key}")],
                format!(
                    "{key} has no effect: evaluations of [task] kind = \"{kind}\" write no texts; leave it out"
                ),
            );
        }
    }
}

/// Checks that the name can be a folder's name.
fn name(sense: &mut Checker, name: &str) {
    let allowed = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    let reason = if name.is_empty() {
        "is empty; the run folder is called by it".to_string()
    } else if name.len() > LONGEST_NAME {
        "is longer than 100 bytes".into()
    } else if name.starts_with(['.', '-']) {
        "must begin with a letter or a digit".into()
    } else if let Some(c) = name.chars().find(|c| !allowed(*c)) {
        let shown = c.escape_debug();
        format!(
            "cannot name a folder, for it has `{shown}`; use letters of any script, digits, `-`, `_`, `.` and `+`"
        )
    } else {
        return;
    };
    let shown: String = name.chars().take(40).collect();
    sense.fault(&["name"], format!("name = {shown:?} {reason}"));
}

fn train(sense: &mut Checker, c: &TrainConfig, data: &DataConfig) {
    match c.epochs {
        None if c.steps == 0 => sense.fault(&["train.steps"], "steps = 0 must be 1 or more"),
        Some(_) if c.steps != 0 => sense.fault(
            &["train.epochs", "train.steps"],
            "steps and epochs say the same thing; keep one",
        ),
        Some(epochs) if !(epochs > 0.0 && epochs <= MOST_EPOCHS) => sense.fault(
            &["train.epochs"],
            format!("epochs = {epochs:?} must be above 0 and at most {MOST_EPOCHS}"),
        ),
        None | Some(_) => {}
    }
    let batch = sense.count("train.batch_size", c.batch_size, MOST_ITEMS);
    let micro = c.micro_batch_size();
    if let Some(tokens) = c.batch_tokens {
        sense.count("train.batch_tokens", tokens, MOST_ITEMS);
        sense.count("train.micro_batch_size", micro, MOST_ITEMS);
        if !data.data_set().has_lengths() {
            sense.fault(
                &["train.batch_tokens", "data.kind"],
                "batch_tokens has no effect where all examples are of one length; set batch_size",
            );
        }
    } else if batch && (micro == 0 || micro > c.batch_size) {
        sense.fault(
            &["train.micro_batch_size", "train.batch_size"],
            format!(
                "micro_batch_size = {micro} is not between 1 and batch_size = {}",
                c.batch_size
            ),
        );
    }
    check_carried_state(sense, c, data);
    sense.count(
        "train.eval_batch_size",
        c.eval_batch_size.unwrap_or(1),
        MOST_ITEMS,
    );
    sense.count("train.keep_last", c.keep_last, MOST_ITEMS);
    sense.require_positive("train.eval_every", c.eval_every);
    sense.require_positive("train.checkpoint_every", c.checkpoint_every);
    sense.require_positive("train.eval_batches", c.eval_batches.map(|n| n as u64));
    if c.eval_batches.is_some()
        && sense.loaded.experiment.task.example_form() == ExampleForm::Questions
    {
        let rule = "eval_batches counts windows of contexts, and a question is answered from all of its windows; leave it out";
        sense.fault(&["train.eval_batches", "task.kind"], rule);
    }
    sense.require_positive("train.patience", c.patience);
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
            format!("ema = {ema:?} must be between 0 and 1, as in 0.999; 0 does without"),
        );
    }
    if let Some(factor) = c.spike_factor.filter(|f| !(*f > 1.0 && f.is_finite())) {
        sense.fault(
            &["train.spike_factor"],
            format!("spike_factor = {factor:?} must be above 1; 0 does without"),
        );
    }
    if let Err(error) = c.device.parse::<DeviceName>() {
        sense.fault(&["train.device"], error.to_string());
    }
    evaluations(sense, c, data);
}

/// Checks carried state, which needs rows that continue from step to step.
fn check_carried_state(sense: &mut Checker, c: &TrainConfig, data: &DataConfig) {
    if !c.carry_state {
        return;
    }
    // Masked text is laid out contiguously whatever its keys say, except for randomly drawn segment pairs.
    let side_by_side = match sense.loaded.experiment.task.view() {
        View::Masked(view) => view.pairs == Pairs::None && data.data_set().can_be_masked(),
        View::Plain | View::EncodedSeparately | View::Ctc | View::Corrupted(_) => {
            data.data_set().is_contiguous()
        }
    };
    if !side_by_side {
        sense.fault(
            &["train.carry_state", "data.windows", "data.kind"],
            "carry_state = true needs text whose windows go on from one to the next: [data] kind = \"text\" with windows \
             = \"contiguous\" or \"documents\"",
        );
    }
    if data.data_set().overlaps() {
        sense.fault(
            &["data.eval_stride", "train.carry_state"],
            "eval_stride needs windows that are read on their own, and carry_state = true carries the state through a \
             split, each token of which is read once; leave it out",
        );
    }
    if c.batch_tokens.is_some() {
        sense.fault(
            &["train.carry_state", "train.batch_tokens"],
            "carry_state = true needs steps of as many rows: set batch_size in place of batch_tokens",
        );
    }
}

/// Reports keys about evaluations that never happen, and checks `sample`.
fn evaluations(sense: &mut Checker, c: &TrainConfig, data: &DataConfig) {
    if !data.data_set().has(Split::Valid) && c.eval_every.is_some() {
        sense.fault(
            &["train.eval_every"],
            "eval_every has no effect: [data] has no validation split; leave it out",
        );
    }
    let measured = data.data_set().has(Split::Valid) || data.data_set().has(Split::Test);
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
    if sense.loaded.experiment.task.network_use() != Use::NextTokens {
        let rule = format!(
            "sample has no effect: only [task] kind = \"{}\" continues texts; leave it out",
            crate::task::causal_lm::KIND.kind
        );
        sense.fault(&["train.sample"], rule);
        return;
    }
    if !data.data_set().is_text() {
        sense.fault(
            &["train.sample"],
            "sample has no effect: random tokens stand for no text; leave it out",
        );
    } else if !data.data_set().has(Split::Valid) {
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
