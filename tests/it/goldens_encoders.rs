//! Encoders with their heads against HF's (`tests/goldens/make_encoders.py`, `make_roformer.py` and `make_albert.py` make the
//! oracles): hidden states, pooled embeddings, logits, losses and every gradient of a tiny random BERT, RoBERTa, RoFormer and
//! ALBERT.

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::names;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Against, at_tokens, gradients_of, import, lengths};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::TrainStep;
use formwork::data::batch::{Content, TextBatch};
use formwork::data::masked::masking::Pairs;
use formwork::data::{Batch, Shape};
use formwork::interop::rename::Table;
use formwork::model::encoder::EncoderInput;
use formwork::model::{BuildContext, EncoderConfig, heads};
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use formwork::nn::norm::{LayerNormConfig, NormConfig};
use formwork::nn::pass::Pass;
use formwork::nn::position::PositionConfig;
use formwork::nn::position::learned::LearnedConfig;
use formwork::nn::position::rotary::{Pairing, RotaryConfig};
use formwork::nn::record::RecordSelection;
use formwork::stack::sharing::SharedBy;
use formwork::stack::{NormPlacement, ShareConfig, StackConfig};
use formwork::task::{MaskedLm, MaskedLmConfig, Objective};

/// The encoder of the BERT and RoBERTa oracles, and of the trajectory.
pub fn config(positions: LearnedConfig, segments: usize, eps: f64, pooler: bool) -> EncoderConfig {
    EncoderConfig {
        n_layers: Some(2),
        embedding_norm: true,
        segments,
        pooler,
        stack: StackConfig {
            d_model: 24,
            norm: NormConfig::Layer(LayerNormConfig {
                eps,
                ..LayerNormConfig::default()
            }),
            norm_placement: NormPlacement::Post,
            position: PositionConfig::Learned(positions),
            attention: AttentionConfig::MultiHead(MultiHeadConfig::default()),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(40),
                ..DenseConfig::default()
            }),
            ..StackConfig::default()
        },
        ..EncoderConfig::default()
    }
}

/// Builds an untrained task with a model of the oracles' sizes.
pub fn task(
    config: &EncoderConfig,
    pairs: Pairs,
    vocab: usize,
    device: &Device,
) -> Objective<MaskedLm> {
    let inputs = BuildContext {
        shape: &Shape::of_text(16, vocab),
        seed: 0,
        device,
    };
    let masked_lm = MaskedLmConfig {
        pairs,
        ..MaskedLmConfig::default()
    };
    Objective(MaskedLm::new(config, &masked_lm, &inputs))
}

pub fn texts(oracle: &Oracle) -> TextBatch {
    let has = |name: &str| oracle.names().iter().any(|known| known == name);
    let read = |name: &str| has(name).then(|| oracle.integers(name).1);
    let (shape, inputs) = oracle.integers("input_ids");
    TextBatch {
        inputs,
        targets: oracle.integers("labels").1,
        segments: read("token_type_ids"),
        labels: read("next_sentence_label"),
        classes: None,
        neighbours: None,
        numbers: None,
        asked: None,
        lengths: Some(lengths(oracle, "attention_mask")),
        cols: shape[1],
        documents: None,
        second: None,
        segment_lengths: [0; 2],
    }
}

/// Returns the hidden states of the oracle's texts.
fn hidden(task: &MaskedLm, texts: &TextBatch, pass: &Pass, device: &Device) -> Tensor<3> {
    let matrix = |ids: &Vec<i32>| -> Tensor<2, Int> {
        let shape = [ids.len() / texts.cols, texts.cols];
        Tensor::from_data(TensorData::new(ids.clone(), shape), device)
    };
    let input = EncoderInput {
        ids: matrix(&texts.inputs),
        segments: texts.segments.as_ref().map(matrix),
        lengths: texts.lengths.clone(),
        globals: None,
    };
    task.model.forward(input, pass)
}

/// Checks logits, losses and gradients through the task, as in training.
pub fn check(name: &str, config: &EncoderConfig, pairs: Pairs, table: &Table) {
    let device = Device::flex().autodiff();
    check_task(name, task(config, pairs, 47, &device), table);
}

