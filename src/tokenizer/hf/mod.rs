//! Import and export of the tokenizers in Hugging Face folders.
//!
//! [`read`] makes a tokenizer of ours, which is a `tokenizer.json`, from the files in a folder: `tokenizer.json`
//! itself, else BERT's `vocab.txt`, GPT-2's `vocab.json` and `merges.txt`, Marian's two models with `vocab.json`, M2M-100's
//! model with `vocab.json`, a SentencePiece model, or wav2vec 2.0's `vocab.json` by itself. [`write`] writes the files from which
//! transformers' `AutoTokenizer` makes the same ids, [`write_pair`] those of two tokenizers.
//! The ids are those of transformers 5; [`HfTokenizer::notes`] says where they can differ.
//!
//! Tokenizers that are programs themselves are not supported.

mod byte_level;
mod chat;
mod ctc;
mod deberta;
mod family;
mod files;
mod frame;
mod kept_settings;
mod languages;
mod llama;
mod marian;
mod pair;
mod pieces;
mod plain_sentencepiece;
mod proto;
mod rebuilt;
mod sentencepiece;
mod settings;
mod tokenizer_json;
mod wordpiece;
mod write;

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{ChatTemplate, MarkNames, Tokenizer, format};
use crate::error::Result;
use family::{Family, Files, NamedFamily};
use files::{Folder, fault};
use settings::{AddedToken, Role, Settings};

pub use chat::{chat_template, write_chat_template};
pub use ctc::write as write_ctc;
pub use kept_settings::restore;
pub use pair::write as write_pair;
pub use rebuilt::rebuild_note;
pub use write::{ModelInputs, REBUILDS, write};

/// The files of which [`read`] expects one set in a folder; for messages.
pub const EXPECTED: &str = "tokenizer.json, vocab.txt, vocab.json + merges.txt, spiece.model, tokenizer.model, spm.model, \
                            sentencepiece.bpe.model (of M2M-100 + vocab.json), source.spm + target.spm + vocab.json, or vocab.json (of \
                            wav2vec 2.0)";

/// The tokenizer read from a folder.
#[derive(Debug)]
pub struct HfTokenizer {
    /// The tokenizer of texts; Marian's for sources. `encode_framed` gives the ids of transformers with special tokens, `encode`
    /// without.
    pub tokenizer: Tokenizer,
    /// The tokenizer of targets, if it is a different one.
    pub target: Option<Tokenizer>,
    /// Names of the files it was read from.
    pub files: Vec<&'static str>,
    /// The chat template, if the folder has one.
    pub chat: Option<ChatTemplate>,
    /// Keys and files that are not used here.
    pub ignored: Vec<String>,
    /// Notes on where the ids can differ from those of transformers.
    pub notes: Vec<String>,
    /// The maximum input length in tokens, if the folder gives it.
    pub max_length: Option<usize>,
    /// Further settings that a folder exported from it must repeat, for [`restore`].
    pub kept_settings: Map<String, Value>,
}

/// The parts of a `tokenizer.json` before special tokens are added.
struct TokenizerDraft {
    normalizer: Value,
    pre_tokenizer: Value,
    post_processor: Value,
    decoder: Value,
    model: Value,
    /// Tokens that are matched before the text is split.
    added: Vec<(u32, AddedToken)>,
    notes: Vec<String>,
}

/// Whether a folder has settings of its tokenizer besides the vocabulary.
pub fn has_settings(dir: &Path) -> bool {
    settings::FILES.iter().any(|name| Folder(dir).has(name))
}

/// Reads the tokenizer of a folder; `None` if it has none.
///
/// # Errors
/// If files are damaged or contradict each other, or belong to a class that reads them differently; the message names the file.
pub fn read(dir: &Path) -> Result<Option<HfTokenizer>> {
    let folder = Folder(dir);
    if folder.has(tokenizer_json::NAME) {
        return tokenizer_json::read(folder).map(Some);
    }
    let settings = &mut Settings::read(folder)?;
    if marian::SIDES.iter().all(|name| folder.has(name)) && folder.has(marian::VOCAB) {
        let [source, target] = marian::read(folder, settings)?;
        let files = vec![marian::SIDES[0], marian::SIDES[1], marian::VOCAB];
        let target = finish(folder, marian::SIDES[1], target, settings)?;
        let mut found = found(folder, files, source, settings)?;
        found.notes.extend(target.1);
        found.target = Some(target.0);
        return Ok(Some(found));
    }
    let merges = byte_level::NAMES
        .into_iter()
        .find(|(vocab, merges)| folder.has(vocab) && folder.has(merges));
    let (files, draft) = if folder.has(wordpiece::VOCAB) {
        let path = folder.path(wordpiece::VOCAB);
        let family = match Family::named(settings, Files::Words) {
            NamedFamily::Family(family) => family,
            NamedFamily::Unknown(class) => return Err(unknown_class(&path, class)),
            NamedFamily::Nothing => Family::Bert,
        };
        let draft = wordpiece::read(folder, family, settings)?;
        (vec![wordpiece::VOCAB], draft)
    } else if let Some(names) = merges {
        let draft = byte_level::read(folder, names, settings)?;
        (vec![names.0, names.1], draft)
    } else if languages::has_numbers(folder, settings) {
        let draft = languages::m2m_100(folder, settings)?;
        (vec![languages::VOCAB, languages::MODEL], draft)
    } else if let Some(name) = folder.first(&sentencepiece::NAMES) {
        let draft = sentencepiece::read(folder, name, settings)?;
        (vec![name], draft)
    } else if ctc::is_ctc(folder, settings) {
        (vec![ctc::VOCAB], ctc::read(folder, settings)?)
    } else {
        return Ok(None);
    };
    found(folder, files, draft, settings).map(Some)
}

