//! Greedy and beam search with imported T5, mT5 and BART against Hugging Face's `generate`
//! (`tests/goldens/make_generated.py` makes the oracle): the tokens of all texts, and the scores of beams.

use super::hugging_face::Reader;
use crate::binary::shipped;
use crate::oracle::Oracle;
use crate::transfer::lengths;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::generate::beam::{
    AtLimit, AverageConfig, BeamConfig, DoneWhen, Hypothesis, LengthPenalty, SearchStart,
    TokenRules, search,
};
use formwork::interop::read_hf;
use formwork::model::{BuildContext, EncoderDecoder, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;

const VOCAB: usize = 37;
const LIMIT: usize = 10;

fn imported(folder: &str, device: &Device) -> EncoderDecoder {
    let folder = shipped("tests/fixtures/hf").join(folder);
    let model = read_hf(&folder, &[]).unwrap();
    let ModelConfig::EncoderDecoder(config) = &model.shape.model else {
        panic!("the folder holds no encoder-decoder");
    };
    let inputs = BuildContext {
        shape: &model.shape.shape,
        seed: 0,
        device,
    };
    let table = model.table().below("model.");
    model.load(config.init(&inputs), table).unwrap()
}

/// One set of settings: the names of its texts and scores in the golden file, and its config.
struct Way {
    texts: String,
    scores: Option<String>,
    config: BeamConfig,
}

impl Way {
    /// Settings that require the end token at the length limit.
    fn ended(beam: usize) -> Self {
        Self {
            texts: format!("ids.{beam}"),
            scores: (beam > 1).then(|| "scores".into()),
            config: BeamConfig {
                beam,
                n_best: beam,
                length_penalty: LengthPenalty::Average(AverageConfig { alpha: 1.0 }),
                ..BeamConfig::default()
            },
        }
    }

    /// Settings that end texts as transformers does, parsed from the name of a set.
    fn named(name: &str) -> Self {
        let parts: Vec<&str> = name.split('_').collect();
        let [beam, early, first, last, ngram] = parts[..] else {
            panic!("{name} is no set");
        };
        let beam = beam.parse().unwrap();
        Self {
            texts: name.into(),
            scores: (beam > 1).then(|| format!("scores.{name}")),
            config: BeamConfig {
                done_when: match early {
                    "full" => DoneWhen::Full,
                    "unlikely" => DoneWhen::Unlikely,
                    _ => DoneWhen::Settled,
                },
                at_limit: match last {
                    "1" => AtLimit::FreeEnd,
                    _ => AtLimit::Any,
                },
                first: first.parse().ok(),
                no_repeat_ngram_size: ngram.parse().unwrap(),
                ..Self::ended(beam).config
            },
        }
    }
}

fn check(folder: &str) {
    let oracle = Oracle::open("generated");
    let device = Device::flex();
    let model = imported(folder, &device);
    let of = |name: &str| format!("{folder}.{name}");
    let sets = oracle.names();
    let sets = sets
        .iter()
        .filter_map(|name| name.strip_prefix(folder)?.strip_prefix('.'));
    let named = sets.filter(|set| set.starts_with("1_") || set.starts_with("4_"));
    let ways: Vec<Way> = named
        .map(Way::named)
        .chain([1, 4].map(Way::ended))
        .collect();
    assert_eq!(ways.len(), 16);
    let marks: Vec<u32> = oracle
        .integers(&of("ids"))
        .1
        .iter()
        .map(|id| *id as u32)
        .collect();
    let (start, end, pad) = (marks[0], marks[1], marks[2]);
    let (shape, ids) = oracle.integers(&of("input_ids"));
    let rows = shape[0];
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, shape), &device);
    let source = lengths(&oracle, &of("attention_mask"));
    let source = model.encode(ids, Some(source), &Pass::evaluation());
    let mut constant = vec![0.0; VOCAB];
    constant[end as usize] = oracle.array(&of("bias")).values[0];
    let rules = TokenRules {
        ends: vec![end],
        banned: vec![pad],
    };
    for way in ways {
        let (beam, config) = (way.config.beam, way.config);
        let sentence = SearchStart {
            prompt: vec![start],
            max_len: LIMIT - 1,
        };
        let mut reader = Reader {
            model: &model,
            source: source.select(&(0..rows).collect::<Vec<_>>()),
            state: model.empty_state(StateUse::Decoding),
            constant: Tensor::from_data(TensorData::new(constant.clone(), [1, 1, VOCAB]), &device),
        };
        let found = search(&mut reader, &vec![sentence; rows], &rules, &config).unwrap();
        let texts = oracle.integers(&of(&way.texts)).1;
        let scores = way.scores.map(|name| oracle.array(&of(&name)).values);
        for (number, ours) in found.iter().flatten().enumerate() {
            let text = &texts[number * LIMIT..][..LIMIT];
            let text: Vec<u32> = text
                .iter()
                .filter(|t| **t >= 0)
                .map(|t| *t as u32)
                .collect();
            let set = &way.texts;
            assert_eq!(ended(ours, end), text, "{folder}, {set}, text {number}");
            if let Some(scores) = &scores {
                let off = (ours.score - f64::from(scores[number])).abs();
                assert!(off < 1e-5, "{folder}, {set}, text {number}: off by {off}");
            }
        }
        assert_eq!(found.iter().flatten().count(), rows * beam, "{folder}");
    }
}

/// Returns the tokens of a text with its end token; a text that was cut off has none.
fn ended(text: &Hypothesis, end: u32) -> Vec<u32> {
    let mark = (text.tokens.len() < LIMIT).then_some(end);
    text.tokens.iter().copied().chain(mark).collect()
}

#[test]
fn imported_t5_writes_hugging_face_s_texts() {
    for folder in ["t5_1", "t5_2", "mt5_1", "mt5_2"] {
        check(folder);
    }
}

#[test]
fn imported_bart_writes_hugging_face_s_texts() {
    for folder in ["bart_1", "bart_2"] {
        check(folder);
    }
}
