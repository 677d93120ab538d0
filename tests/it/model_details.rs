//! Details in which a model must match the published one: segments and poolers of encoders, distances within a prefix, learning
//! rates of two stacks, DeepNorm's initial weights.

use crate::batches;
use crate::binary::output;
use crate::oracle::values;
use crate::transfer::gradients_of;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::Shape;
use formwork::data::batch::{Content, PairBatch};
use formwork::model::encoder::EncoderInput;
use formwork::model::preset::parse_preset;
use formwork::model::{BuildContext, DecoderConfig, EncoderConfig, ModelConfig};
use formwork::nn::attention::Attention;
use formwork::nn::feed_forward::FeedForward;
use formwork::nn::init::{Gpt2InitConfig, InitConfig};
use formwork::nn::linear::Linear;
use formwork::nn::pass::Pass;
use formwork::nn::position::PositionConfig;
use formwork::nn::position::relative_bias::RelativeBiasConfig;
use formwork::stack::{NormPlacement, StackConfig};
use formwork::task::{Objective, PrefixLm, TranslationConfig};
use formwork::train::gradients::accumulate;
use safetensors::SafeTensors;
use std::path::Path;

/// RoBERTa separates the texts of a pair only by special tokens: its segment table has one row.
#[test]
fn an_encoder_with_one_segment_reads_pairs() {
    let device = Device::flex();
    let config = EncoderConfig {
        segments: 1,
        ..EncoderConfig::default()
    };
    let model = config.init(&BuildContext {
        shape: &Shape::of_text(6, 11),
        seed: 3,
        device: &device,
    });
    let matrix =
        |v: [i32; 6]| Tensor::<2, Int>::from_data(TensorData::new(v.to_vec(), [1, 6]), &device);
    let hidden = |segments: Option<[i32; 6]>| {
        let input = EncoderInput {
            ids: matrix([1, 5, 2, 7, 8, 2]),
            segments: segments.map(matrix),
            lengths: None,
            globals: None,
        };
        values(model.forward(input, &Pass::evaluation()))
    };
    assert!(hidden(Some([0, 0, 0, 1, 1, 1])) == hidden(None));
    let ModelConfig::Encoder(roberta) = parse_preset("roberta-base").unwrap().model else {
        panic!("RoBERTa is an encoder");
    };
    assert_eq!(roberta.segments, 1);
}

