//! Beam search against Hugging Face's (`tests/goldens/make_beam.py` makes the oracle): all hypotheses for 128 sources, at five
//! beam widths and three length penalties, and under a limit that cuts most texts.

use crate::goldens_encoder_decoder::{marian, model};
use crate::names;
use crate::oracle::Oracle;
use crate::transfer::{import, lengths};
use burn::tensor::{Device, Int, Tensor, TensorData, activation};
use formwork::error::Result;
use formwork::generate::beam::{
    AverageConfig, BeamConfig, LengthPenalty, NextScores, SearchStart, TokenRules, search,
};
use formwork::model::EncoderDecoder;
use formwork::model::encoder_decoder::Source;
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::stack::ModelState;

const VOCAB: usize = 47;
const PAD: u32 = 46;
const END: u32 = 0;

/// A model with the sources that it reads, and a constant that is added to its scores.
pub struct Reader<'a> {
    pub model: &'a EncoderDecoder,
    pub source: Source,
    pub state: ModelState,
    pub constant: Tensor<3>,
}

impl NextScores for Reader<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let ids: Vec<i32> = tokens.iter().map(|t| *t as i32).collect();
        let ids = TensorData::new(ids, [tokens.len(), 1]);
        let ids = Tensor::<2, Int>::from_data(ids, &self.constant.device());
        let pass = Pass::evaluation();
        let hidden = self
            .model
            .decode(ids, &self.source, Some(&mut self.state), &pass);
        let logits = self.model.logits(hidden) + self.constant.clone();
        Ok(activation::log_softmax(logits, 2)
            .into_data()
            .iter::<f32>()
            .collect())
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.source = self.source.select(rows);
        let numbers: Vec<i32> = rows.iter().map(|row| *row as i32).collect();
        let numbers = TensorData::new(numbers, [rows.len()]);
        self.state
            .select(&Tensor::from_data(numbers, &self.constant.device()));
        Ok(())
    }
}

/// Returns the settings of a set by its name: beam width, length penalty, maximum tokens including the end token.
fn settings(name: &str) -> (usize, f64, usize) {
    let mut parts = name.split('_');
    let mut part = || parts.next().unwrap();
    (
        part().parse().unwrap(),
        part().parse().unwrap(),
        part().parse().unwrap(),
    )
}

#[test]
fn the_texts_and_scores_of_every_beam_are_hugging_face_s() {
    let (weights, oracle) = (Oracle::open("marian"), Oracle::open("beam"));
    // Imported weights need an autodiff device, as weights that are trained do.
    let device = Device::flex().autodiff();
    let mut arrays = weights.arrays(|name| name.strip_prefix("weight."));
    arrays.remove("final_logits_bias");
    let marian = import(
        model(&marian(), VOCAB, &device),
        &names::marian_or_bart(2),
        &arrays,
    );
    let constant = oracle.array("final_logits_bias").values;
    let (shape, ids) = oracle.integers("input_ids");
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, shape.clone()), &device);
    let source = marian.encode(
        ids,
        Some(lengths(&oracle, "attention_mask")),
        &Pass::evaluation(),
    );
    let rules = TokenRules {
        ends: vec![END],
        banned: vec![PAD],
    };
    let mut compared = 0;
    for name in oracle.names() {
        let Some(set) = name.strip_prefix("ids.") else {
            continue;
        };
        let (beam, alpha, limit) = settings(set);
        let config = BeamConfig {
            beam,
            n_best: beam,
            length_penalty: LengthPenalty::Average(AverageConfig { alpha }),
            min_len: 3,
            ..BeamConfig::default()
        };
        let sentence = SearchStart {
            prompt: vec![PAD],
            max_len: limit - 1,
        };
        let mut reader = Reader {
            model: &marian,
            source: source.select(&(0..shape[0]).collect::<Vec<_>>()),
            state: marian.empty_state(StateUse::Decoding),
            constant: Tensor::from_data(TensorData::new(constant.clone(), [1, 1, VOCAB]), &device),
        };
        let sentences = vec![sentence; shape[0]];
        let found = search(&mut reader, &sentences, &rules, &config).unwrap();
        let texts = oracle.integers(&name).1;
        let scores = oracle.array(&format!("scores.{set}")).values;
        let theirs = texts.chunks(limit).zip(scores);
        let ours = found.iter().flat_map(|of_source| {
            assert_eq!(of_source.len(), beam, "{set}");
            of_source
        });
        for (number, (ours, (text, score))) in ours.zip(theirs).enumerate() {
            let text: Vec<u32> = text
                .iter()
                .filter(|t| **t >= 0)
                .map(|t| *t as u32)
                .collect();
            let written = [ours.tokens.as_slice(), &[END]].concat();
            let source = number / beam;
            assert_eq!(written, text, "{set}, source {source}");
            let score = f64::from(score);
            assert!(
                (ours.score - score).abs() < 1e-5,
                "{set}, source {source}: {} and {score}",
                ours.score
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 128 * (3 * (2 + 3 + 4 + 5 + 8) + 2 * (2 + 4)));
}
