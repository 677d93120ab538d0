//! Texts and sentinels of span corruption, and senseless keys.

use super::masked::viewed;
use super::spans::{TEXT, pair, view, whole};
use super::{Folder, prose};
use formwork::data::View;
use formwork::tokenizer::Tokenizer;

#[test]
fn vocabularies_of_others_must_have_the_sentinels() {
    let folder = Folder::with(&[("t.txt", prose(300).as_bytes())]);
    let path = folder.dir.path().join("tokenizer.json");
    let made = "kind = \"pretrained\"\npath = \"tokenizer.json\"";
    let prepare = |view: &View| viewed(&folder.places(), TEXT, Some(made), view, 1);
    let characters = Tokenizer::of_characters("abcdefghijklmnopqrstuvwxyzéö \n", None).unwrap();
    let with = |count: usize| {
        let names = (0..count).map(formwork::tokenizer::sentinels::sentinel);
        characters.with_specials(names.collect()).unwrap()
    };
    with(0).save(&path).unwrap();
    let said = prepare(&view(0.15, 3.0)).err().unwrap().to_string();
    assert!(
        said.contains("has 3 spans, but the vocabulary has 0 sentinels"),
        "{said}"
    );
    assert!(said.contains("use the vocabulary of a T5 model"), "{said}");
    with(3).save(&path).unwrap();
    assert!(prepare(&view(0.15, 3.0)).is_ok());
    let said = prepare(&view(0.15, 1.0)).err().unwrap().to_string();
    assert!(
        said.contains("but the vocabulary has 3 sentinels"),
        "{said}"
    );
    assert!(said.contains("use longer spans"), "{said}");
}

#[test]
fn stories_of_a_grammar_are_corrupted_too() {
    let folder = Folder::new();
    let data = "kind = \"grammar\"\ndocuments = 20\nvalid_items = 3";
    let data = viewed(&folder.places(), data, None, &view(0.15, 3.0), 1).unwrap();
    let tokenizer = data.tokenizers.text.clone().unwrap();
    let (text, _) = whole(&pair(data.train.as_ref(), 0, 0), &tokenizer);
    let text = tokenizer.decode(&text);
    assert!(text.starts_with("the day is in the "), "{text}");
    assert_eq!(data.shape.vocab_size, tokenizer.vocab_size());
}

#[test]
fn keys_without_sense_are_faults() {
    let folder = Folder::with(&[("t.txt", prose(300).as_bytes())]);
    let said = |data: &str, view: &View| {
        let data = viewed(&folder.places(), data, Some("kind = \"char\""), view, 1);
        data.err().unwrap().to_string()
    };
    let spans = view(0.15, 3.0);
    for (data, view, message) in [
        (
            TEXT,
            view(0.0, 3.0),
            "share = 0 must be above 0 and at most 0.5",
        ),
        (TEXT, view(0.6, 3.0), "share = 0.6 must be above 0"),
        (TEXT, view(f64::NAN, 3.0), "share = NaN"),
        (TEXT, view(0.15, 0.5), "mean_span = 0.5 must be 1 or more"),
        (
            "kind = \"text\"\npath = \"t.txt\"\ncontext = 3",
            spans.clone(),
            "context = 3 is too short for a text with a span removed; the minimum is 4",
        ),
        (
            "kind = \"text\"\npath = \"t.txt\"\nwindows = \"contiguous\"",
            spans.clone(),
            "windows has no effect on corrupted text",
        ),
        (
            "kind = \"text\"\npath = \"t.txt\"\neval_stride = 4",
            spans.clone(),
            "eval_stride has no effect on corrupted text",
        ),
    ] {
        let said = said(data, &view);
        assert!(said.contains(message), "{said}");
    }
    let random = viewed(
        &folder.places(),
        "kind = \"random_tokens\"",
        None,
        &spans,
        1,
    );
    let said = random.err().unwrap().to_string();
    assert!(
        said.contains("random tokens have no text to corrupt"),
        "{said}"
    );
    let copies = viewed(&folder.places(), "kind = \"copy\"", None, &spans, 1);
    let said = copies.err().unwrap().to_string();
    assert!(
        said.contains("has no text in which tokens can be masked"),
        "{said}"
    );
}
