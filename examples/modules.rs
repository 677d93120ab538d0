//! Uses Formwork's modules in a separate program: trains decoders to reverse a row of digits, with Burn's optimizer and an
//! explicit training loop. Norm placement, positions and attention are the keys of an experiment's `[model]`.
//!
//! ```text
//! cargo run --release --example modules
//! ```

use std::error::Error;

use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::kernel;
use formwork::model::decoder::DecoderInput;
use formwork::model::{BuildContext, Decoder, DecoderConfig, LanguageModel};
use formwork::nn::pass::{Draws, Pass};
use formwork::rng::{Purpose, Stream};

/// Vocabulary size: ten digits, and the mark between a row and its reverse.
const VOCAB: usize = 11;
const MARK: i32 = 10;
const DIGITS: usize = 6;
/// Input length in tokens: digits, mark, reversed digits without the last, which is only a target.
const LENGTH: usize = 2 * DIGITS;
const ROWS: usize = 32;

const MODEL: &str = r#"
n_layers = 2
d_model = 32
dropout = 0.0
position = { kind = "rotary" }
attention = { kind = "multi_head", n_heads = 4, n_kv_heads = 2 }
feed_forward = { kind = "gated", activation = "silu" }
"#;

/// Returns token rows `[ROWS, LENGTH + 1]`, drawn from a separate random stream for each step.
fn texts(step: u64) -> Vec<i32> {
    let mut stream = Stream::new(7, Purpose::Synthetic, (step, 0, 0));
    let mut text = Vec::new();
    for _ in 0..ROWS {
        let digits: Vec<i32> = (0..DIGITS).map(|_| stream.below(10) as i32).collect();
        text.extend(&digits);
        text.push(MARK);
        text.extend(digits.iter().rev());
    }
    text
}

/// Returns the decoder's input tokens and their next-token targets, both `[ROWS, LENGTH]`.
fn inputs_and_targets(step: u64, device: &Device) -> [Tensor<2, Int>; 2] {
    let text = texts(step);
    let part = |first: usize| {
        let rows = text.chunks_exact(LENGTH + 1);
        let tokens: Vec<i32> = rows
            .flat_map(|row| row[first..first + LENGTH].to_vec())
            .collect();
        Tensor::from_data(TensorData::new(tokens, [ROWS, LENGTH]), device)
    };
    [part(0), part(1)]
}

/// Returns the logits of the digits after the mark `[ROWS·DIGITS, VOCAB]`, and their targets `[ROWS·DIGITS]`.
fn scored(model: &Decoder, step: u64, pass: &Pass) -> (Tensor<2>, Tensor<1, Int>) {
    let [ids, targets] = inputs_and_targets(step, &model.device());
    let hidden = model.forward(DecoderInput::new(ids), None, pass);
    let hidden = hidden.narrow(1, DIGITS, DIGITS);
    let logits = model.logits(hidden).reshape([ROWS * DIGITS, VOCAB]);
    (
        logits,
        targets.narrow(1, DIGITS, DIGITS).reshape([ROWS * DIGITS]),
    )
}

/// Returns the fraction of correct digits on rows that training does not use.
fn accuracy(model: &Decoder) -> f32 {
    let (logits, targets) = scored(model, u64::MAX, &Pass::evaluation());
    let right = logits.argmax(1).squeeze_dim::<1>(1).equal(targets);
    right.float().mean().into_scalar::<f32>()
}

/// Trains a decoder with the given norm placement for `steps` steps.
fn trained(placement: &str, steps: u64) -> Result<Decoder, Box<dyn Error>> {
    let model = format!("norm_placement = \"{placement}\"\n{MODEL}");
    let config: DecoderConfig = toml::from_str(&model)?;
    let mut model = config.init(&BuildContext {
        shape: &Shape::of_text(LENGTH, VOCAB),
        seed: 1,
        device: &Device::flex().autodiff(),
    });
    let mut optimizer = AdamWConfig::new().with_weight_decay(0.01).init();
    for step in 0..steps {
        let pass = Pass::training(Draws {
            seed: 1,
            step,
            first_row: 0,
        });
        let (logits, targets) = scored(&model, step, &pass);
        let loss = kernel::cross_entropy_sum(logits, targets, 0.0) / (ROWS * DIGITS) as f64;
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(3e-3, model, gradients);
    }
    Ok(model)
}

#[expect(clippy::print_stdout, reason = "a program of its own")]
fn main() -> Result<(), Box<dyn Error>> {
    for placement in ["pre", "post"] {
        let model = trained(placement, 300)?;
        println!(
            "{placement}: {} parameters, {:.1} % of digits right",
            model.num_params(),
            100.0 * accuracy(&model)
        );
    }
    Ok(())
}

#[test]
fn a_decoder_learns_to_turn_a_row_round() -> Result<(), Box<dyn Error>> {
    assert!(accuracy(&trained("pre", 300)?) > 0.9);
    Ok(())
}
