//! Generation settings, imported and exported.

use super::{folder, read_json, told};
use formwork::generate::beam::{AtLimit, AverageConfig, DoneWhen, LengthPenalty};
use formwork::generate::{BeamConfig, ContinuationConfig, SamplingConfig};
use formwork::interop::generation::{self, GenerationSettings, TextKind};
use formwork::tokenizer::TextMarks;
use serde_json::{Value, json};

#[test]
fn generation_settings_go_both_ways() {
    let dir = folder(&[(
        "generation_config.json",
        br#"{"decoder_start_token_id": 2, "bos_token_id": 0, "eos_token_id": [2, 5], "pad_token_id": 1, "num_beams": 4,
            "length_penalty": 2.0, "max_length": 142, "min_length": 56, "no_repeat_ngram_size": 3, "early_stopping": true,
            "forced_bos_token_id": 0, "do_sample": true, "top_p": 0.9, "diversity_penalty": 0.0,
            "suppress_tokens": [3, 4]}"#,
    )]);
    let found = generation::read(dir.path(), TextKind::Pairs)
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.begin, found.end.as_slice(), found.pad),
        (Some(2), &[2, 5][..], Some(1))
    );
    let search = BeamConfig {
        beam: 4,
        length_penalty: LengthPenalty::Average(AverageConfig { alpha: 2.0 }),
        n_best: 1,
        max_len_a: 0.0,
        max_len_b: 140,
        min_len: 55,
        no_repeat_ngram_size: 3,
        at_limit: AtLimit::Any,
        done_when: DoneWhen::Full,
        first: Some(0),
        suppress: vec![3, 4],
        suppress_first: Vec::new(),
    };
    assert_eq!(found.search, search);
    assert_eq!(
        found.unsupported,
        [
            "do_sample = true",
            "top_p = 0.9",
            "eos_token_id: only the first of [2, 5] ends a text"
        ]
    );
    let dir = folder(&[]);
    let none = TextMarks::default();
    let write = |search, kept| {
        generation::write(dir.path(), GenerationSettings::Pairs(search), none, kept).unwrap()
    };
    let reread = || {
        generation::read(dir.path(), TextKind::Pairs)
            .unwrap()
            .unwrap()
    };
    assert!(write(&search, None).is_empty());
    assert_eq!(reread().search, search);
    // The settings of the imported folder are exported unchanged; with other search settings, the remaining ones are kept.
    assert!(write(&search, Some(&found)).is_empty());
    assert_eq!(reread().kept, found.kept);
    let narrow = BeamConfig {
        beam: 2,
        ..search.clone()
    };
    assert!(write(&narrow, Some(&found)).is_empty());
    assert_eq!(reread().search, narrow);
    assert_eq!(reread().kept["no_repeat_ngram_size"], 3);
    assert_eq!(write(&BeamConfig::default(), None).len(), 3);
    let dir = folder(&[(
        "generation_config.json",
        br#"{"do_sample": true, "top_p": 0.0, "top_k": 0}"#,
    )]);
    let found = generation::read(dir.path(), TextKind::Continuations)
        .unwrap()
        .unwrap();
    assert_eq!(
        (found.sampling.top_p, found.sampling.top_k),
        (None, Some(1))
    );
    let dir = folder(&[(
        "config.json",
        br#"{"model_type": "bart", "num_beams": 0.5, "eos_token_id": "x", "top_k": -1}"#,
    )]);
    let message = told(dir.path(), generation::read(dir.path(), TextKind::Pairs));
    for key in ["num_beams", "eos_token_id", "top_k"] {
        assert!(
            message.contains(&format!("config.json: `{key}` = ")),
            "{message}"
        );
    }
    let dir = folder(&[(
        "config.json",
        br#"{"model_type": "bert", "hidden_size": 4}"#,
    )]);
    assert!(
        generation::read(dir.path(), TextKind::Continuations)
            .unwrap()
            .is_none()
    );
}

