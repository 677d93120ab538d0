//! The encoder-decoder against torch's `nn.Transformer` and HF's Marian, BART and T5 (`tests/goldens/make_encoder_decoder.py`
//! makes the oracles): outputs of both stacks, logits, losses and every gradient, and the training loss of translation.

use crate::batches;
use crate::goldens::TOLERANCE;
use crate::names;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{Against, at_tokens, gradients_of, import, lengths};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::{InferenceStep, TrainStep};
use formwork::data::Shape;
use formwork::data::batch::{Content, PairBatch};
use formwork::interop::rename::Table;
use formwork::kernel;
use formwork::model::{BuildContext, EncoderDecoder, EncoderDecoderConfig};
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use formwork::nn::norm::{NormConfig, RmsNormConfig};
use formwork::nn::pass::Pass;
use formwork::nn::position::PositionConfig;
use formwork::nn::position::learned::LearnedConfig;
use formwork::nn::position::relative_bias::RelativeBiasConfig;
use formwork::nn::position::sinusoidal::{self, Layout, SinusoidalConfig};
use formwork::stack::NormPlacement;
use formwork::stack::StackConfig;
use formwork::task::{Objective, Translation, TranslationConfig};

const VOCAB: usize = 47;
const WIDTH: usize = 24;

/// The model of all oracles, and of the trajectory, with these variations.
pub fn config(
    placement: NormPlacement,
    activation: Activation,
    position: PositionConfig,
) -> EncoderDecoderConfig {
    EncoderDecoderConfig {
        n_encoder_layers: Some(2),
        n_decoder_layers: Some(2),
        stack: StackConfig {
            d_model: WIDTH,
            norm_placement: placement,
            position,
            attention: AttentionConfig::MultiHead(MultiHeadConfig::default()),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(40),
                activation,
                bias: true,
                ..DenseConfig::default()
            }),
            ..StackConfig::default()
        },
        ..EncoderDecoderConfig::default()
    }
}

/// Torch's `nn.Transformer`, whose stacks end in a norm at every norm placement.
pub fn torch(placement: NormPlacement) -> EncoderDecoderConfig {
    let position = PositionConfig::Sinusoidal(SinusoidalConfig::default());
    let mut config = config(placement, Activation::Relu, position);
    config.embedding_scale = true;
    config.stack.final_norm = Some(true);
    config
}

/// Builds an untrained model.
pub fn model(config: &EncoderDecoderConfig, vocab: usize, device: &Device) -> EncoderDecoder {
    config.init(&BuildContext {
        shape: &Shape::of_text(20, vocab),
        seed: 0,
        device,
    })
}

fn matrix(ids: &[i32], cols: usize, device: &Device) -> Tensor<2, Int> {
    let shape = [ids.len() / cols, cols];
    Tensor::from_data(TensorData::new(ids.to_vec(), shape), device)
}

fn pairs(oracle: &Oracle) -> PairBatch {
    let (source, target) = (
        oracle.integers("input_ids"),
        oracle.integers("decoder_input_ids"),
    );
    PairBatch {
        source: source.1,
        source_lengths: lengths(oracle, "attention_mask"),
        source_cols: source.0[1],
        inputs: target.1,
        targets: oracle.integers("labels").1,
        target_lengths: lengths(oracle, "decoder_attention_mask"),
        target_cols: target.0[1],
    }
}

/// The variations of an oracle's loss.
struct Loss {
    smoothing: f64,
    /// Whether the loss is the sum over the targets instead of their mean.
    sum: bool,
    /// Whether a constant is added to the logits.
    bias: bool,
}

/// Returns the encoder's output, the decoder's output, and the logits with `constant` added.
fn run(
    model: &EncoderDecoder,
    pairs: &PairBatch,
    constant: Option<Vec<f32>>,
) -> (Tensor<3>, Tensor<3>, Tensor<3>) {
    let pass = Pass::evaluation();
    let device = model.embedding.device();
    let source = matrix(&pairs.source, pairs.source_cols, &device);
    let source = model.encode(source, Some(pairs.source_lengths.clone()), &pass);
    let inputs = matrix(&pairs.inputs, pairs.target_cols, &device);
    let hidden = model.decode(inputs, &source, None, &pass);
    let mut logits = model.logits(hidden.clone());
    if let Some(constant) = constant {
        let constant = TensorData::new(constant, [1, 1, VOCAB]);
        logits = logits + Tensor::<3>::from_data(constant, &device);
    }
    (source.states, hidden, logits)
}

