//! DeBERTa's masked language models against HF's (`tests/goldens/make_deberta.py`), and its enhanced mask decoder against its
//! definition (`make_deberta_emd.py`): hidden states, logits, losses, every gradient, and the products of a pass.

use crate::goldens::TOLERANCE;
use crate::goldens_encoders::{check, config, task, texts};
use crate::oracle::{Oracle, difference, values};
use crate::transfer::{at_tokens, import};
use burn::module::Module;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::data::masked::masking::{MaskingConfig, Pairs};
use formwork::interop::families::{HfShape, deberta, deberta_v2};
use formwork::model::{BuildContext, Demand, EncoderConfig, MaskDecoderConfig, ModelConfig, Use};
use formwork::nn::attention::AttentionConfig;
use formwork::nn::attention::multi_head::MultiHeadConfig;
use formwork::nn::norm::{LayerNormConfig, NormConfig};
use formwork::nn::position::PositionConfig;
use formwork::nn::position::disentangled::DisentangledConfig;
use formwork::nn::position::learned::LearnedConfig;
use formwork::stack::StackConfig;
use formwork::task::{MaskedLmConfig, TaskConfig, TextClassificationConfig};

const EPS: f64 = 1e-7;

fn encoder(
    positions: DisentangledConfig,
    key_bias: Option<bool>,
    segments: usize,
) -> EncoderConfig {
    let plain = config(LearnedConfig::default(), segments, EPS, false);
    EncoderConfig {
        stack: StackConfig {
            position: PositionConfig::Disentangled(positions),
            attention: AttentionConfig::MultiHead(MultiHeadConfig {
                key_bias,
                ..MultiHeadConfig::default()
            }),
            ..plain.stack
        },
        ..plain
    }
}

/// Version 1: distances clipped to 5, separate projections of positions in each layer, keys without a bias.
fn first(segments: usize) -> EncoderConfig {
    let positions = DisentangledConfig {
        max_distance: 5,
        ..DisentangledConfig::default()
    };
    encoder(positions, Some(false), segments)
}

/// Version 2: 6 buckets up to distance 10, positions projected by attention's own weights, a norm on the distance embeddings.
fn second() -> EncoderConfig {
    let positions = DisentangledConfig {
        max_distance: 10,
        buckets: Some(6),
        shared_projections: true,
        norm: NormConfig::Layer(LayerNormConfig {
            eps: EPS,
            ..LayerNormConfig::default()
        }),
        ..DisentangledConfig::default()
    };
    encoder(positions, None, 0)
}

fn decoding(encoder: EncoderConfig) -> EncoderConfig {
    EncoderConfig {
        mask_decoder: Some(MaskDecoderConfig {
            steps: 2,
            max_len: Some(20),
        }),
        ..encoder
    }
}

fn shape(model: &EncoderConfig) -> HfShape {
    HfShape {
        model: ModelConfig::Encoder(model.clone()),
        task: TaskConfig::MaskedLm(MaskedLmConfig::default()),
        shape: Shape::of_text(14, 47),
    }
}

#[test]
fn deberta_is_hf_s() {
    let table = (deberta::FAMILY.table)(&shape(&first(2)));
    check("deberta_mlm", &first(2), Pairs::None, &table);
}

#[test]
fn deberta_v2_is_hf_s() {
    let table = (deberta_v2::FAMILY.table)(&shape(&second()));
    check("deberta_v2_mlm", &second(), Pairs::None, &table);
}

#[test]
fn the_mask_decoder_is_its_definition() {
    let model = decoding(first(0));
    let table = (deberta::FAMILY.table)(&shape(&model));
    check("deberta_emd", &model, Pairs::None, &table);
    let model = decoding(second());
    let table = (deberta_v2::FAMILY.table)(&shape(&model));
    check("deberta_v2_emd", &model, Pairs::None, &table);
}

