//! Tests of the tokens around texts, for various tokenizer files.

use super::super::TokenFraming;
use super::*;
use serde_json::{Value, json};
use std::path::Path;

/// A file of a word tokenizer with `begin` and `</s>` as special tokens.
fn words(begin: &str) -> Value {
    let added = [begin, "</s>"].into_iter().enumerate().map(|(id, name)| {
        json!({"id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
               "special": true})
    });
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added.collect::<Vec<_>>(),
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {begin: 0, "</s>": 1, "a": 2, "?": 3}, "unk_token": "?"},
    })
}

fn tokenizer(file: &Value) -> Tokenizer {
    Tokenizer::from_json(file.to_string().into_bytes(), Path::new("tokenizer.json")).unwrap()
}

#[test]
fn the_end_of_sources_is_no_edge_where_there_is_a_frame() {
    let saved = tokenizer(&words("<s>"))
        .with_framing(TokenFraming::End)
        .unwrap();
    assert_eq!(saved.file_layout(), None);
    assert_eq!(
        saved.special_token_layout().unwrap().around(&[2]),
        [0, 2, 1]
    );
    let labelled = saved.with_framing(TokenFraming::FileLayout).unwrap();
    assert_eq!(labelled.framing(), saved.frame());
    // A published template with the same tokens gives all of them segment 0.
    let mut published = saved.file().unwrap();
    for part in published["post_processor"]["pair"].as_array_mut().unwrap() {
        for part in part.as_object_mut().unwrap().values_mut() {
            part["type_id"] = json!(0);
        }
    }
    let published = tokenizer(&published);
    assert_eq!(
        published.special_token_layout().unwrap().around(&[2]),
        [2, 1]
    );
    // Without a frame, the end token follows each text.
    let mut bare = saved.file().unwrap();
    bare["added_tokens"][0]["special"] = json!(false);
    assert_eq!(
        tokenizer(&bare)
            .special_token_layout()
            .unwrap()
            .around(&[2]),
        [2, 1]
    );
}

/// A tokenizer whose file puts these names around a text `A`, and around two texts in a way that RoBERTa's does
/// not.
fn putting(single: &[&str]) -> Tokenizer {
    let mut file = words("<s>");
    let part = |name: &&str| match *name {
        "A" | "B" => json!({"Sequence": {"id": name, "type_id": 0}}),
        name => json!({"SpecialToken": {"id": name, "type_id": 0}}),
    };
    let ids = [("<s>", 0), ("</s>", 1), ("a", 2)];
    let tokens = ids.map(|(name, id)| {
        let token = json!({"id": name, "ids": [id], "tokens": [name]});
        (name.to_owned(), token)
    });
    let pair = [single, &["B"]].concat();
    file["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": single.iter().map(part).collect::<Vec<_>>(),
        "pair": pair.iter().map(part).collect::<Vec<_>>(),
        "special_tokens": serde_json::Map::from_iter(tokens),
    });
    tokenizer(&file)
}

#[test]
fn sources_stand_in_what_the_file_puts_around_a_text_where_it_ends_one() {
    let around = |of: &Tokenizer| of.source_layout().unwrap().around(&[3]);
    // BART, whatever its file puts around two texts; mBART; T5; LLaMA, whose file adds no end token.
    for (single, ids) in [
        (&["<s>", "A", "</s>"][..], &[0, 3, 1][..]),
        (&["A", "</s>", "a"][..], &[3, 1, 2][..]),
        (&["A", "</s>"][..], &[3, 1][..]),
        (&["<s>", "A"][..], &[3, 1][..]),
    ] {
        let found = putting(single);
        assert_eq!(around(&found), ids, "{single:?}");
        assert_eq!(found.target_prefix().unwrap(), [0], "{single:?}");
    }
    let bare = tokenizer(&words("<s>"));
    assert_eq!(around(&bare), [3, 1]);
    assert!(bare.source_layout().unwrap().is_end_only(1));
    assert_eq!(
        around(&bare.with_framing(TokenFraming::Frame).unwrap()),
        [0, 3, 1]
    );
    assert_eq!(
        around(&bare.with_framing(TokenFraming::End).unwrap()),
        [3, 1]
    );
}

#[test]
fn another_mark_than_the_frames_opens_targets_before_it() {
    let names = crate::tokenizer::MarkNames {
        begin: Some("</s>".into()),
        ..Default::default()
    };
    let bart = putting(&["<s>", "A", "</s>"]).with_marks(&names).unwrap();
    assert_eq!(bart.target_prefix().unwrap(), [1, 0]);
    let ended = putting(&["A", "</s>"]).with_marks(&names).unwrap();
    assert_eq!(ended.target_prefix().unwrap(), [1]);
}

#[test]
fn a_frame_has_the_same_tokens_at_its_edges() {
    for doubled in [false, true] {
        let frame = Frame {
            begin: 1,
            end: 2,
            doubled,
        };
        let edges = SpecialTokenLayout::from(frame);
        assert_eq!(edges.around(&[7, 8]), frame.around(&[7, 8]));
        let both = edges.around_both(&[7, 8], &[9]);
        assert_eq!(both, frame.around_both(&[7, 8], &[9]));
        for pair in [false, true] {
            assert_eq!(edges.len(pair), frame.len(pair));
        }
    }
}

#[test]
fn marks_behind_texts_stay_there_when_the_file_is_read_again() {
    let bare = tokenizer(&words("<s>"));
    assert_eq!(bare.special_token_layout().unwrap().segments(3), None);
    let saved = bare.with_framing(TokenFraming::TrailingClass).unwrap();
    for edges in [
        bare.trailing_class_layout().unwrap(),
        saved.special_token_layout().unwrap(),
    ] {
        assert_eq!(edges.around(&[2, 3]), [2, 3, 1, 0]);
        assert_eq!(edges.segments(2).unwrap(), [0, 0, 0, 2]);
        let (ids, segments) = edges.around_both(&[2], &[3, 2]);
        assert_eq!(ids, [2, 1, 3, 2, 1, 0]);
        assert_eq!(segments, [0, 0, 1, 1, 1, 2]);
    }
    assert_eq!(
        saved
            .with_framing(TokenFraming::TrailingClass)
            .unwrap()
            .special_token_layout(),
        saved.special_token_layout()
    );
}
