//! Greedy and beam search with imported T5, mT5 and BART against Hugging Face's `generate`
//! (`tests/goldens/make_generated.py` makes the oracle): the tokens of all texts, and the scores of beams.

use super::hugging_face::Reader;
use crate::binary::shipped;
use crate::oracle::Oracle;
use crate::transfer::lengths;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::generate::beam::{AverageConfig, BeamConfig, LengthPenalty, Rules, Sentence, search};
use formwork::interop::read_hf;
use formwork::model::{EncoderDecoder, ModelConfig, ModelInputs};
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
    let inputs = ModelInputs {
        shape: &model.shape.shape,
        seed: 0,
        device,
    };
    let table = model.table().below("model.");
    model.load(config.init(&inputs), table).unwrap()
}

fn check(folder: &str) {
    let oracle = Oracle::open("generated");
    let device = Device::flex();
    let model = imported(folder, &device);
    let of = |name: &str| format!("{folder}.{name}");
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
    let rules = Rules {
        end,
        banned: vec![pad],
    };
    for beam in [1, 4] {
        let config = BeamConfig {
            beam,
            n_best: beam,
            length_penalty: LengthPenalty::Average(AverageConfig { alpha: 1.0 }),
            ..BeamConfig::default()
        };
        let sentence = Sentence {
            first: start,
            max_len: LIMIT - 1,
        };
        let mut reader = Reader {
            model: &model,
            source: source.select(&(0..rows).collect::<Vec<_>>()),
            state: model.empty_state(StateUse::Decoding),
            constant: Tensor::from_data(TensorData::new(constant.clone(), [1, 1, VOCAB]), &device),
        };
        let found = search(&mut reader, &vec![sentence; rows], &rules, &config).unwrap();
        let texts = oracle.integers(&of(&format!("ids.{beam}"))).1;
        let scores = (beam > 1).then(|| oracle.array(&of("scores")).values);
        for (number, ours) in found.iter().flatten().enumerate() {
            let text = &texts[number * LIMIT..][..LIMIT];
            let text: Vec<u32> = text
                .iter()
                .filter(|t| **t >= 0)
                .map(|t| *t as u32)
                .collect();
            let written = [ours.tokens.as_slice(), &[end]].concat();
            assert_eq!(written, text, "{folder}, beam {beam}, text {number}");
            if let Some(scores) = &scores {
                let off = (ours.score - f64::from(scores[number])).abs();
                assert!(off < 1e-5, "{folder}, text {number}: off by {off}");
            }
        }
        assert_eq!(found.iter().flatten().count(), rows * beam, "{folder}");
    }
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