/// Within its prefix, a position sees keys on both sides, with different biases.
#[test]
fn a_prefix_tells_what_comes_before_from_what_comes_after() {
    let config = DecoderConfig {
        // With two layers, a target position shows what source positions see.
        n_layers: Some(2),
        stack: StackConfig {
            d_model: 16,
            position: PositionConfig::RelativeBias(RelativeBiasConfig {
                buckets: 16,
                max_distance: 20,
            }),
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    };
    let pairs = || PairBatch {
        source: vec![3, 4, 5, 2],
        source_lengths: vec![4],
        source_cols: 4,
        inputs: vec![1, 6],
        targets: vec![6, 2],
        target_lengths: vec![2],
        target_cols: 2,
    };
    // Rows of the table: 0 to 7 for distances to keys before the query, 8 to 15 for keys behind it.
    for (bidirectional_source, behind) in [(true, true), (false, false)] {
        let task = TranslationConfig {
            label_smoothing: 0.0,
            bidirectional_source,
            global_tokens: None,
        };
        let inputs = BuildContext {
            shape: &Shape::of_text(4, 9),
            seed: 5,
            device: &Device::flex().autodiff(),
        };
        let task = Objective(PrefixLm::new(&config, &task, &inputs));
        let gradient = accumulate(&task, vec![batches::of(Content::Pairs(pairs()), 1)]);
        let table = &gradients_of(&task, &gradient.gradients)["model.position.table"];
        let learns = |row: usize| {
            table.values[row * 4..(row + 1) * 4]
                .iter()
                .any(|g| *g != 0.0)
        };
        assert!(learns(1), "a key before the query");
        for row in [9, 10, 11] {
            assert_eq!(learns(row), behind, "row {row}, {bidirectional_source}");
        }
    }
}

/// A step of plain gradient descent is proportional to the learning rate: in a stack with a single block, that is one decay,
/// however deep the other stack is.
#[test]
fn learning_rates_fall_in_each_stack_by_its_own_depth() {
    let folder = tempfile::tempdir().unwrap();
    let stepped = |decay: &str| {
        let run = folder.path().join(decay);
        let mut arguments = vec![
            "train".to_string(),
            "experiments/translation/dates.toml".into(),
        ];
        arguments.extend(["--quiet".into(), "--run".into(), run.display().to_string()]);
        let init = format!("init.layer_lr_decay={decay}");
        for set in [
            "model.n_encoder_layers=1",
            "model.n_decoder_layers=3",
            "model.d_model=16",
            "optimizer={ kind = \"sgd\", lr = 0.5 }",
            "schedule={ kind = \"constant\" }",
            "train={ steps = 1, batch_size = 8 }",
            "decode={}",
            &init,
        ] {
            arguments.extend(["--set".to_string(), set.to_string()]);
        }
        output(&arguments);
        weights(&run.join("latest/model.safetensors"))
    };
    let decayed = DECAYS.map(stepped);
    let check = |path: &str, layers: i32| learns_at(&decayed, path, layers);
    check("model.encoder.stack.blocks.0.attention.value.weight", 1);
    check("model.decoder.stack.blocks.2.attention.value.weight", 1);
    check("model.decoder.stack.blocks.0.attention.value.weight", 3);
    check("model.encoder.position.table", 2);
    check("model.decoder.position.table", 4);
    // Both stacks read the embedding table.
    check("model.embedding.weight", 4);
}

/// Layer decays of the runs that [`learns_at`] compares.
pub const DECAYS: [&str; 3] = ["1.0", "0.5", "0.25"];

/// Checks that a parameter is `layers` layers from the end, from the weights after one step of plain gradient descent under
/// [`DECAYS`].
pub fn learns_at(decayed: &[Vec<(String, Vec<f32>)>; 3], path: &str, layers: i32) {
    let [whole, half, quarter] = decayed;
    // For a step s·decay^k, the difference from the run without decay is s(1 − decay^k).
    let off = |other: &[(String, Vec<f32>)]| -> f64 {
        let of =
            |all: &[(String, Vec<f32>)]| all.iter().find(|(n, _)| n == path).unwrap().1.clone();
        let pairs = of(whole).into_iter().zip(of(other));
        pairs
            .map(|(a, b)| f64::from(a - b).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    let expected = (1.0 - 0.25f64.powi(layers)) / (1.0 - 0.5f64.powi(layers));
    let found = off(quarter) / off(half);
    assert!(
        (found / expected - 1.0).abs() < 1e-2,
        "{path}: {found}, not {expected}"
    );
}

/// Reads the tensors of a weight file.
pub fn weights(file: &Path) -> Vec<(String, Vec<f32>)> {
    let bytes = std::fs::read(file).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter();
    tensors
        .map(|(name, view)| {
            let values = view.data().as_chunks().0.iter();
            (name, values.map(|b| f32::from_le_bytes(*b)).collect())
        })
        .collect()
}

/// Wang et al. 2022, figure 2: `xavier_normal_` with gain β for values, outputs and feed-forward layers, and 1 for queries and
/// keys; here, it is uniform with the same variance.
#[test]
fn deepnorm_draws_xavier_s_weights_with_the_gain_beta() {
    let (d, layers) = (64, 4);
    let (_, beta) = NormPlacement::Deepnorm.alpha_beta(layers);
    let drawn = |init: Option<InitConfig>| {
        let config = DecoderConfig {
            n_layers: Some(layers),
            stack: StackConfig {
                d_model: d,
                norm_placement: NormPlacement::Deepnorm,
                init,
                ..StackConfig::default()
            },
            ..DecoderConfig::default()
        };
        let device = Device::flex();
        let model = config.init(&BuildContext {
            shape: &Shape::of_text(8, 11),
            seed: 5,
            device: &device,
        });
        let block = &model.stack.blocks[1];
        let (Some(Attention::MultiHead(a)), Some(FeedForward::Dense(f))) =
            (&block.attention, &block.feed_forward)
        else {
            panic!("another block");
        };
        let std = |linear: &Linear| {
            let x = values(linear.weight.val());
            (x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>() / x.len() as f64).sqrt()
        };
        [&a.query, &a.key, &a.value, &a.output, &f.up, &f.down].map(std)
    };
    let near = |found: [f64; 6], expected: [f64; 6]| {
        for (number, (x, y)) in found.into_iter().zip(expected).enumerate() {
            assert!((x / y - 1.0).abs() < 0.05, "{number}: {x} and not {y}");
        }
    };
    let square = (2.0 / (2 * d) as f64).sqrt();
    let wide = beta * (2.0 / (5 * d) as f64).sqrt();
    near(
        drawn(None),
        [square, square, beta * square, beta * square, wide, wide],
    );
    // β replaces GPT-2's scaling with depth.
    let gpt2 = InitConfig::Gpt2(Gpt2InitConfig::default());
    let (plain, scaled) = (0.02, 0.02 * beta);
    near(
        drawn(Some(gpt2)),
        [plain, plain, scaled, scaled, scaled, scaled],
    );
}
