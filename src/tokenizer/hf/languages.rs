//! The tokenizers of multilingual translation models: the language token around a source, and the vocabulary files of mBART-50
//! (Tang et al., arXiv:2008.00401) and M2M-100 (Fan et al., arXiv:2010.11125). Their classes number languages by built-in lists,
//! and put the language that `src_lang` names around a text, whatever a tokenizer.json says.
//!
//! NLLB-200's SentencePiece model by itself is not supported, because no file adds the languages to it.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::TokenizerDraft;
use super::family::{Family, Files, NamedFamily};
use super::files::{Folder, fault, numbered};
use super::marian::foreign_score;
use super::pieces::Pieces;
use super::plain_sentencepiece;
use super::sentencepiece::{charsmap, metaspace, unigram, vocab};
use super::settings::{AddedToken, Role, Settings, TOKENIZER_CONFIG};
use crate::error::{Error, Result, suggestion};
use crate::tokenizer::Tokenizer;

/// The key of NLLB-200's first folders, in which the language follows a source.
pub const LEGACY: &str = "legacy_behaviour";
/// The files of M2M-100.
pub const VOCAB: &str = "vocab.json";
pub const MODEL: &str = "sentencepiece.bpe.model";

/// mBART-50's languages in the order of their ids: those of mBART first, then the added ones.
const MBART_50: &str = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX \
                        ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN \
                        pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";
/// M2M-100's languages, in alphabetical order.
const M2M_100: &str = "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id \
                       ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si \
                       sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu";
/// The languages of its variant for news translation at WMT 2021.
const WMT_21: &str = "en ha is ja cs ru zh de";

/// The values of `language_codes`, with their lists.
const CODES: [(&str, &str); 2] = [("m2m100", M2M_100), ("wmt21", WMT_21)];

/// The families with a language token around texts, and the default language.
const DEFAULTS: [(Family, &str); 3] = [
    (Family::MBart50, "en_XX"),
    (Family::M2M100, "__en__"),
    (Family::Nllb, "eng_Latn"),
];

/// Returns the tokenizer with the language token that its class puts around texts; unchanged for other classes.
///
/// # Errors
/// If `src_lang` is not a token.
pub fn with_language_token(
    path: &Path,
    tokenizer: Tokenizer,
    settings: &Settings,
) -> Result<Tokenizer> {
    // The model's type by itself does not decide how a tokenizer.json is read.
    let named = match Family::named(settings, Files::Pieces) {
        NamedFamily::Family(Family::M2M100) if !path.ends_with(VOCAB) => None,
        NamedFamily::Family(family) => DEFAULTS.iter().find(|(other, _)| *other == family),
        NamedFamily::Unknown(_) | NamedFamily::Nothing => None,
    };
    let Some((family, usual)) = named else {
        return Ok(tokenizer);
    };
    let name = match (settings.word("src_lang"), family) {
        (Some(code), Family::M2M100) => token_of(code),
        (Some(code), _) => code.to_owned(),
        (None, _) => (*usual).to_owned(),
    };
    let (language, end) = (
        tokenizer.id(&name),
        tokenizer.marks().map(|marks| marks.end),
    );
    let (Some(language), Ok(end)) = (language, end) else {
        if settings.word("src_lang").is_none() {
            return Ok(tokenizer);
        }
        let message = format!("`src_lang` names `{name}`, which is not a token of the vocabulary");
        return Err(fault(&path.with_file_name(TOKENIZER_CONFIG), message));
    };
    match settings.flag(LEGACY) == Some(true) && *family == Family::Nllb {
        true => tokenizer.with_tokens_around(&[], &[end, language]),
        false => tokenizer.with_tokens_around(&[language], &[end]),
    }
}

/// The token of a language in M2M-100.
fn token_of(code: &str) -> String {
    format!("__{code}__")
}

/// The error for a SentencePiece model whose other files are missing.
pub fn incomplete(path: &Path, family: Family) -> Error {
    fault(
        path,
        match family {
            Family::M2M100 => {
                "belongs to M2M100Tokenizer, which needs vocab.json beside it for the ids of its pieces"
            }
            _ => {
                "belongs to NllbTokenizer, but neither it nor a file beside it defines languages; add the folder's tokenizer.json"
            }
        },
    )
}

/// Reads mBART-50's pieces: fairseq puts `<s> <pad> </s> <unk>` before them; languages and a mask follow them.
pub fn mbart_50(pieces: &Pieces, settings: &mut Settings) -> TokenizerDraft {
    let first = [
        (Role::Cls, "<s>"),
        (Role::Pad, "<pad>"),
        (Role::Eos, "</s>"),
        (Role::Unk, "<unk>"),
    ];
    for (role, name) in first.into_iter().chain([(Role::Sep, "</s>")]) {
        settings.default_role(role, AddedToken::special(name));
    }
    let mask = AddedToken {
        lstrip: true,
        ..AddedToken::special("<mask>")
    };
    settings.default_role(Role::Mask, mask);
    let named = first.map(|(role, name)| (settings.name(role, name).to_owned(), 0.0));
    let mut all = named.to_vec();
    all.extend(vocab(pieces).into_iter().skip(3));
    let languages = all.len() as u32..;
    all.extend(MBART_50.split(' ').map(|code| (code.to_owned(), 0.0)));
    all.push((settings.name(Role::Mask, "<mask>").to_owned(), 0.0));
    let single_blanks = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
    let rules: Vec<Value> = charsmap(pieces)
        .into_iter()
        .chain([single_blanks])
        .collect();
    let codes = languages.zip(MBART_50.split(' '));
    TokenizerDraft {
        normalizer: json!({"type": "Sequence", "normalizers": rules}),
        pre_tokenizer: metaspace("always", true),
        post_processor: Value::Null,
        decoder: metaspace("always", true),
        model: unigram(&all, 3, false),
        added: codes
            .map(|(id, code)| (id, AddedToken::special(code)))
            .collect(),
        notes: Vec::new(),
    }
}

