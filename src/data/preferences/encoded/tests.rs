//! Tests of pairs as tokens.

use super::*;
use serde_json::json;

#[test]
fn the_continuation_is_scored_up_to_the_end_of_text() {
    let tokenizer = Tokenizer::of_characters("0123456789+=\n", Some('\n')).unwrap();
    let encoder = Encoder::new(&tokenizer, None, 8, false).unwrap();
    let pair = Pair::Texts {
        prompt: "1+1=".into(),
        better: "2".into(),
        worse: "30\n".into(),
    };
    let item = encoder.encode_pair(&pair, 0.0).unwrap().item();
    assert_eq!(item.inputs, [1, 10, 1, 11, 2, 1, 10, 1, 11, 3, 0]);
    let skip = crate::data::NOT_SCORED;
    assert_eq!(
        item.targets,
        [skip, skip, skip, 2, 12, skip, skip, skip, 3, 0, 12]
    );
    assert_eq!(item.documents, Some(vec![1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]));
}

#[test]
fn pairs_are_cut_at_their_ends_and_left_out_where_nothing_differs() {
    let text = |ids: &[i32]| {
        let answer = 2..ids.len();
        Encoded {
            ids: ids.to_vec(),
            answers: Vec::from_iter([answer]),
        }
    };
    let both = || EncodedPair {
        better: text(&[1, 2, 3, 4, 5]),
        worse: text(&[1, 2, 3, 6]),
        margin: 0.5,
    };
    let cut = both().cut(4).unwrap();
    assert_eq!(cut.better.ids, [1, 2, 3, 4]);
    assert_eq!(both().cut(3), None, "both are 1, 2, 3");
    assert_eq!(both().cut(2), None, "both are the prompt");
    // Texts that are encoded separately are left out instead of cut.
    assert_eq!(both().if_fits(4), None);
    let item = both().if_fits(5).unwrap().separate_item();
    assert_eq!(item.inputs, [1, 2, 3, 4, 5, 1, 2, 3, 6]);
    assert_eq!(item.segments, Some(vec![0, 0, 0, 0, 0, 1, 1, 1, 1]));
    assert!(item.targets.is_empty() && item.documents.is_none());
    assert_eq!(item.number, Some(0.5));
}

#[test]
fn messages_are_scored_up_to_their_last_mark() {
    let template = ChatTemplate::chatml();
    let marks = crate::tokenizer::chat::CHATML_MARKS.map(String::from);
    let plain = Tokenizer::of_characters("usera int0123456789+?\n", None).unwrap();
    let tokenizer = plain.with_tokens(marks.into_iter()).unwrap();
    let encoder = Encoder::new(&tokenizer, Some(&template), 64, false).unwrap();
    let message = |role: &str, content: &str| json!({ "role": role, "content": content });
    let pair = Pair::Messages {
        prompt: vec![message("user", "1+1?")],
        better: vec![message("assistant", "2")],
        worse: vec![message("assistant", "12")],
        tools: None,
    };
    let both = encoder.encode_pair(&pair, 0.0).unwrap();
    let said = |text: &Encoded| {
        let ids: Vec<u32> = text.answers[0]
            .clone()
            .map(|at| text.ids[at] as u32)
            .collect();
        tokenizer.decode(&ids)
    };
    assert_eq!(said(&both.better), "2<|im_end|>");
    assert_eq!(said(&both.worse), "12<|im_end|>");
}
