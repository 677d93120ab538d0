//! Texts that are continued side by side equal those continued alone, also beyond the end of the model's context.

use crate::kinds;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::generate::{Sampling, TextGenerator};
use formwork::model::BuildContext;
use formwork::model::decoder::{Decoder, DecoderConfig};
use formwork::nn::linear::repacked_for_decoding;
use formwork::train::parameters::{materialize, name_parameters};

const CONTEXT: usize = 9;

fn built(config: &DecoderConfig) -> Decoder {
    materialize(name_parameters(config.init(&BuildContext {
        shape: &Shape::of_text(CONTEXT, 17),
        seed: 5,
        device: &Device::flex(),
    })))
}

#[test]
fn rows_are_apart() {
    let prompts: [&[u32]; 3] = [&[3, 1, 4], &[1, 5, 9], &[2, 6, 5]];
    for (name, config) in kinds::all() {
        let model = built(&config);
        let continued = |prompts: &[&[u32]]| -> Vec<Vec<u32>> {
            let mut generator = TextGenerator::new(&model, CONTEXT, prompts).unwrap();
            let greedy = Sampling {
                temperature: 0.0,
                ..Sampling::default()
            };
            for _ in 0..14 {
                generator.next(&greedy);
            }
            (0..prompts.len())
                .map(|row| generator.tokens(row).to_vec())
                .collect()
        };
        let together = continued(&prompts);
        for (row, prompt) in prompts.iter().enumerate() {
            assert_eq!(together[row], continued(&[prompt])[0], "{name}, row {row}");
        }
    }
}

#[test]
fn rows_draw_for_themselves_and_prompts_have_one_length() {
    let (_, config) = kinds::all().into_iter().next().unwrap();
    let model = built(&config);
    let draw = || {
        let prompt: &[u32] = &[1, 2];
        let mut generator = TextGenerator::new(&model, CONTEXT, &[prompt; 6]).unwrap();
        (0..4).for_each(|_| {
            generator.next(&Sampling::default());
        });
        (0..6)
            .map(|row| generator.tokens(row).to_vec())
            .collect::<Vec<_>>()
    };
    let texts = draw();
    assert_eq!(texts, draw());
    assert!(texts.iter().any(|text| *text != texts[0]), "{texts:?}");
    assert!(TextGenerator::new(&model, CONTEXT, &[&[1, 2], &[1]]).is_err());
    assert!(TextGenerator::new(&model, CONTEXT, &[]).is_err());
}

#[test]
fn neither_the_order_of_weights_nor_reserved_room_changes_a_text() {
    let prompts: [&[u32]; 5] = [&[3, 1], &[1, 5], &[2, 6], &[7, 7], &[0, 8]];
    for (name, config) in kinds::all() {
        let model = built(&config);
        let by_columns = repacked_for_decoding(model.clone());
        let mut plain = TextGenerator::new(&model, CONTEXT, &prompts).unwrap();
        let mut reserved = TextGenerator::new(&model, CONTEXT, &prompts).unwrap();
        reserved.reserve(20);
        let mut turned = TextGenerator::new(&by_columns, CONTEXT, &prompts).unwrap();
        turned.reserve(3);
        turned.reserve(usize::MAX);
        for step in 0..12 {
            for row in 0..prompts.len() {
                let [wanted, same, near] = [&plain, &reserved, &turned].map(|g| g.logits(row));
                assert_eq!(wanted, same, "{name}, row {row}, step {step}");
                for (x, y) in wanted.iter().zip(near) {
                    let close = (x - y).abs() <= 1e-5 * x.abs().max(1.0);
                    assert!(close, "{name}, row {row}, step {step}: {x} and {y}");
                }
            }
            let tokens = [3, 1, 4, 1, step];
            for generator in [&mut plain, &mut reserved, &mut turned] {
                generator.push(&tokens);
            }
        }
    }
}
