//! Checks the training keys of an imported model. A Hugging Face folder does not say how its model is to be trained: the run's
//! `lr` and `steps` are placeholders, and an experiment that extends it has to set its own.

use super::{Checker, Purpose};
use crate::experiment::Origin;
use crate::train::run_dir::{HF_CONFIG, RESOLVED};

const LR: &str = "optimizer.lr";
const STEPS: &str = "train.steps";
const EPOCHS: &str = "train.epochs";

pub(super) fn check(sense: &mut Checker, what: Purpose) {
    let loaded = sense.loaded;
    let experiment = &loaded.experiment;
    if !what.is_new_run() || what == Purpose::LrSearch || experiment.data.is_imported() {
        return;
    }
    if is_placeholder(sense, LR) {
        let rule = format!(
            "lr = {:?} is a placeholder: an imported model has no learning rate; set lr in the file that extends this one, 2e-5 \
             to 5e-5 for AdamW and all weights of an encoder such as BERT, 1e-4 and more for adapters ([lora])",
            experiment.optimizer.lr()
        );
        sense.fault(&[LR], rule);
    }
    // Epochs replace steps.
    if is_placeholder(sense, STEPS) && !loaded.origins.contains_key(EPOCHS) {
        let rule = format!(
            "steps = {} is a placeholder: an imported model has no length of training; set steps or epochs in the file that \
             extends this one",
            experiment.train.steps
        );
        sense.fault(&[STEPS], rule);
    }
}

/// Whether a key comes from an imported run that the file extends.
fn is_placeholder(sense: &Checker, key: &str) -> bool {
    let Origin::File { path, .. } = sense.loaded.origin(key) else {
        return false;
    };
    let extended = *path != sense.loaded.path && path.ends_with(RESOLVED);
    extended && path.with_file_name(HF_CONFIG).is_file()
}
