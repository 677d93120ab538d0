//! The tokenizers of pairs: one for both sides, or one for each.

use super::corpus::{Corpus, Which};
use crate::data::{Places, Request, Split, Tokenizers, View};
use crate::digest::hex;
use crate::error::{Error, Result};
use crate::tokenizer::{Tokenizer, TokenizerConfig};
use sha2::{Digest, Sha256};

/// One tokenizer for both sides, or one for each.
pub(super) fn tokenizers(corpus: &mut Corpus<'_>, request: &Request) -> Result<Tokenizers> {
    let separate = corpus.config.separate_vocabularies;
    let saved = request.saved;
    let both = [Which::Source, Which::Target];
    if saved.text.is_some() {
        if saved.target.is_some() != separate {
            return Err(Error::usage(format!(
                "[data] separate_vocabularies = {separate}, but the run has {} tokenizer(s)",
                if separate { "one" } else { "two" }
            )));
        }
        return Ok(saved.clone());
    }
    let Some(config) = request.tokenizer else {
        return Err(Error::usage("[data] kind = \"pairs\" needs a [tokenizer]"));
    };
    // Of texts that are read alone there are no marks to name.
    let framed = (*request.view == View::Alone).then(|| config.with_frame(false));
    let config = framed.unwrap_or_else(|| config.with_marks(&corpus.config.marks));
    let places = request.places;
    if separate {
        return Ok(Tokenizers {
            text: Some(build(&config, corpus, &both[..1], places)?),
            target: Some(build(&config, corpus, &both[1..], places)?),
        });
    }
    Ok(Tokenizers::one(build(&config, corpus, &both, places)?))
}

/// A tokenizer for some sides; one that is trained is kept beside the token caches, for it may take longer than
/// encoding.
fn build(
    config: &TokenizerConfig,
    corpus: &mut Corpus<'_>,
    sides: &[Which],
    places: &Places,
) -> Result<Tokenizer> {
    let names = &corpus.config.marks;
    if !config.is_trained() {
        let found = config.with_path(|path| places.resolve(path))?;
        return Tokenizer::build(&found, &[])?.with_marks(names);
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
    std::fs::create_dir_all(places.cache()).map_err(Error::io("create", places.cache()))?;
    tokenizer.save(&path)?;
    Ok(tokenizer)
}
