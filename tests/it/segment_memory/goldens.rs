//! Outputs and gradients of consecutive segments against an oracle in PyTorch that follows the definition
//! (`tests/goldens/make_segment_memory.py`): empty memory at the start, documents that end inside a segment.

use crate::oracle::{Oracle, values};
use crate::transfer::{Against, gradients_of, put};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::kernel::{Documents, Visibility};
use formwork::model::LanguageModel;
use formwork::model::decoder::{Decoder, DecoderConfig, DecoderInput};
use formwork::nn::pass::{Draws, Pass};
use formwork::nn::state::StateUse;
use serde_json::{Value, json};

const ROWS: usize = 2;
const SEQ: usize = 5;
/// The segment at which the second row begins another text.
const ANEW: usize = 2;

fn decoder(oracle: &Oracle) -> Decoder {
    let keys: Value = serde_json::from_str(&oracle.config()).unwrap();
    let position = match keys["xl"] == true {
        true => json!({ "kind": "transformer_xl" }),
        false => json!({ "kind": "relative_bias", "buckets": 64, "max_distance": 128 }),
    };
    let config: DecoderConfig = serde_json::from_value(json!({
        "n_layers": 2,
        "d_model": 8,
        "norm_placement": keys["norm_placement"],
        "position": position,
        "attention": {
            "kind": "multi_head",
            "n_heads": 2,
            "memory": keys["memory"],
            "same_length": keys["same_length"],
        },
        "feed_forward": { "kind": "dense", "d_ff": 12 },
    }))
    .unwrap();
    let device = Device::flex().autodiff();
    let network = config.init(&formwork::model::BuildContext {
        shape: &formwork::data::Shape::of_text(SEQ, 7),
        seed: 0,
        device: &device,
    });
    let network = formwork::train::parameters::materialize(network);
    put(network, &oracle.arrays(|name| name.strip_prefix("weight.")))
}

fn part(all: &[i32], segment: usize) -> &[i32] {
    &all[segment * ROWS * SEQ..(segment + 1) * ROWS * SEQ]
}

fn agrees(case: &str) {
    let oracle = Oracle::open(&format!("segment_memory_{case}"));
    let device = Device::flex().autodiff();
    let model = decoder(&oracle);
    let (shape, ids) = oracle.integers("ids");
    let documents = case.ends_with("documents");
    let documents = documents.then(|| oracle.integers("documents").1);
    let weights = oracle.array("y_weight");
    let mut state = model.empty_state(StateUse::Segments);
    let mut against = Against::new(case, &oracle, 1e-4);
    for segment in 0..shape[0] {
        state.reset(&[segment > 0, segment != ANEW]);
        let of_segment = TensorData::new(part(&ids, segment).to_vec(), [ROWS, SEQ]);
        let numbers = documents.as_ref().map(|all| part(all, segment));
        let input = DecoderInput {
            neighbours: None,
            ids: Tensor::<2, Int>::from_data(of_segment, &device),
            positions: None,
            visible: Visibility {
                documents: numbers.map(|numbers| Documents::new(numbers, SEQ)),
                ..Visibility::causal()
            },
        };
        let pass = Pass::training(Draws {
            seed: 0,
            step: segment as u64,
            first_row: 0,
        });
        let logits = model.logits(model.forward(input, Some(&mut state), &pass));
        state.seen = 0;
        against.check(&format!("{segment}.logits"), &values(logits.clone()));
        let dims = logits.dims();
        let count = dims.iter().product::<usize>();
        let weight = weights.values[segment * count..(segment + 1) * count].to_vec();
        let weight = Tensor::<3>::from_data(TensorData::new(weight, dims), &device);
        let gradients = (logits * weight).sum().backward();
        let gradients = GradientsParams::from_grads(gradients, &model);
        for (path, gradient) in gradients_of(&model, &gradients) {
            // Adding a constant to all scores does not change a softmax, so these gradients are only rounding.
            if path.ends_with("key.bias") {
                assert!(gradient.values.iter().all(|x| x.abs() < 1e-4), "{path}");
                continue;
            }
            against.check(&format!("{segment}.grad.{path}"), &gradient.values);
        }
    }
}

#[test]
fn segments_agree_with_the_definition() {
    for case in [
        "pre",
        "post",
        "pre_documents",
        "post_documents",
        "same_length",
        "xl_pre",
        "xl_post_documents",
    ] {
        agrees(case);
    }
}

/// Without autodiff, the evaluation device gives the same results.
#[test]
fn evaluation_agrees_with_training() {
    let oracle = Oracle::open("segment_memory_pre");
    let tracked = decoder(&oracle);
    let plain = burn::module::Module::valid(&tracked);
    let (_, ids) = oracle.integers("ids");
    let mut state = plain.empty_state(StateUse::Segments);
    for segment in 0..3 {
        // Only the first row.
        let ids = crate::contracts::ids(&part(&ids, segment)[..SEQ], 1);
        let pass = Pass::evaluation();
        let hidden = plain.forward(DecoderInput::new(ids), Some(&mut state), &pass);
        state.seen = 0;
        let found = values(plain.logits(hidden));
        let wanted = oracle.array(&format!("{segment}.logits")).values;
        crate::contracts::near(&found, &wanted[..found.len()], "evaluation");
    }
}
