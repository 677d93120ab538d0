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
            "kind = \"grpo\" writes completions of prompts, but the texts of [data] kind = \"{}\" have no answers that mark \
             where a prompt ends; use \"conversations\", \"arithmetic\" or another kind of formwork list data with answers",
            data.kind()
        );
        sense.fault(&["task.kind", "data.kind"], rule);
    }
    if data.data_set().hides_documents() {
        let rule = match data.data_set().hides_documents_key() {
            Some([key, on, off]) => format!(
                "{key} = {on} puts several prompts into a row, but [task] kind = \"grpo\" needs one prompt per row; set {key} = {off}"
            ),
            None => "this kind puts several texts into a row, but [task] kind = \"grpo\" needs one prompt per row".into(),
        };
        sense.fault(&["data.packed", "data.kind", "task.kind"], rule);
    }
    let context = data.data_set().context();
    if let Some(most) = config.max_new_tokens.filter(|most| *most > context)
        && !imported
    {
        let rule = format!(
            "max_new_tokens = {most} does not fit: rows have {context} tokens ([data] context), including the prompt; set \
             {context} or less, or remove it to write as many as the context leaves"
        );
        sense.fault(&["task.max_new_tokens", "data.context"], rule);
    }
    if experiment.model.retrieval().is_some() {
        let rule = "kind = \"grpo\" has no neighbours for the texts that it writes: remove [model.retrieval], or train with causal_lm";
        sense.fault(&["task.kind", "model.retrieval.chunk"], rule);
    }
}

/// Checks the training steps on completions.
fn steps(sense: &mut Checker, config: &GrpoConfig) {
    let c = &sense.loaded.experiment.train;
    let micro = c.micro_batch_size.filter(|rows| *rows < c.batch_size);
    if let (GrpoLoss::Dapo, Some(rows)) = (config.loss, micro) {
        let rule = format!(
            "micro_batch_size = {rows} splits a step of {} prompts, but loss = \"dapo\" divides by the tokens of all its \
             completions, which are unknown before they are written; remove it (then only one process can train: several share \
             micro-batches), or use \"grpo\" or \"dr_grpo\"",
            c.batch_size
        );
        sense.fault(&["train.micro_batch_size", "task.loss"], rule);
    }
    if let Some(tokens) = c.batch_tokens {
        let rule = format!(
            "batch_tokens = {tokens} counts the tokens of prompts with the data's answers, but [task] kind = \"grpo\" reads {} \
             texts that it writes for each prompt: set batch_size, the prompts of a step",
            config.group_size
        );
        sense.fault(&["train.batch_tokens", "task.kind"], rule);
    }
    if config.updates > 1 && matches!(c.dtype, Dtype::Bf16 | Dtype::F16) {
        let rule = format!(
            "updates = {} keeps token ids from step to step, which 16 bits cannot represent: use dtype = \"f32\" or \
             \"mixed_bf16\", or remove it",
            config.updates
        );
        sense.fault(&["task.updates", "train.dtype"], rule);
    }
    if let Some(factor) = c.spike_factor {
        let rule = format!(
            "spike_factor = {factor:?} is a multiple of a mean loss above 0, but a loss of [task] kind = \"grpo\" is a mean of \
             advantages around 0; remove it"
        );
        sense.fault(&["train.spike_factor", "task.kind"], rule);
    }
    if c.replay {
        let rule = "replay = true records steps whose work is known in advance, but [task] kind = \"grpo\" reads what it \
                    writes; remove it";
        sense.fault(&["train.replay", "task.kind"], rule);
    }
    if config.updates > 1 && c.carry_state {
        let rule = "carry_state = true cannot be combined with updates, which use completions in several steps; remove it";
        sense.fault(&["train.carry_state", "task.updates"], rule);
    }
}