/// Whether a folder has M2M-100's two files, and its settings name M2M-100.
pub fn has_numbers(folder: Folder, settings: &Settings) -> bool {
    let named = Family::named(settings, Files::Pieces);
    named == NamedFamily::Family(Family::M2M100) && folder.has(VOCAB) && folder.has(MODEL)
}

/// Reads M2M-100's pieces with the ids of vocab.json, followed by the languages.
///
/// # Errors
/// If a file is missing or damaged, ids are missing, or `language_codes` names no list.
pub fn m2m_100(folder: Folder, settings: &mut Settings) -> Result<TokenizerDraft> {
    let path = folder.path(VOCAB);
    let tokens = numbered(&path, &folder.object(VOCAB)?.unwrap_or_default())?;
    let mut places = tokens.iter().enumerate();
    if let Some((at, (token, id))) = places.find(|(at, (_, id))| *id as usize != *at) {
        let message = format!("has no token with the id {at}; the next is `{token}` with {id}");
        return Err(fault(&path, message));
    }
    let numbers: HashMap<&str, u32> = tokens.iter().map(|(t, id)| (t.as_str(), *id)).collect();
    for (role, name) in [
        (Role::Bos, "<s>"),
        (Role::Eos, "</s>"),
        (Role::Sep, "</s>"),
        (Role::Unk, "<unk>"),
        (Role::Pad, "<pad>"),
    ] {
        settings.default_role(role, AddedToken::special(name));
    }
    for role in [Role::Eos, Role::Unk] {
        let name = settings.name(role, "");
        if !numbers.contains_key(name) {
            return Err(fault(&path, format!("needs the token `{name}`")));
        }
    }
    let pieces = Pieces::read(folder, MODEL)?;
    let mut draft = plain_sentencepiece::read(pieces, settings);
    let lost = renumber(
        &mut draft.model,
        &numbers,
        settings.name(Role::Unk, "<unk>"),
    );
    if lost > 0 {
        draft.notes.push(format!(
            "{lost} pieces of {MODEL} have no id in {VOCAB}: other pieces replace them, but transformers reads them as unknown text"
        ));
    }
    // Added tokens of the model get their ids in vocab.json.
    let added = std::mem::take(&mut draft.added).into_iter();
    let added = added.filter_map(|(_, token)| Some((*numbers.get(token.content.as_str())?, token)));
    let languages = codes(folder, settings)?.map(|code| AddedToken::special(token_of(code)));
    let languages = (tokens.len() as u32..).zip(languages);
    draft.added = added.chain(languages).collect();
    draft.post_processor = Value::Null;
    Ok(draft)
}

/// The languages in the list that `language_codes` names, in the order of their ids.
fn codes(folder: Folder, settings: &Settings) -> Result<impl Iterator<Item = &'static str>> {
    let wanted = settings.word("language_codes").unwrap_or(CODES[0].0);
    let found = CODES.iter().find(|(name, _)| *name == wanted);
    let found = found.ok_or_else(|| {
        let hint = suggestion(wanted, CODES.map(|(name, _)| name));
        let message = format!("`language_codes` = \"{wanted}\" is not a list of languages{hint}");
        fault(&folder.path(TOKENIZER_CONFIG), message)
    });
    found.map(|(_, codes)| codes.split(' '))
}

/// Replaces the ids of a model's pieces; returns the number of pieces without a new id.
fn renumber(model: &mut Value, numbers: &HashMap<&str, u32>, unknown: &str) -> usize {
    let mut all: Vec<(&str, u32)> = numbers.iter().map(|(t, id)| (*t, *id)).collect();
    all.sort_by_key(|(_, id)| *id);
    let has = |token: &Value| token.as_str().is_some_and(|t| numbers.contains_key(t));
    if let Value::Array(list) = &model["vocab"] {
        let known = list.iter().filter(|pair| has(&pair[0])).count();
        let lost = list.len() - known;
        let scores: HashMap<&str, f64> = list
            .iter()
            .filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_f64()?)))
            .collect();
        let scored = |token: &str| {
            scores
                .get(token)
                .copied()
                .unwrap_or_else(|| foreign_score(token))
        };
        let vocab: Vec<(&str, f64)> = all.iter().map(|(t, _)| (*t, scored(t))).collect();
        let vocab = json!(vocab);
        model["unk_id"] = json!(numbers[unknown]);
        model["vocab"] = vocab;
        return lost;
    }
    let pieces = model["vocab"].as_object().map_or(0, Map::len);
    let kept = model["vocab"].as_object().into_iter().flatten();
    let lost = pieces
        - kept
            .filter(|(token, _)| numbers.contains_key(token.as_str()))
            .count();
    if let Some(merges) = model["merges"].as_array_mut() {
        merges.retain(|pair| {
            let whole = [&pair[0], &pair[1]].map(|part| part.as_str().unwrap_or_default());
            has(&pair[0]) && has(&pair[1]) && numbers.contains_key(whole.concat().as_str())
        });
    }
    let vocab: Map<String, Value> = all
        .iter()
        .map(|(token, id)| ((*token).to_owned(), json!(id)))
        .collect();
    model["unk_token"] = json!(unknown);
    model["vocab"] = Value::Object(vocab);
    lost
}
