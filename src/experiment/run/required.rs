//! Requirements of a run on its data, checked once the data is read.

use crate::data::Data;
use crate::error::{Error, Result};
use crate::experiment::Experiment;

/// Checks that the task can learn from the data, that generated texts are forced to begin only with existing tokens, and that
/// the sample prompt of evaluations can be encoded.
pub(in crate::experiment) fn require_data(experiment: &Experiment, data: &Data) -> Result<()> {
    let fault = experiment.task.facts().data_fault(data.train.as_ref())?;
    fault.map_or(Ok(()), |fault| Err(Error::usage(fault)))?;
    require_rows(experiment, data)?;
    let valid = data.valid.as_ref().map_or(0, |valid| valid.len());
    if valid == 1 && experiment.task.facts().compared_rows().is_some() {
        return Err(Error::usage(
            "[data] has one validation example, but this task compares examples with each other; provide at least two",
        ));
    }
    let tokenizers = &data.tokenizers;
    if let Some(written) = tokenizers.target.as_ref().or(tokenizers.text.as_ref()) {
        let search = &experiment.decode.search;
        search.require_vocabulary(written.vocab_size())?;
        let sampling = &experiment.decode.sampling;
        sampling.require_vocabulary(written.vocab_size())?;
    }
    let (Some(sample), Some(tokenizer)) = (&experiment.train.sample, &tokenizers.text) else {
        return Ok(());
    };
    let fault = |reason: &str| {
        Error::usage(format!(
            "[train] sample.prompt = {:?} cannot be continued: {reason}",
            sample.prompt
        ))
    };
    match tokenizer.encode(&sample.prompt) {
        Ok(tokens) if tokens.is_empty() => Err(fault("it has no token; give at least one")),
        Ok(_) => Ok(()),
        Err(error) => Err(fault(&error.to_string())),
    }
}

/// Checks that, with carried state, there are at least as many windows as rows.
fn require_rows(experiment: &Experiment, data: &Data) -> Result<()> {
    let (rows, windows) = (experiment.train.batch_size, data.train.len());
    if experiment.train.carry_state && rows > windows {
        return Err(Error::usage(format!(
            "[train] batch_size = {rows} must be at most {windows}, the number of training windows: with carry_state = true each \
             row reads a share of them; reduce it, or reduce [data] context"
        )));
    }
    Ok(())
}
