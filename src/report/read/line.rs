//! Parsing of one line of `metrics.jsonl`: its step, split, numbers and texts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A parsed line, borrowed from its text.
#[derive(Debug)]
pub struct Line<'a> {
    /// Number of optimizer steps done.
    pub step: u64,
    /// Split: `train`, `valid` or `test`; `note` for a line of text.
    pub split: Cow<'a, str>,
    /// Whether the line reports a step that was skipped.
    pub skipped: bool,
    /// Whether the line is the last one of a run whose loss stopped being finite.
    pub diverged: bool,
    /// Text of the note, if the line has one.
    pub note: Option<Cow<'a, str>>,
    /// Description of the part of the split that was read.
    pub part: Option<Cow<'a, str>>,
    /// For an evaluation of a whole split, the values of the part that other evaluations read.
    pub part_values: Vec<(Cow<'a, str>, f64)>,
    /// All numbers of the line, by name.
    pub numbers: Vec<(Cow<'a, str>, f64)>,
}

/// Parses a line, first as strict JSON, then with Python's names for values that JSON cannot express. Returns `None` if the
/// text is not an object with a step.
pub fn parse(line: &str) -> Option<Line<'_>> {
    if let Ok(parsed) = serde_json::from_str(line) {
        return Some(parsed);
    }
    let mended = without_nonfinite(line);
    let parsed: Line<'_> = serde_json::from_str(&mended).ok()?;
    let owned = |numbers: Vec<(Cow<'_, str>, f64)>| {
        let numbers = numbers.into_iter();
        numbers
            .map(|(k, v)| (Cow::Owned(k.into_owned()), v))
            .collect()
    };
    Some(Line {
        step: parsed.step,
        split: Cow::Owned(parsed.split.into_owned()),
        skipped: parsed.skipped,
        diverged: parsed.diverged,
        note: parsed.note.map(|note| Cow::Owned(note.into_owned())),
        part: parsed.part.map(|part| Cow::Owned(part.into_owned())),
        part_values: owned(parsed.part_values),
        numbers: owned(parsed.numbers),
    })
}

/// Returns a line with `null` instead of Python's names for numbers that are not finite. Strings stay as they are.
fn without_nonfinite(line: &str) -> String {
    const NAMES: [&str; 6] = ["-Infinity", "Infinity", "NaN", "-inf", "inf", "nan"];
    let mut mended = String::with_capacity(line.len());
    let (mut quoted, mut escaped, mut rest) = (false, false, line);
    while let Some(next) = rest.chars().next() {
        let name = NAMES.iter().find(|name| rest.starts_with(**name));
        if let Some(name) = name.filter(|_| !quoted) {
            mended.push_str("null");
            rest = &rest[name.len()..];
            continue;
        }
        quoted ^= next == '"' && !escaped;
        escaped = next == '\\' && !escaped;
        mended.push(next);
        rest = &rest[next.len_utf8()..];
    }
    mended
}

impl<'de> Deserialize<'de> for Line<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LineVisitor)
    }
}

struct LineVisitor;

impl<'de> Visitor<'de> for LineVisitor {
    type Value = Line<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `step`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut step, mut split, mut numbers) = (None, Cow::Borrowed("train"), Vec::new());
        let (mut skipped, mut part, mut of_part) = (false, None, Vec::new());
        let (mut diverged, mut note) = (false, None);
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match (key.as_ref(), map.next_value::<Scalar<'de>>()?) {
                ("step", Scalar::Number(n)) if n >= 0.0 => step = Some(n as u64),
                ("split", Scalar::Text(name)) => split = name,
                ("part", Scalar::Text(words)) => part = Some(words),
                ("of_part", Scalar::Numbers(values)) => of_part = values,
                ("skipped", Scalar::Flag(yes)) => skipped = yes,
                ("diverged", Scalar::Flag(yes)) => diverged = yes,
                ("note", Scalar::Text(words)) => note = Some(words),
                (_, Scalar::Number(n)) => numbers.push((key, n)),
                (_, Scalar::Text(_) | Scalar::Flag(_) | Scalar::Numbers(_) | Scalar::Other) => {}
            }
        }
        let step = step.ok_or_else(|| serde::de::Error::missing_field("step"))?;
        Ok(Line {
            step,
            split,
            skipped,
            diverged,
            note,
            part,
            part_values: of_part,
            numbers,
        })
    }
}

/// A string, borrowed if it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Scalar::deserialize(deserializer)? {
            Scalar::Text(text) => Ok(Self(text)),
            Scalar::Number(_) | Scalar::Flag(_) | Scalar::Numbers(_) | Scalar::Other => {
                Err(serde::de::Error::custom("expected a string"))
            }
        }
    }
}

/// A value in a journal line.
enum Scalar<'a> {
    Number(f64),
    Text(Cow<'a, str>),
    Flag(bool),
    /// The numbers of an object.
    Numbers(Vec<(Cow<'a, str>, f64)>),
    Other,
}

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_f64<E>(self, x: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(x))
    }
    fn visit_i64<E>(self, x: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(x as f64))
    }
    fn visit_u64<E>(self, x: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Number(x as f64))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Number(f64::NAN))
    }
    fn visit_bool<E>(self, yes: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Flag(yes))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_string())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut numbers = Vec::new();
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            if let Scalar::Number(n) = map.next_value::<Scalar<'de>>()? {
                numbers.push((key, n));
            }
        }
        Ok(Scalar::Numbers(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn names_of_nonfinite_numbers_are_replaced_outside_strings_only() {
        let line = r#"{"step": 3, "loss":NaN, "note": "it said \"loss :nan\" and x:inf", "lr": -Infinity, "items": 7}"#;
        let parsed = parse(line).unwrap();
        assert_eq!(
            parsed.note.as_deref(),
            Some(r#"it said "loss :nan" and x:inf"#)
        );
        assert_eq!((parsed.step, parsed.split.as_ref()), (3, "train"));
        let numbers = parsed.numbers.iter().filter(|(_, n)| n.is_finite());
        assert_eq!(numbers.map(|(_, n)| *n).collect::<Vec<_>>(), [7.0]);
    }
}
