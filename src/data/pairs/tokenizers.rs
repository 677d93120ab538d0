//! The tokenizers of pairs: one for both sides, or one for each.

use super::corpus::{Corpus, PairSide};
use crate::data::{Request, SearchPath, Split, Tokenizers, View};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::tokenizer::{MarkNames, TokenFraming, Tokenizer, TokenizerConfig};
use sha2::{Digest, Sha256};

/// Returns the tokenizers of a run: the saved ones, or new ones built for one side or both.
pub(super) fn tokenizers(corpus: &mut Corpus<'_>, request: &Request) -> Result<Tokenizers> {
    let separate = corpus.config.separate_vocabularies;
    let saved = request.saved_tokenizers;
    let both = [PairSide::Source, PairSide::Target];
    if saved.text.is_some() {
        if separate && saved.target.is_none() {
            return Err(Error::usage(
                "[data] separate_vocabularies = true, but the run has one vocabulary for sources and targets; remove it",
            ));
        }
        if !separate && saved.has_two_vocabularies() {
            return Err(Error::usage(
                "[data] separate_vocabularies = false, but the run has separate vocabularies for sources and targets; set it to true",
            ));
        }
        return match request.run_shape {
            // A resumed run keeps the special tokens that its file names.
            Some(_) => Ok(saved.clone()),
            None => with_named_marks(saved, &corpus.config.marks),
        };
    }
    let Some(config) = request.tokenizer else {
        return Err(Error::usage("[data] kind = \"pairs\" needs a [tokenizer]"));
    };
    // Texts that are encoded separately have no begin or end tokens to name.
    let framed = (*request.view == View::EncodedSeparately).then(|| config.with_frame(false));
    let config = framed.unwrap_or_else(|| config.with_marks(&corpus.config.marks));
    let own = config.is_trained() && *request.view != View::EncodedSeparately;
    let mut made = |sides: &[PairSide]| -> Result<Tokenizer> {
        let made = build(&config, corpus, sides, request.places)?;
        match own {
            // The special tokens that WordPiece puts around texts are only for encoders.
            true => made
                .with_framing(TokenFraming::End)?
                .with_source_language(&corpus.config.marks),
            false => Ok(made),
        }
    };
    if separate {
        return Ok(Tokenizers {
            text: Some(made(&both[..1])?),
            target: Some(made(&both[1..])?),
            chat: None,
        });
    }
    Ok(Tokenizers::single(made(&both)?))
}

/// Returns the tokenizers of the run that a new one begins from, with the special tokens that the new one
/// names.
fn with_named_marks(tokenizers: &Tokenizers, names: &MarkNames) -> Result<Tokenizers> {
    let marked = |tokenizer: &Option<Tokenizer>| {
        let tokenizer = tokenizer.as_ref();
        let marked = tokenizer.map(|t| t.with_marks(names)).transpose()?;
        let read = marked.map(|t| t.with_source_language(names));
        read.transpose()
    };
    Ok(Tokenizers {
        text: marked(&tokenizers.text)?,
        target: marked(&tokenizers.target)?,
        chat: tokenizers.chat.clone(),
    })
}

/// Builds a tokenizer for some sides. A trained tokenizer is kept beside the token caches, since training may
/// take longer than encoding.
fn build(
    config: &TokenizerConfig,
    corpus: &mut Corpus<'_>,
    sides: &[PairSide],
    places: &SearchPath,
) -> Result<Tokenizer> {
    let names = &corpus.config.marks;
    if !config.is_trained() {
        let found = config.with_path(|path| places.resolve(path))?;
        return Tokenizer::build(&found, &[])?
            .with_marks(names)?
            .with_source_language(names);
    }
    let description = serde_json::to_string(&(config, names, corpus.config.all_references));
    let description = description.map_err(|e| Error::run(e.to_string()))?;
    let key = format!("tokenizer 1 {} {sides:?} {description}", corpus.key);
    let name = &hex(&Sha256::digest(key))[..32];
    let path = places.cache().join(format!("tokenizer-{name}.json"));
    if let Ok(tokenizer) = Tokenizer::load(&path) {
        return Ok(tokenizer);
    }
    let texts = corpus.texts(Split::Train)?;
    let examples = texts.examples(corpus.config.all_references);
    let mut train = Vec::new();
    for side in sides {
        train.extend(examples.iter().map(|pair| side.of(pair)));
    }
    let tokenizer = Tokenizer::build(config, &train)?.with_marks(names)?;
    places.create_cache()?;
    tokenizer.save(&path)?;
    Ok(tokenizer)
}