/// Reads a SentencePiece model of any name, with the settings in its folder; also returns notes as in [`HfTokenizer`].
///
/// # Errors
/// The errors of [`read`].
pub fn read_model(path: &Path) -> Result<(Tokenizer, Vec<String>)> {
    let folder = Folder(path.parent().unwrap_or(Path::new("")));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let settings = &mut Settings::read(folder)?;
    let draft = sentencepiece::read(folder, &name, settings)?;
    finish(folder, &name, draft, settings)
}

/// The error for a class that may read the same files differently.
fn unknown_class(path: &Path, class: &str) -> crate::error::Error {
    fault(
        path,
        format!(
            "belongs to the class {class}, which may assign different ids; write the folder's tokenizer.json with transformers: \
             AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)"
        ),
    )
}

fn found(
    folder: Folder,
    files: Vec<&'static str>,
    draft: TokenizerDraft,
    settings: &Settings,
) -> Result<HfTokenizer> {
    let (tokenizer, mut notes) = finish(folder, files[0], draft, settings)?;
    Ok(HfTokenizer {
        tokenizer,
        target: None,
        chat: chat::read(folder, settings, &mut notes)?,
        files,
        ignored: settings.ignored.clone(),
        notes,
        max_length: settings.max_length,
        kept_settings: kept_settings::collect(settings),
    })
}

/// Makes the tokenizer of a draft and its notes; faults mention the file `name`.
fn finish(
    folder: Folder,
    name: &str,
    mut draft: TokenizerDraft,
    settings: &Settings,
) -> Result<(Tokenizer, Vec<String>)> {
    let path = folder.path(name);
    let notes = std::mem::take(&mut draft.notes);
    let mut file = format::file(
        &[],
        draft.normalizer,
        draft.pre_tokenizer,
        draft.post_processor,
        draft.decoder,
        draft.model,
    );
    let mut added = draft.added;
    for (id, token) in &settings.added {
        added.retain(|(other, _)| other != id);
        added.push((*id, token.clone()));
    }
    add(&path, &mut file, added, settings)?;
    let tokenizer =
        Tokenizer::from_json(format::to_bytes(&file)?, &path).map_err(|e| e.into_usage_error())?;
    Ok((with_roles(&path, tokenizer, settings)?, notes))
}

/// Adds tokens to `added_tokens`: first those with given ids, then tokens with roles and further special ones, which get the id
/// that they have in the vocabulary, else the next free one.
fn add(
    path: &Path,
    file: &mut Value,
    mut with_ids: Vec<(u32, AddedToken)>,
    settings: &Settings,
) -> Result<()> {
    let mut vocab = tokenizer_json::vocabulary(file);
    let mut entries = tokenizer_json::entries(file);
    with_ids.sort_by_key(|(id, _)| *id);
    for (id, token) in with_ids {
        match vocab.id(&token.content) {
            Some(known) if known != id => {
                let message = format!(
                    "gives the token `{}` the id {known}, but tokenizer_config.json or added_tokens.json gives it {id}",
                    token.content
                );
                return Err(fault(path, message));
            }
            Some(_) => {}
            None => {
                let next = vocab.next();
                if id != next {
                    let message = format!(
                        "ends before the id {next}, but the next added token, `{}`, has the id {id}",
                        token.content
                    );
                    return Err(fault(path, message));
                }
                vocab.add(&token.content);
            }
        }
        if entries.iter().all(|e| e["content"] != token.content) {
            entries.push(token.entry(id));
        }
    }
    let roles = settings.roles.iter().map(|(_, token)| token);
    for token in roles.chain(&settings.extra) {
        if let Some(entry) = entries.iter_mut().find(|e| e["content"] == token.content) {
            entry["special"] = json!(true);
            continue;
        }
        let id = vocab
            .id(&token.content)
            .unwrap_or_else(|| vocab.add(&token.content));
        entries.push(token.entry(id));
    }
    entries.sort_by_key(|e| e["id"].as_u64());
    file["added_tokens"] = json!(entries);
    Ok(())
}

/// Adds the marks that the settings name; the file stays the same if these are found without it.
fn with_roles(path: &Path, tokenizer: Tokenizer, settings: &Settings) -> Result<Tokenizer> {
    let token = |roles: [Role; 2]| roles.into_iter().find_map(|role| settings.role(role));
    let wanted = [
        token([Role::Bos, Role::Cls]),
        token([Role::Eos, Role::Sep]),
        token([Role::Sep, Role::Sep]),
        token([Role::Pad, Role::Pad]),
    ];
    let id = |token: Option<&AddedToken>| token.and_then(|token| tokenizer.id(&token.content));
    let tokenizer = match id(wanted[1]).filter(|id| tokenizer.end_of_text() != Some(*id)) {
        Some(id) => tokenizer_json::with_end_of_text(path, &tokenizer, id)?,
        None => tokenizer,
    };
    let differs = |at: usize| {
        let name = wanted[at].filter(|token| tokenizer.id(&token.content) != tokenizer.0.marks[at]);
        name.map(|token| token.content.clone())
    };
    let names = MarkNames {
        begin: differs(0),
        end: differs(1),
        separator: differs(2),
        pad: differs(3),
        ..MarkNames::default()
    };
    languages::with_language_token(path, tokenizer.with_marks(&names)?, settings)
}
