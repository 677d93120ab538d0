//! Checks GRPO, in which a model learns from its own completions: the data needs answers, the context needs room for
//! completions, and the denominator of each step's loss must be known.

use super::{Checker, Purpose};
use crate::data::ExampleForm;
use crate::task::grpo::{GrpoConfig, GrpoLoss};
use crate::train::config::Dtype;

pub(super) fn check(sense: &mut Checker, what: Purpose) {
    let Some(config) = sense.loaded.experiment.task.grpo() else {
        return;
    };
    texts(sense, config);
    if what != Purpose::Inference {
        steps(sense, config);
    }
}

/// Checks the prompts, and the room for completions after them.
fn texts(sense: &mut Checker, config: &GrpoConfig) {
    let experiment = &sense.loaded.experiment;
    let data = &experiment.data;
    let imported = data.is_imported();
    if !imported
        && data.data_set().example_form() == ExampleForm::Text
        && !data.data_set().has_answers()
    {
        let rule = format!(
            "kind = \"grpo\" writes completions of prompts, and the texts of [data] kind = \"{}\" have no answers that tell where a \
             prompt ends; use \"conversations\", \"arithmetic\" or another of formwork list data that has some",
            data.kind()
        );
        sense.fault(&["task.kind", "data.kind"], rule);
    }
    if data.data_set().hides_documents() {
        let rule = match data.data_set().hides_documents_key() {
            Some([key, on, off]) => format!(
                "{key} = {on} puts several prompts into a row, and [task] kind = \"grpo\" completes one of each; set {key} = {off}"
            ),
            None => "this kind puts several texts into a row, and [task] kind = \"grpo\" completes one of each".into(),
        };
        sense.fault(&["data.packed", "data.kind", "task.kind"], rule);
    }
    let context = data.data_set().context();
    if let Some(most) = config.max_new_tokens.filter(|most| *most > context)
        && !imported
    {
        let rule = format!(
            "max_new_tokens = {most} does not fit: rows have {context} tokens ([data] context), a prompt among them; lower it to {context} \
             or less, or leave it out to write as many as the context leaves"
        );
        sense.fault(&["task.max_new_tokens", "data.context"], rule);
    }
    if experiment.model.retrieval().is_some() {
        let rule = "kind = \"grpo\" has no neighbours for the texts that it writes: leave [model.retrieval] out, or train with causal_lm";
        sense.fault(&["task.kind", "model.retrieval.chunk"], rule);
    }
}

/// Checks the training steps on completions.
fn steps(sense: &mut Checker, config: &GrpoConfig) {
    let c = &sense.loaded.experiment.train;
    let micro = c.micro_batch_size.filter(|rows| *rows < c.batch_size);
    if let (GrpoLoss::Dapo, Some(rows)) = (config.loss, micro) {
        let rule = format!(
            "micro_batch_size = {rows} cuts a step of {} prompts, and loss = \"dapo\" divides by the tokens of all of its completions, \
             which are not known before they are written; leave it out (one process alone trains then: several share micro-batches), or use \"grpo\" or \"dr_grpo\"",
            c.batch_size
        );
        sense.fault(&["train.micro_batch_size", "task.loss"], rule);
    }
    if let Some(tokens) = c.batch_tokens {
        let rule = format!(
            "batch_tokens = {tokens} counts the tokens of prompts with the data's answers, and [task] kind = \"grpo\" reads {} texts of \
             its own for each: set batch_size, the prompts of a step",
            config.group_size
        );
        sense.fault(&["train.batch_tokens", "task.kind"], rule);
    }
    if config.updates > 1 && matches!(c.dtype, Dtype::Bf16 | Dtype::F16) {
        let rule = format!(
            "updates = {} keeps the ids of tokens from step to step, which 16 bits do not hold: use dtype = \"f32\" or \"mixed_bf16\", or \
             leave it out",
            config.updates
        );
        sense.fault(&["task.updates", "train.dtype"], rule);
    }
    if let Some(factor) = c.spike_factor {
        let rule = format!(
            "spike_factor = {factor:?} is a multiple of a mean loss above 0, and a loss of [task] kind = \"grpo\" is a mean of advantages, \
             which goes around 0; leave it out"
        );
        sense.fault(&["train.spike_factor", "task.kind"], rule);
    }
    if c.replay {
        let rule = "replay = true records steps whose work is known before, and [task] kind = \"grpo\" reads what it writes; leave it out";
        sense.fault(&["train.replay", "task.kind"], rule);
    }
    if config.updates > 1 && c.carry_state {
        let rule = "carry_state = true has no place beside updates, which pass completions on; leave it out";
        sense.fault(&["train.carry_state", "task.updates"], rule);
    }
}
