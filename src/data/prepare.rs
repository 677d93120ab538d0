//! Preparation of data: checks for faults, reads the files or runs the generators, then sets the special
//! tokens that the tokenizers add to texts.

use super::{Data, DataConfig, Request, Tokenizers};
use crate::error::{Error, Fault, Result};
use crate::tokenizer::TokenFraming;

/// Prepares the data and its tokenizer.
///
/// # Errors
/// If the configuration has faults, files are missing or unreadable, a split is too short for one example, or
/// the data does not have the requested view.
pub fn prepare(config: &DataConfig, request: &Request) -> Result<Data> {
    let set = config.data_set();
    // A resumed run may have a tokenizer without its configuration.
    let mut faults = match request.saved_tokenizers.text {
        Some(_) => set.faults(),
        None => config.faults(request.tokenizer),
    };
    if request.run_shape.is_none() {
        faults.extend(set.new_run_faults());
    }
    if !faults.is_empty() {
        return Err(Error::Invalid(faults.into_iter().map(Fault::new).collect()));
    }
    let mut faults = set.view_faults(request.view);
    if faults.is_empty() && request.run_shape.is_none() {
        faults.extend(request.view.new_run_faults(set.context()));
    }
    if !faults.is_empty() {
        return Err(Error::Invalid(faults.into_iter().map(Fault::new).collect()));
    }
    let mut data = set.prepare(request)?;
    data.shape.files_distinguished = !set.paths().is_empty() && !request.is_from_earlier_version();
    if data.tokenizers.chat.is_none() {
        data.tokenizers
            .chat
            .clone_from(&request.saved_tokenizers.chat);
    }
    let around = set.framing(request.view);
    let begins_from_another = request.saved_tokenizers.text.is_some();
    let changes = match around {
        // Framed pairs already have what the tokenizer's file puts around a text, which includes an end
        // token.
        TokenFraming::End => !data.shape.framed,
        // What another run's tokenizer file says is kept.
        TokenFraming::NoTokens | TokenFraming::Frame | TokenFraming::FileLayout => {
            !begins_from_another
        }
        // Windows are always read this way, whichever run the tokenizer comes from.
        TokenFraming::TrailingClass => true,
    };
    // A resumed run keeps its files as they are.
    if changes && request.run_shape.is_none() {
        let Tokenizers { text, target, .. } = &mut data.tokenizers;
        for tokenizer in text.iter_mut().chain(target) {
            *tokenizer = tokenizer.with_framing(around)?;
        }
    }
    Ok(data)
}
