//! Runs of text regression, tagging and question answering: padded rows, and label positions that do not exist.

use super::tasks::{ALL, ROWS, SOURCE, SOURCES, VOCAB, ids, near, own_loss, pairs, run};
use super::{Arrays, Given, arguments, inferred, write_inputs};
use crate::binary::failure;
use formwork::data::batch::{Content, ContextWindow, QuestionAnswer, TextBatch};
use formwork::data::{NOT_SCORED, Shape};
use std::sync::Arc;

const MODEL: &str = "kind = \"encoder\"\nn_layers = 1\nd_model = 8\nsegments = 0\npooler = true\n\
                     attention = { kind = \"multi_head\", n_heads = 2 }";

fn shape() -> Shape {
    Shape {
        classes: vec!["a".into(), "b".into(), "c".into()],
        ..Shape::of_text(SOURCE, VOCAB as usize)
    }
}

/// Returns the outputs with these labels, and checks that the loss equals that of an evaluation of the same rows.
fn like_own(data: &str, task: &str, labels: &[(&str, Given)], own: TextBatch) -> Arrays {
    let run = run(MODEL, data, task, &shape());
    let mut inputs = pairs();
    inputs.retain(|name, _| ["input_ids", "attention_mask"].contains(&&name[..]));
    for (name, given) in labels {
        inputs.insert((*name).into(), given.clone());
    }
    let found = inferred(&run.folder, &inputs, &ALL);
    let texts = TextBatch {
        inputs: ids(SOURCE, 1),
        lengths: Some(SOURCES.to_vec()),
        cols: SOURCE,
        ..own
    };
    near(
        f64::from(found["loss"].values[0]),
        own_loss(&run, Content::Text(texts)),
    );
    assert!(found.keys().any(|name| name.starts_with("grad.head")));
    found
}

#[test]
fn numbers_of_texts() {
    let numbers = vec![0.5, -2.0, 7.25];
    let labels = [("labels", Given::f32(&[ROWS], &numbers))];
    let own = TextBatch {
        numbers: Some(numbers.clone()),
        ..TextBatch::default()
    };
    let data =
        "kind = \"labelled_text\"\npath = \"x.tsv\"\nscore = 2\n[tokenizer]\nkind = \"char\"";
    let found = like_own(data, "kind = \"regression\"", &labels, own);
    assert_eq!(found["logits"].shape, [ROWS, 1]);
    assert!(found.contains_key("pooler_output"));
}

#[test]
fn tags_of_tokens() {
    let tag = |at: usize| match at % SOURCE < SOURCES[at / SOURCE] && !at.is_multiple_of(3) {
        true => (at % 3) as i32,
        false => NOT_SCORED,
    };
    let tags: Vec<i32> = (0..ROWS * SOURCE).map(tag).collect();
    let labels = [("labels", Given::i64(&[ROWS, SOURCE], &tags))];
    let own = TextBatch {
        targets: tags.clone(),
        ..TextBatch::default()
    };
    let data = "kind = \"tagged_text\"\npath = \"x.conll\"\n[tokenizer]\nkind = \"char\"";
    let found = like_own(data, "kind = \"token_classification\"", &labels, own);
    assert_eq!(found["logits"].shape, [ROWS, SOURCE, 3]);
    assert!(!found.contains_key("pooler_output"));
}

const QUESTIONS: &str = "kind = \"questions\"\npath = \"x.json\"\ncontext = 16\noverlap = 2\n[tokenizer]\nkind = \"char\"";

#[test]
fn answers_to_questions() {
    let answers = [[1, 2], [0, 0], [2, 3]];
    let side = |side: usize| Given::i64(&[ROWS], &answers.map(|answer| answer[side]));
    let labels = [("start_positions", side(0)), ("end_positions", side(1))];
    let window = Arc::new(ContextWindow {
        question: 0,
        id: "0".into(),
        context: "ab".into(),
        byte_ranges: vec![[0, 1], [1, 2]],
        first: 1,
        no_answer_position: 0,
        accepted_answers: [].into(),
        may_have_no_answer: true,
    });
    let asked = answers.map(|answer| QuestionAnswer {
        answer,
        window: window.clone(),
    });
    let own = TextBatch {
        asked: Some(asked.to_vec()),
        ..TextBatch::default()
    };
    let found = like_own(QUESTIONS, "kind = \"question_answering\"", &labels, own);
    assert_eq!(found["start_logits"].shape, [ROWS, SOURCE]);
    assert_eq!(found["end_logits"].shape, [ROWS, SOURCE]);
}

#[test]
fn positions_that_are_none_are_refused() {
    let run = run(MODEL, QUESTIONS, "kind = \"question_answering\"", &shape());
    let refused = |given: &[(&str, [i32; ROWS])], says: &str| {
        let folder = tempfile::tempdir().unwrap();
        let mut inputs = pairs();
        inputs.retain(|name, _| ["input_ids", "attention_mask"].contains(&&name[..]));
        for (name, values) in given {
            inputs.insert((*name).into(), Given::i64(&[ROWS], values));
        }
        let at = |name: &str| folder.path().join(name);
        write_inputs(&at("in"), &inputs);
        let (status, said) = failure(&arguments(&run.folder, &at("in"), &at("out")));
        assert!(status == 2 && said.contains(says), "{status}: {said}");
    };
    let alone = "`end_positions` is missing; it is required with `start_positions`";
    refused(&[("start_positions", [1, 1, 1])], alone);
    // The second row has three tokens.
    let both = |at| {
        [
            ("start_positions", [1, 0, 1]),
            ("end_positions", [2, at, 2]),
        ]
    };
    refused(
        &both(3),
        "`end_positions`[1] is 3, but the row has 3 tokens",
    );
    refused(&both(SOURCE as i32), "positions are from 0 to");
}
