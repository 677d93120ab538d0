//! The number of rows of embedding tables. Published models have more rows than their tokenizers have tokens (T5: 32,128 for
//! 32,100). A run that starts from one needs the same number, or the tables would not fit.

use super::{folder, text_source};
use crate::data::{SearchPath, Shape, Tokenizers};
use crate::error::Result;
use crate::experiment::{Experiment, run_contents};
use crate::tokenizer::Tokenizer;

/// Raises the vocabulary sizes of data read with the tokenizers `own` to those of the run that the experiment starts from, if
/// the tokens are that run's, or begin with that run's. If there is no such run yet, the shape stays unchanged.
///
/// # Errors
/// If files of that run are damaged.
pub(in crate::experiment) fn inherit_rows(
    experiment: &Experiment,
    places: &SearchPath,
    shape: &mut Shape,
    own: &Tokenizers,
) -> Result<()> {
    // A missing run is reported when its weights are taken.
    let Some(Ok(folder)) = text_source(experiment).map(|one| folder(&one, experiment.seed, places))
    else {
        return Ok(());
    };
    let theirs = run_contents::shape(&folder)?;
    let (read, written) = (rows_read(&theirs), theirs.vocab_size);
    if read <= rows_read(shape) && written <= shape.vocab_size {
        return Ok(());
    }
    let tokenizers = run_contents::tokenizers(&folder)?;
    let reads = is_same_or_extension(tokenizers.text.as_ref(), own.text.as_ref());
    let writes = is_same_or_extension(tokenizers.target_tokenizer(), own.target_tokenizer());
    let rows = match (writes, reads) {
        (true, _) => written,
        // A model with a single vocabulary takes the row count of the other run's source vocabulary.
        (false, true) if shape.source_vocab_size.is_none() => read,
        (false, _) => 0,
    };
    shape.vocab_size = shape.vocab_size.max(rows);
    if let (Some(sources), true) = (&mut shape.source_vocab_size, reads) {
        *sources = read.max(*sources);
    }
    Ok(())
}

/// Raises the vocabulary sizes of the data to those of the run that reads it.
pub(in crate::experiment) fn raise_to_run(run: &Shape, shape: &mut Shape) {
    shape.vocab_size = shape.vocab_size.max(run.vocab_size);
    shape.limit = run.limit;
    if let (Some(sources), Some(of_run)) = (&mut shape.source_vocab_size, run.source_vocab_size) {
        *sources = of_run.max(*sources);
    }
}

/// Number of rows of the source embedding table.
fn rows_read(shape: &Shape) -> usize {
    shape.source_vocab_size.unwrap_or(shape.vocab_size)
}

fn is_same_or_extension(theirs: Option<&Tokenizer>, own: Option<&Tokenizer>) -> bool {
    theirs
        .zip(own)
        .is_some_and(|(theirs, own)| own.encodes_like(theirs) || own.extends(theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_keeps_the_rows_that_it_has() {
        let run = Shape {
            source_vocab_size: Some(40),
            ..Shape::of_text(8, 20)
        };
        let mut shape = Shape {
            source_vocab_size: Some(39),
            ..Shape::of_text(8, 21)
        };
        raise_to_run(&run, &mut shape);
        assert_eq!((shape.vocab_size, shape.source_vocab_size), (21, Some(40)));
        let mut one = Shape::of_text(8, 19);
        raise_to_run(&run, &mut one);
        assert_eq!((one.vocab_size, one.source_vocab_size), (20, None));
    }
}
