//! One step and fifty steps against Hugging Face's `ElectraForPreTraining` and `ElectraForMaskedLM`, with the samples that
//! Formwork drew (`tests/goldens/make_replaced_token.py` is the oracle).

use super::keys::cost;
use crate::batches;
use crate::goldens::TOLERANCE;
use crate::names;
use crate::oracle::{Oracle, values};
use crate::trajectory::{Recipe, Steps, compare_ends, follow, uneven};
use crate::transfer::{Against, at_tokens, gradients_of, import, lengths, values_of};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::TrainStep;
use formwork::data::Shape;
use formwork::data::batch::{Content, TextBatch};
use formwork::model::encoder::EncoderInput;
use formwork::model::{BuildContext, ModelConfig};
use formwork::nn::pass::Pass;
use formwork::task::replaced_token::sampling::{ReplacedTexts, draws, sample_tokens};
use formwork::task::{Objective, ReplacedToken, TaskConfig};
use serde_json::json;

const WEIGHT: f64 = 50.0;

fn model(d_embedding: usize, max_len: usize) -> ModelConfig {
    let mut config = json!({
        "kind": "encoder", "n_layers": 2, "d_model": 24, "norm_placement": "post",
        "norm": { "kind": "layer", "eps": 1e-12 }, "embedding_norm": true,
        "position": { "kind": "learned", "max_len": max_len },
        "attention": { "kind": "multi_head", "n_heads": 4 },
        "feed_forward": { "kind": "dense", "activation": "gelu", "d_ff": 40 },
    });
    if d_embedding != 24 {
        config["d_embedding"] = d_embedding.into();
    }
    serde_json::from_value(config).unwrap()
}

fn config() -> TaskConfig {
    let keys = json!({ "kind": "replaced_token", "generator": { "size": 0.5 } });
    serde_json::from_value(keys).unwrap()
}

/// Builds an untrained pair of networks of the oracles' sizes.
fn task(model: &ModelConfig, vocab: usize) -> Objective<ReplacedToken> {
    let device = Device::flex().autodiff();
    let inputs = BuildContext {
        shape: &Shape::of_text(16, vocab),
        seed: 0,
        device: &device,
    };
    let (ModelConfig::Encoder(model), TaskConfig::ReplacedToken(config)) = (model, config()) else {
        unreachable!("an encoder is wanted")
    };
    Objective(ReplacedToken::new(model, &config, &inputs))
}

fn one_step(name: &str, d_embedding: usize) {
    let oracle = Oracle::open(name);
    let (shape, inputs) = oracle.integers("input_ids");
    let (rows, cols) = (lengths(&oracle, "attention_mask"), shape[1]);
    let texts = TextBatch {
        inputs,
        targets: oracle.integers("labels").1,
        segments: Some(oracle.integers("token_type_ids").1),
        lengths: Some(rows.clone()),
        cols,
        ..TextBatch::default()
    };
    let table = names::replaced_token(2);
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let model = model(d_embedding, 20);
    let task = import(task(&model, 47), &table, &weights);
    let mut against = Against::new(name, &oracle, TOLERANCE);

    // The discriminator, on the oracle's own replacements.
    let device = Device::flex();
    let matrix = |values: &[i32]| -> Tensor<2, Int> {
        let data = TensorData::new(values.to_vec(), [values.len() / cols, cols]);
        Tensor::from_data(data, &device)
    };
    let (_, replaced) = oracle.integers("replaced_ids");
    let input = |ids: &[i32]| EncoderInput {
        ids: matrix(ids),
        segments: texts.segments.as_deref().map(matrix),
        lengths: texts.lengths.clone(),
        globals: None,
    };
    let valid = task.valid();
    let pass = Pass::evaluation();
    let logits = values(valid.scores(input(&replaced), &pass));
    against.check("logits", &at_tokens(logits, &rows, cols));

    // The samples, drawn at step 0 with seed 0.
    let scored: Vec<i32> = (0..texts.targets.len() as i32)
        .filter(|i| texts.targets[*i as usize] >= 0)
        .collect();
    let training = Pass::training(formwork::nn::pass::Draws::default());
    let guesses = valid
        .generator_logits(input(&texts.inputs), &scored, &pass)
        .unwrap();
    let ours = ReplacedTexts::new(
        &texts,
        &sample_tokens(guesses, 1.0, &draws(&texts, &training)),
    );
    assert_eq!(ours.inputs, replaced);
    assert_eq!(ours.replaced, oracle.integers("replaced").1);

    let tokens: usize = rows.iter().sum();
    let step = TrainStep::step(&task, batches::of(Content::Text(texts), rows.len()).into());
    let mean = |name: &str| step.item.metrics[name].mean() as f32;
    against.check("loss_mlm", &[mean("mlm_loss")]);
    against.check("loss_rtd", &[mean("rtd_loss")]);
    against.check("loss", &[step.item.loss.mean() as f32]);
    assert_eq!(step.item.metrics["rtd_accuracy"].weight, tokens as f64);
    against.check_gradients(&gradients_of(&task, &step.grads), &table);

    // To the last FLOP, with the generator's LM head on a share of the positions.
    let flops = oracle.doubles("flops");
    let planned = cost(&config(), &model, &Shape::of_text(16, 47)).flops_per_item;
    let wanted = 3.0 * (flops[0] + flops[1] + 0.15 * 16.0 * flops[2]) / 16.0;
    assert!((planned / wanted - 1.0).abs() < 1e-12, "{planned} {wanted}");
}

#[test]
fn one_step_is_hf_s() {
    one_step("replaced_token", 16);
}

#[test]
fn one_step_with_vectors_as_wide_as_the_discriminator_is_hf_s() {
    one_step("replaced_token_wide", 24);
}

#[test]
fn fifty_steps_are_pytorch_s() {
    let oracle = Oracle::open("trajectory_replaced_token");
    let table = names::replaced_token(2);
    let start = oracle.arrays(|name| name.strip_prefix("start."));
    let task = import(task(&model(16, 16), 16), &table, &start);
    let read = |name: &str| Steps::of(&oracle, name);
    let (inputs, mask) = (read("input_ids"), read("attention_mask"));
    let (segments, targets) = (read("token_type_ids"), read("labels"));
    let (rows, cols) = (inputs.shape[2], inputs.shape[3]);
    let batch = |step: usize, micro: usize| {
        let mask = mask.micro(step, micro);
        let lengths = mask
            .chunks(cols)
            .map(|row| row.iter().sum::<i32>() as usize);
        let texts = TextBatch {
            inputs: inputs.micro(step, micro),
            targets: targets.micro(step, micro),
            segments: Some(segments.micro(step, micro)),
            lengths: Some(lengths.collect()),
            cols,
            ..TextBatch::default()
        };
        batches::of(Content::Text(texts), rows)
    };
    let recipe = Recipe::usual([0.9, 0.98]);
    let batches = |step| uneven(step, batch);
    let task = follow(
        task,
        &oracle,
        &recipe,
        batches,
        &[
            ("replaced", |output| output.metrics["replaced"].sum),
            ("losses_mlm", |output| output.metrics["mlm_loss"].mean()),
            ("losses_rtd", |output| output.metrics["rtd_loss"].mean()),
            ("losses", |output| {
                let terms =
                    output.metrics["mlm_loss"].mean() + WEIGHT * output.metrics["rtd_loss"].mean();
                assert!((output.loss.mean() / terms - 1.0).abs() < 1e-5);
                terms
            }),
        ],
    );
    compare_ends(&oracle, &table.export(&values_of(&task)), 1e-3);
}