#[test]
fn draws_from_the_share_of_the_likeliest_token_go_both_ways() {
    let read = |keys: Value| {
        let dir = folder(&[("generation_config.json", keys.to_string().as_bytes())]);
        let found = generation::read(dir.path(), TextKind::Continuations);
        (dir, found)
    };
    let sampling = SamplingConfig {
        tokens: Some(200),
        temperature: 0.9,
        min_p: Some(0.05),
        ..SamplingConfig::default()
    };
    let dir = folder(&[]);
    let writes = GenerationSettings::Continuations(&sampling, None);
    generation::write(dir.path(), writes, TextMarks::default(), None).unwrap();
    let written = read_json(&dir.path().join(generation::NAME));
    assert_eq!(written["min_p"], 0.05);
    let found = read(written).1.unwrap().unwrap();
    assert_eq!(found.sampling, sampling);
    assert!(found.unsupported.is_empty(), "{:?}", found.unsupported);
    for (drawn, min_p, unsupported) in [
        (true, 0.0, &[][..]),
        (false, 0.0, &[]),
        (false, 0.1, &["min_p = 0.1"]),
    ] {
        let found = read(json!({ "do_sample": drawn, "min_p": min_p })).1;
        let found = found.unwrap().unwrap();
        assert_eq!(found.sampling.min_p, None);
        assert_eq!(found.unsupported, unsupported);
    }
    let (dir, wrong) = read(json!({ "do_sample": true, "min_p": 1.5 }));
    let message = told(dir.path(), wrong);
    assert!(message.contains("`min_p` = 1.5 is not"), "{message}");
}

#[test]
fn tokens_that_are_never_written_are_those_of_the_vocabulary() {
    let dir = folder(&[(
        "generation_config.json",
        br#"{"suppress_tokens": [3, 9, 40], "begin_suppress_tokens": [2, 4], "forced_bos_token_id": 9}"#,
    )]);
    let mut found = generation::read(dir.path(), TextKind::Transcripts)
        .unwrap()
        .unwrap();
    found.require_vocabulary(10).unwrap();
    let search = &found.search;
    assert_eq!(
        (&search.suppress[..], &search.suppress_first[..]),
        (&[3, 9][..], &[2, 4][..])
    );
    assert_eq!(
        found.unsupported,
        ["suppress_tokens: [40] are not in the vocabulary of 10 tokens"]
    );
    let first = found.require_vocabulary(9);
    let message = told(dir.path(), first);
    assert!(
        message.contains("`forced_bos_token_id` = 9 is not in the vocabulary"),
        "{message}"
    );
}

#[test]
fn searches_for_continuations_go_both_ways() {
    let read = |keys: Value| {
        let dir = folder(&[("generation_config.json", keys.to_string().as_bytes())]);
        generation::read(dir.path(), TextKind::Continuations)
            .unwrap()
            .unwrap()
    };
    let keys = |drawn: bool| {
        json!({
            "num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5, "early_stopping": true, "max_new_tokens": 9,
            "do_sample": drawn,
        })
    };
    let found = read(keys(false));
    let searched = ContinuationConfig {
        beam: 3,
        n_best: 2,
        length_penalty: LengthPenalty::Average(AverageConfig { alpha: 0.5 }),
        done_when: DoneWhen::Full,
    };
    assert_eq!(found.beam_search, Some(searched.clone()));
    assert!(found.unsupported.is_empty(), "{:?}", found.unsupported);
    let drawn = read(keys(true));
    assert_eq!(drawn.beam_search, None);
    assert_eq!(drawn.unsupported.len(), 4, "{:?}", drawn.unsupported);
    assert_eq!(read(json!({ "num_beams": 1 })).beam_search, None);
    let dir = folder(&[]);
    let write = |beams| {
        let writes = GenerationSettings::Continuations(&found.sampling, beams);
        generation::write(dir.path(), writes, TextMarks::default(), Some(&found)).unwrap()
    };
    assert!(write(Some(&searched)).is_empty());
    assert_eq!(read_json(&dir.path().join(generation::NAME)), keys(false));
    let wide = ContinuationConfig {
        beam: 5,
        length_penalty: LengthPenalty::default(),
        ..searched
    };
    assert_eq!(write(Some(&wide)).len(), 1, "a penalty without a place");
    let written = read_json(&dir.path().join(generation::NAME));
    assert_eq!(
        (&written["num_beams"], &written["do_sample"]),
        (&json!(5), &json!(false))
    );
    assert_eq!(read(written).beam_search.map(|search| search.beam), Some(5));
    assert!(write(None).is_empty());
    assert_eq!(
        read_json(&dir.path().join(generation::NAME)).get("num_beams"),
        None
    );
}