/// The last block runs once for each decoder step, and on its own hidden states only if something reads them.
#[test]
fn the_mask_decoder_s_products_are_pytorch_s() {
    for (name, model) in [("deberta_emd", first(0)), ("deberta_v2_emd", second())] {
        let counted = Oracle::open(name).integers("flops").1[0];
        let products = |pairs: Pairs, share: f64| {
            let task = TaskConfig::MaskedLm(MaskedLmConfig {
                masking: MaskingConfig {
                    share,
                    ..MaskingConfig::default()
                },
                pairs,
                global_tokens: None,
            });
            let shape = Shape::of_text(14, 47);
            let model = ModelConfig::Encoder(decoding(model.clone()));
            task.facts().products(&model, &shape)
        };
        let head = products(Pairs::None, 0.5) - products(Pairs::None, 0.25);
        let network = 2.0 * (products(Pairs::None, 0.25) - head);
        assert!((network / f64::from(counted) - 1.0).abs() < 1e-9, "{name}");
        // Segment pairs are classified from the last block's own hidden states, which takes one more run of a block.
        let bare = |model: &EncoderConfig| model.text_products(14) as f64;
        let alone = EncoderConfig {
            n_layers: Some(1),
            ..model.clone()
        };
        let block = bare(&model) - bare(&alone);
        let of_pairs = 2.0 * model.stack.d_model as f64;
        let more = products(Pairs::NextSentence, 0.25) - products(Pairs::None, 0.25) - of_pairs;
        assert!((more / block - 1.0).abs() < 1e-9, "{name}");
    }
}

/// A classifier does not need the positions of masked tokens: it builds no mask decoder, and its parameters are those of a
/// model without.
#[test]
fn only_guesses_have_a_mask_decoder() {
    let of = |model: EncoderConfig, task: TaskConfig| {
        let shape = Shape {
            classes: vec!["a".into(), "b".into()],
            ..Shape::of_text(14, 47)
        };
        let inputs = BuildContext {
            shape: &shape,
            seed: 1,
            device: &Device::flex(),
        };
        let built = task.init(&ModelConfig::Encoder(model), &inputs, false);
        crate::transfer::values_of(&built.unwrap())
    };
    let guessing = || TaskConfig::MaskedLm(MaskedLmConfig::default());
    let classes = || TaskConfig::TextClassification(TextClassificationConfig::default());
    let more = of(decoding(first(0)), guessing());
    let plain = of(first(0), guessing());
    let lacking = more.keys().filter(|path| !plain.contains_key(*path));
    assert_eq!(lacking.collect::<Vec<_>>(), ["mask_decoder.table"]);
    // Parameters are initialised by name, so those that both models have are equal.
    assert!(plain.iter().all(|(path, x)| more[path].values == x.values));
    let [more, plain] = [decoding(first(0)), first(0)].map(|model| of(model, classes()));
    assert!(more.keys().eq(plain.keys()));
    let demand = Demand::plain(Use::TextClasses);
    let model = ModelConfig::Encoder(decoding(first(0)));
    assert_eq!(model.restricted_to(&demand), ModelConfig::Encoder(first(0)));
}

/// The golden would detect another number of steps, and a missing decoder.
#[test]
fn the_golden_sees_the_decoder() {
    let oracle = Oracle::open("deberta_emd");
    let weights = oracle.arrays(|name| name.strip_prefix("weight."));
    let (texts, device) = (texts(&oracle), Device::flex().autodiff());
    let places: Vec<i32> = (0..texts.inputs.len() as i32).collect();
    for steps in [0, 1, 2, 3] {
        let decoder = MaskDecoderConfig {
            steps,
            max_len: Some(20),
        };
        let model = EncoderConfig {
            mask_decoder: Some(decoder).filter(|_| steps > 0),
            ..first(0)
        };
        let table = (deberta::FAMILY.table)(&shape(&model));
        let mut weights = weights.clone();
        if steps == 0 {
            weights.remove("deberta.embeddings.position_embeddings.weight");
        }
        let task = import(task(&model, Pairs::None, 47, &device), &table, &weights);
        let scores = values(task.valid().scores_at(&texts, &places, &Device::flex()));
        let scores = at_tokens(scores, texts.lengths.as_ref().unwrap(), texts.cols);
        let off = difference(&scores, &oracle.array("logits").values);
        assert_eq!(
            off < TOLERANCE,
            steps == 2,
            "{steps} steps: off by {off:.1e}"
        );
        assert!(
            steps == 2 || off > 2.0 * TOLERANCE,
            "{steps} steps: {off:.1e}"
        );
    }
}