/// The same for a given task, which gets the oracle's weights.
pub fn check_task(name: &str, task: Objective<MaskedLm>, table: &Table) {
    let oracle = Oracle::open(name);
    let texts = texts(&oracle);
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let task = import(task, table, &weights);
    let mut against = Against::new(name, &oracle, TOLERANCE);
    let rows = texts.lengths.clone().unwrap();
    let cols = texts.cols;

    let valid = task.valid();
    let plain = Device::flex();
    let keep = RecordSelection {
        hidden_states: true,
        ..RecordSelection::default()
    };
    let pass = Pass::evaluation().with_record(keep);
    let states = hidden(&valid, &texts, &pass, &plain);
    let ours = at_tokens(values(states.clone()), &rows, cols);
    against.check("last_hidden_state", &ours);
    for ((_, number), states) in pass.take_recorded().hidden_states {
        let name = format!("hidden_states.{number}");
        if oracle.names().contains(&name) {
            let ours = at_tokens(states.iter::<f32>().collect(), &rows, cols);
            against.check(&name, &ours);
        }
    }
    let places: Vec<i32> = (0..texts.inputs.len() as i32).collect();
    let scores = valid.scores_at(&texts, &places, &plain);
    against.check("logits", &at_tokens(values(scores), &rows, cols));
    if let Some(head) = &valid.pair_head {
        let pooled = valid.model.pooled(states, None);
        against.check("pooler_output", &values(pooled.clone()));
        let scores = heads::class_scores(head, pooled);
        against.check("seq_relationship_logits", &values(scores));
    }

    let batch: Batch = batches::of(Content::Text(texts), rows.len());
    let step = TrainStep::step(&task, batch.into());
    let loss = step.item.loss.mean() as f32;
    let of_pairs = ["nsp_loss", "sop_loss"];
    match of_pairs
        .iter()
        .find_map(|name| step.item.metrics.get(*name))
    {
        Some(pairs) => {
            against.check("loss_mlm", &[loss]);
            against.check("loss_nsp", &[pairs.mean() as f32]);
        }
        None => against.check("loss", &[loss]),
    }
    against.check_gradients(&gradients_of(&task, &step.grads), table);
}

fn positions(first: usize) -> LearnedConfig {
    LearnedConfig {
        max_len: Some(20),
        first,
    }
}

fn bert() -> EncoderConfig {
    config(positions(0), 2, 1e-12, true)
}

#[test]
fn bert_is_hf_s() {
    check("bert", &bert(), Pairs::NextSentence, &names::bert(2));
}

#[test]
fn roberta_is_hf_s() {
    let config = config(positions(2), 1, 1e-5, false);
    check("roberta", &config, Pairs::None, &names::roberta(2));
}

fn roformer(rotate_values: bool) -> EncoderConfig {
    let plain = config(positions(0), 2, 1e-12, false);
    EncoderConfig {
        d_embedding: Some(16),
        stack: StackConfig {
            position: PositionConfig::Rotary(RotaryConfig {
                pairing: Pairing::Interleaved,
                rotate_values,
                ..RotaryConfig::default()
            }),
            ..plain.stack
        },
        ..plain
    }
}

/// Embeddings are narrower than the blocks, and values are rotated with their keys.
#[test]
fn roformer_is_hf_s() {
    check(
        "roformer",
        &roformer(true),
        Pairs::None,
        &names::roformer(2),
    );
}

fn albert(layers: usize, groups: usize, cycle: usize) -> EncoderConfig {
    let plain = bert();
    EncoderConfig {
        n_layers: Some(layers),
        d_embedding: Some(16),
        head_activation: Activation::GeluTanh,
        stack: StackConfig {
            share_layers: ShareConfig::All(SharedBy { groups, cycle }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(40),
                activation: Activation::GeluTanh,
                bias: true,
                ..DenseConfig::default()
            }),
            ..plain.stack
        },
        ..plain
    }
}

/// Embeddings are narrower than the blocks; one block serves all layers, or two groups of two blocks alternate.
#[test]
fn albert_is_hf_s() {
    let table = names::albert(&[(0, [0, 0])]);
    check("albert", &albert(3, 1, 1), Pairs::SentenceOrder, &table);
    let table = names::albert(&[(0, [0, 0]), (1, [0, 1]), (4, [1, 0]), (5, [1, 1])]);
    let config = albert(8, 2, 2);
    check("albert_groups", &config, Pairs::SentenceOrder, &table);
}

/// Each golden would detect a change of any feature that sets its model apart: without it, logits move by more than twice the
/// tolerance.
#[test]
fn goldens_see_their_details() {
    let tanh = FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(40),
        activation: Activation::GeluTanh,
        bias: true,
        ..DenseConfig::default()
    });
    let changes = [
        ("bert", config(positions(0), 2, 1e-3, true)),
        ("bert", config(positions(1), 2, 1e-12, true)),
        (
            "bert",
            EncoderConfig {
                stack: StackConfig {
                    feed_forward: tanh,
                    ..bert().stack.clone()
                },
                ..bert()
            },
        ),
        ("roberta", config(positions(1), 1, 1e-5, false)),
        ("roformer", roformer(false)),
    ];
    let device = Device::flex().autodiff();
    for (number, (name, config)) in changes.into_iter().enumerate() {
        let oracle = Oracle::open(name);
        let weights = oracle.arrays(|name| name.strip_prefix("weight."));
        let (pairs, table) = match name {
            "bert" => (Pairs::NextSentence, names::bert(2)),
            "roformer" => (Pairs::None, names::roformer(2)),
            _ => (Pairs::None, names::roberta(2)),
        };
        let task = import(task(&config, pairs, 47, &device), &table, &weights);
        let texts = texts(&oracle);
        let places: Vec<i32> = (0..texts.inputs.len() as i32).collect();
        let scores = values(task.valid().scores_at(&texts, &places, &Device::flex()));
        let scores = at_tokens(scores, texts.lengths.as_ref().unwrap(), texts.cols);
        let off = difference(&scores, &oracle.array("logits").values);
        println!("{name}: change {number} moves scores by {off:.1e}");
        assert!(off > 2.0 * TOLERANCE, "{name}: change {number} is not seen");
    }
}
