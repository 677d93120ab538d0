//! `infer`: runs a model as a function from arrays to arrays, with the names of Hugging Face models.
//!
//! Rows are processed in batches, so a file may be larger than memory; gradients are summed over the batches. The task
//! determines which arrays it reads and returns ([`InferenceTask`]).

mod array;
mod inputs;
mod outputs;

use super::open::OpenedRun;
use crate::error::{Error, Result};
use crate::nn::record::RecordSelection;
use crate::task::infer::{
    DecoderStart, Input, InputArrays, LABELS, LabelCounts, Requirement, run_pass,
};
use crate::task::{InferenceTask, Objective};
use crate::train::{parameters, summed_gradients};
use burn::optim::GradientsParams;
use burn::tensor::TensorData;
pub use inputs::Inputs;
pub use outputs::Outputs;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Name of the mean cross-entropy loss.
pub const LOSS: &str = "loss";
/// Prefix of the names of gradients.
pub const GRADIENT: &str = "grad.";

/// The requested outputs, and the batch size.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Outputs in addition to the last hidden states.
    pub keep: RecordSelection,
    /// Whether to return the gradients of the mean cross-entropy against the labels. The run must be opened with
    /// [`open_tracked`](super::open::open_tracked).
    pub gradients: bool,
    /// Rows per forward pass.
    pub batch_size: usize,
}

/// Outputs that exist once for all rows.
#[derive(Clone, Debug, Default)]
pub struct GlobalOutputs {
    /// The mean cross-entropy, if labels are given.
    pub loss: Option<f64>,
    /// Gradients by the parameter's path in checkpoints, including frozen parameters; zeros if the loss does not depend on one.
    pub gradients: BTreeMap<String, TensorData>,
}

/// The task of a run as a function of arrays.
///
/// # Errors
/// If the task has no such function.
fn task(opened: &OpenedRun) -> Result<&dyn InferenceTask> {
    opened.model.networks().infers.ok_or_else(|| {
        let kind = opened.experiment.task.kind();
        Error::usage(match opened.experiment.task.facts().has_towers() {
            true => format!(
                "a run of {kind} with towers = true is not a function of arrays: it reads two texts separately"
            ),
            false => format!("a run of {kind} is not a function of arrays"),
        })
    })
}

/// Opens a file of arrays for a run; names with the prefix `apart` are ignored.
///
/// # Errors
/// Those of [`Inputs::open`], [`task`] and [`start`].
pub fn inputs(opened: &OpenedRun, path: &Path, apart: Option<&str>) -> Result<Inputs> {
    let asked = task(opened)?.inputs(&opened.shape);
    let mut inputs = Inputs::open(path, &asked, apart)?;
    let derived = |input: &Input| {
        matches!(input.requirement, Requirement::UnlessGiven(_)) && !inputs.has(input.name)
    };
    if asked.iter().any(derived) {
        inputs.set_start(start(opened)?);
    }
    Ok(inputs)
}

/// The special tokens with which decoder inputs are derived from labels: those of the run's targets.
///
/// # Errors
/// If the run has no tokenizer, or its tokenizer has no begin token.
fn start(opened: &OpenedRun) -> Result<DecoderStart> {
    let none =
        "the inputs have no `decoder_input_ids`, and `labels` cannot be shifted right instead";
    let tokenizer = opened.tokenizers.target_tokenizer().ok_or_else(|| {
        Error::usage(format!(
            "{none}: the run has no tokenizer that defines the begin token"
        ))
    })?;
    let marks = tokenizer
        .marks()
        .map_err(|e| Error::usage(format!("{none}: {e}")))?;
    Ok(DecoderStart {
        begin: marks.begin as i32,
        pad: marks.pad.unwrap_or(marks.begin) as i32,
    })
}

/// Runs all rows of `inputs` through the model and passes each batch's arrays to `each`, in order. All values are checked
/// before the first pass.
///
/// # Errors
/// If the model cannot read a value; if all labels are ignored; if gradients are requested without labels; the errors of
/// `each`.
pub fn infer(
    opened: &OpenedRun,
    inputs: &Inputs,
    request: &Request,
    each: &mut dyn FnMut(Range<usize>, Vec<(String, TensorData)>) -> Result<()>,
) -> Result<GlobalOutputs> {
    let (model, task) = (&opened.model, task(opened)?);
    if request.gradients && inputs.labels().next().is_none() {
        let asked = task.inputs(&opened.shape).into_iter();
        let mut labels = asked.filter(|input| input.content.is_labels());
        let labels = labels.next().map_or(LABELS, |input| input.name);
        return Err(inputs.fault(format!(
            "`{labels}` is missing: gradients are computed from the mean loss against it"
        )));
    }
    let batches = || {
        let rows = inputs.rows();
        let starts = (0..rows).step_by(request.batch_size.max(1));
        starts.map(move |start| start..(start + request.batch_size.max(1)).min(rows))
    };
    let mut scored = LabelCounts::new();
    for rows in batches() {
        count(task, inputs, &inputs.read_rows(rows)?, &mut scored);
    }
    if let Some((name, _)) = scored.iter().find(|(_, count)| **count == 0) {
        return Err(inputs.fault(format!(
            "`{name}` scores nothing: every label that counts is -100"
        )));
    }
    let mut whole = GlobalOutputs::default();
    let mut loss = 0.0;
    for rows in batches() {
        let given = inputs.read_rows(rows.clone())?;
        let passed = run_pass(task, &given, request.keep, &scored, request.gradients);
        loss += passed.loss;
        if let Some(gradients) = passed.gradients {
            let gradients = GradientsParams::from_grads(gradients, model);
            summed_gradients::add(model, gradients, &mut whole.gradients);
        }
        each(rows, passed.arrays)?;
    }
    whole.loss = (!scored.is_empty()).then_some(loss);
    Ok(whole)
}

/// Counts the scored labels in some rows, by array of labels.
fn count(task: &dyn InferenceTask, inputs: &Inputs, given: &InputArrays, scored: &mut LabelCounts) {
    for name in inputs.labels() {
        if let Some(count) = task.count_labels(given, name) {
            *scored.entry(name).or_default() += count;
        }
    }
}

/// Names and shapes of the outputs that exist once for all rows.
fn global_shapes(
    model: &Objective,
    inputs: &Inputs,
    request: &Request,
) -> Vec<(String, Vec<usize>)> {
    let mut all = Vec::new();
    if inputs.labels().next().is_some() {
        all.push((LOSS.to_string(), Vec::new()));
    }
    if request.gradients {
        let parameters = parameters::list(model).into_iter();
        all.extend(parameters.map(|p| (format!("{GRADIENT}{}", p.path), p.shape)));
    }
    all
}

/// Runs all rows of `inputs` through the model and writes the outputs to a file.
///
/// # Errors
/// As [`infer`]; if the file cannot be written.
pub fn infer_into(
    opened: &OpenedRun,
    inputs: &Inputs,
    request: &Request,
    outputs: &mut Outputs,
) -> Result<()> {
    outputs.reserve_global(global_shapes(&opened.model, inputs, request));
    let mut each = |rows: Range<usize>, arrays| outputs.write_rows(inputs.rows(), rows, arrays);
    let whole = infer(opened, inputs, request, &mut each)?;
    if let Some(loss) = whole.loss {
        outputs.write_global(LOSS, &TensorData::new(vec![loss as f32], [1]))?;
    }
    for (path, gradient) in &whole.gradients {
        outputs.write_global(&format!("{GRADIENT}{path}"), gradient)?;
    }
    Ok(())
}