fn check(name: &str, config: &EncoderDecoderConfig, table: &Table, loss: &Loss) {
    let oracle = Oracle::open(name);
    let pairs = pairs(&oracle);
    let device = Device::flex().autodiff();
    let mut weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let constant = weights.remove("final_logits_bias").map(|x| x.values);
    assert_eq!(constant.is_some(), loss.bias);
    let model = import(model(config, VOCAB, &device), table, &weights);
    let mut against = Against::new(name, &oracle, TOLERANCE);

    let (states, hidden, logits) = run(&model, &pairs, constant);
    let states = at_tokens(values(states), &pairs.source_lengths, pairs.source_cols);
    against.check("encoder_last_hidden_state", &states);
    let zeroed = |x| at_tokens(values(x), &pairs.target_lengths, pairs.target_cols);
    against.check("decoder_last_hidden_state", &zeroed(hidden));
    against.check("logits", &zeroed(logits.clone()));

    let scored = pairs.target_lengths.iter().sum::<usize>() as f64;
    let flat = logits.reshape([pairs.targets.len(), VOCAB]);
    let targets = TensorData::new(pairs.targets.clone(), [pairs.targets.len()]);
    let targets = Tensor::<1, Int>::from_data(targets, &device);
    let sum = kernel::cross_entropy_sum(flat, targets, loss.smoothing);
    let sum = if loss.sum { sum } else { sum / scored };
    against.check("loss", &values(sum.clone()));
    let gradients = GradientsParams::from_grads(sum.backward(), &model);
    against.check_gradients(&gradients_of(&model, &gradients), table);
    if loss.sum {
        translated(&oracle, model, pairs, loss.smoothing);
    }
}

/// Checks that the loss of the translation task is the oracle's.
fn translated(oracle: &Oracle, model: EncoderDecoder, pairs: PairBatch, smoothing: f64) {
    let config = TranslationConfig {
        label_smoothing: smoothing,
        ..TranslationConfig::default()
    };
    let task = Objective(Translation::new(model, &config, 0));
    let rows = pairs.target_lengths.len();
    let batch = batches::of(Content::Pairs(pairs), rows);
    let output = TrainStep::step(&task, batch.clone().into()).item;
    let expected = oracle.array("loss_mean").values;
    assert!(difference(&[output.loss.mean() as f32], &expected) < 1e-6);
    assert_eq!(output.items, 11 + 8 + 5 + 6 + 9 + 4);
    // Evaluations use no label smoothing.
    let plain = InferenceStep::step(&task, batch.into()).loss.mean();
    assert!((plain - output.loss.mean()).abs() > 5e-4);
}

const SMOOTHED: Loss = Loss {
    smoothing: 0.1,
    sum: true,
    bias: false,
};
const PLAIN: Loss = Loss {
    smoothing: 0.0,
    sum: false,
    bias: false,
};
const WITH_A_CONSTANT: Loss = Loss {
    smoothing: 0.0,
    sum: false,
    bias: true,
};

#[test]
fn post_norm_is_torch_s() {
    let table = names::transformer("", 2, 4, WIDTH);
    let config = torch(NormPlacement::Post);
    check("transformer_post", &config, &table, &SMOOTHED);
}

#[test]
fn pre_norm_is_torch_s() {
    let table = names::transformer("", 2, 4, WIDTH);
    let config = torch(NormPlacement::Pre);
    check("transformer_pre", &config, &table, &SMOOTHED);
}

pub fn marian() -> EncoderDecoderConfig {
    let position = PositionConfig::Sinusoidal(SinusoidalConfig {
        layout: Layout::Halves,
        ..SinusoidalConfig::default()
    });
    EncoderDecoderConfig {
        embedding_scale: true,
        ..config(NormPlacement::Post, Activation::Silu, position)
    }
}

#[test]
fn marian_is_hf_s() {
    let table = names::marian_or_bart(2);
    check("marian", &marian(), &table, &WITH_A_CONSTANT);
}

