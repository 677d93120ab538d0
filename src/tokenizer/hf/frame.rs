//! Templates of the tokens around a text, as post-processors of `tokenizer.json`.

use serde_json::{Map, Value, json};

/// A part of a frame: the first or second text, or a token by name and id.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    /// The first text.
    A,
    /// The second text.
    B,
    /// A token.
    Token(&'a str, u32),
}

/// The template around one text, and around two; each part with its segment.
pub fn template(single: &[(Part, u8)], pair: &[(Part, u8)]) -> Value {
    let mut tokens = Map::new();
    for (part, _) in single.iter().chain(pair) {
        if let Part::Token(name, id) = part {
            tokens.insert(
                (*name).to_owned(),
                json!({"id": name, "ids": [id], "tokens": [name]}),
            );
        }
    }
    let part = |(part, segment): &(Part, u8)| match part {
        Part::A => json!({"Sequence": {"id": "A", "type_id": segment}}),
        Part::B => json!({"Sequence": {"id": "B", "type_id": segment}}),
        Part::Token(name, _) => json!({"SpecialToken": {"id": name, "type_id": segment}}),
    };
    let all = |parts: &[(Part, u8)]| parts.iter().map(part).collect::<Vec<_>>();
    json!({"type": "TemplateProcessing", "single": all(single), "pair": all(pair), "special_tokens": tokens})
}

/// `cls A sep` and `cls A sep B sep`; the second text and its end are in segment 1.
pub fn bert(cls: (&str, u32), sep: (&str, u32)) -> Value {
    let (cls, sep) = (Part::Token(cls.0, cls.1), Part::Token(sep.0, sep.1));
    template(
        &[(cls, 0), (Part::A, 0), (sep, 0)],
        &[(cls, 0), (Part::A, 0), (sep, 0), (Part::B, 1), (sep, 1)],
    )
}

/// `bos A eos` and `bos A eos eos B eos`.
pub fn roberta(bos: (&str, u32), eos: (&str, u32)) -> Value {
    let (bos, eos) = (Part::Token(bos.0, bos.1), Part::Token(eos.0, eos.1));
    template(
        &[(bos, 0), (Part::A, 0), (eos, 0)],
        &[
            (bos, 0),
            (Part::A, 0),
            (eos, 0),
            (eos, 0),
            (Part::B, 0),
            (eos, 0),
        ],
    )
}

/// `A eos` and `A eos B eos`.
pub fn t5(eos: (&str, u32)) -> Value {
    let eos = Part::Token(eos.0, eos.1);
    template(
        &[(Part::A, 0), (eos, 0)],
        &[(Part::A, 0), (eos, 0), (Part::B, 0), (eos, 0)],
    )
}

/// The given tokens around each text; null if there is none.
pub fn optional(bos: Option<(&str, u32)>, eos: Option<(&str, u32)>) -> Value {
    if bos.is_none() && eos.is_none() {
        return Value::Null;
    }
    fn token(token: Option<(&str, u32)>, segment: u8) -> Option<(Part<'_>, u8)> {
        token.map(|(name, id)| (Part::Token(name, id), segment))
    }
    let around = |text, segment: u8| {
        let mut parts: Vec<(Part, u8)> = token(bos, segment).into_iter().collect();
        parts.push((text, segment));
        parts.extend(token(eos, segment));
        parts
    };
    let single = around(Part::A, 0);
    let pair = [single.clone(), around(Part::B, 1)].concat();
    template(&single, &pair)
}
