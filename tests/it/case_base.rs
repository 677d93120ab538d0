//! The plainest case of each kind of task.

use crate::case_tasks::{classification, masked_lm, translation};
use crate::cases::Case;
use formwork::data::masked::masking::Pairs;
use formwork::model::{DecoderConfig, EncoderConfig, EncoderDecoderConfig, ModelConfig};
use formwork::stack::StackConfig;
use formwork::task::whole_text::Pooling;

/// The first case of each task, all keys at their defaults: masked, classes, translation, prefix.
pub fn base(width: usize) -> [Case; 4] {
    let encoder = ModelConfig::Encoder(EncoderConfig {
        n_layers: Some(2),
        pooler: true,
        stack: StackConfig {
            d_model: width,
            ..StackConfig::default()
        },
        ..EncoderConfig::default()
    });
    let both = ModelConfig::EncoderDecoder(EncoderDecoderConfig {
        n_encoder_layers: Some(2),
        n_decoder_layers: Some(2),
        stack: StackConfig {
            d_model: width,
            ..StackConfig::default()
        },
        ..EncoderDecoderConfig::default()
    });
    let decoder = ModelConfig::Decoder(DecoderConfig {
        n_layers: Some(2),
        stack: StackConfig {
            d_model: width,
            ..StackConfig::default()
        },
        ..DecoderConfig::default()
    });
    [
        Case::new(
            "its defaults",
            masked_lm(Pairs::NextSentence, None),
            encoder.clone(),
        ),
        Case::new(
            "its defaults",
            classification(Some(Pooling::First), None),
            encoder,
        ),
        Case::new("its defaults", translation(0.0, false), both),
        Case::new("its defaults", translation(0.0, true), decoder),
    ]
}