pub fn bart(activation: Activation) -> EncoderDecoderConfig {
    let position = PositionConfig::Learned(LearnedConfig {
        max_len: Some(22),
        first: 2,
    });
    EncoderDecoderConfig {
        embedding_norm: true,
        ..config(NormPlacement::Post, activation, position)
    }
}

#[test]
fn bart_is_hf_s() {
    let config = bart(Activation::Gelu);
    check("bart", &config, &names::marian_or_bart(2), &WITH_A_CONSTANT);
}

/// HF's T5, version 1.0.
pub fn t5(buckets: usize, max_distance: usize, scale: Option<f64>) -> EncoderDecoderConfig {
    let position = PositionConfig::RelativeBias(RelativeBiasConfig {
        buckets,
        max_distance,
    });
    let mut config = config(NormPlacement::Pre, Activation::Relu, position);
    config.head_scale = true;
    config.stack.norm = NormConfig::Rms(RmsNormConfig {
        eps: 1e-6,
        ..RmsNormConfig::default()
    });
    config.stack.attention = AttentionConfig::MultiHead(MultiHeadConfig {
        bias: false,
        scale,
        ..MultiHeadConfig::default()
    });
    config.stack.feed_forward = FeedForwardConfig::Dense(DenseConfig {
        d_ff: Some(40),
        activation: Activation::Relu,
        bias: false,
        ..DenseConfig::default()
    });
    config
}

#[test]
fn t5_is_hf_s() {
    check("t5", &t5(8, 16, Some(1.0)), &names::t5(2), &PLAIN);
}

/// Each golden would detect a change of any feature that sets its model apart: without it, logits move by more than twice the
/// tolerance.
#[test]
fn goldens_see_their_details() {
    let interleaved = PositionConfig::Sinusoidal(SinusoidalConfig::default());
    let changes = [
        (
            "marian",
            EncoderDecoderConfig {
                stack: StackConfig {
                    position: interleaved,
                    ..marian().stack.clone()
                },
                ..marian()
            },
        ),
        (
            "marian",
            EncoderDecoderConfig {
                embedding_scale: false,
                ..marian()
            },
        ),
        ("bart", bart(Activation::GeluTanh)),
        (
            "bart",
            EncoderDecoderConfig {
                embedding_scale: true,
                ..bart(Activation::Gelu)
            },
        ),
        ("t5", t5(8, 16, None)),
        ("t5", t5(8, 12, Some(1.0))),
        (
            "t5",
            EncoderDecoderConfig {
                head_scale: false,
                ..t5(8, 16, Some(1.0))
            },
        ),
    ];
    let device = Device::flex().autodiff();
    for (number, (name, config)) in changes.into_iter().enumerate() {
        let oracle = Oracle::open(name);
        let table = match name {
            "t5" => names::t5(2),
            _ => names::marian_or_bart(2),
        };
        let mut weights = oracle.arrays(|name| name.strip_prefix("weight."));
        let constant = weights.remove("final_logits_bias").map(|x| x.values);
        let model = import(model(&config, VOCAB, &device), &table, &weights);
        let (_, _, logits) = run(&model, &pairs(&oracle), constant);
        let lengths = lengths(&oracle, "decoder_attention_mask");
        let ours = at_tokens(values(logits), &lengths, 9);
        let off = difference(&ours, &oracle.array("logits").values);
        println!("{name}: change {number} moves logits by {off:.1e}");
        assert!(off > 2.0 * TOLERANCE, "{name}: change {number} is not seen");
    }
}

#[test]
fn sinusoids_lie_as_in_torch_s_and_marian_s_tables() {
    for (name, layout) in [
        ("transformer_post", Layout::Interleaved),
        ("marian", Layout::Halves),
    ] {
        let theirs = Oracle::open(name).array("positions").values;
        let ours = sinusoidal::table(0, 20, WIDTH, 10_000.0, layout);
        assert!(difference(&ours, &theirs) < 1e-6, "{name}");
    }
    let odd = sinusoidal::table(1, 1, 5, 10_000.0, Layout::Halves);
    let in_turn = sinusoidal::table(1, 1, 5, 10_000.0, Layout::Interleaved);
    assert_eq!(odd, [0, 2, 4, 1, 3].map(|i: usize| in_turn[i]));
}
