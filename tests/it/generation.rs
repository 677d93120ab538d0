//! Texts that are continued side by side are what each would be alone, past the end of the model's context too.

use crate::kinds;
use burn::tensor::Device;
use formwork::data::Shape;
use formwork::generate::{Generator, Sampling};
use formwork::model::ModelInputs;
use formwork::train::parameters::{materialised, name_parameters};

const CONTEXT: usize = 9;

#[test]
fn rows_are_apart() {
    let prompts: [&[u32]; 3] = [&[3, 1, 4], &[1, 5, 9], &[2, 6, 5]];
    for (name, config) in kinds::all() {
        let model = materialised(name_parameters(config.init(&ModelInputs {
            shape: &Shape::of_text(CONTEXT, 17),
            seed: 5,
            device: &Device::flex(),
        })));
        let continued = |prompts: &[&[u32]]| -> Vec<Vec<u32>> {
            let mut generator = Generator::new(&model, CONTEXT, prompts).unwrap();
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
    let model = materialised(name_parameters(config.init(&ModelInputs {
        shape: &Shape::of_text(CONTEXT, 17),
        seed: 5,
        device: &Device::flex(),
    })));
    let draw = || {
        let prompt: &[u32] = &[1, 2];
        let mut generator = Generator::new(&model, CONTEXT, &[prompt; 6]).unwrap();
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
    assert!(Generator::new(&model, CONTEXT, &[&[1, 2], &[1]]).is_err());
    assert!(Generator::new(&model, CONTEXT, &[]).is_err());
}
