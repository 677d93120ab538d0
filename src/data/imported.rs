//! `kind = "none"`: the data of an imported run, which has no examples of its own.
//!
//! Its keys describe the inputs so that the run can be used; `eval RUN --data FILE` reads examples from
//! elsewhere.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::labelled::LabelledTextConfig;
use super::questions::Windowing;
use super::speech;
use super::{
    CaptionedImagesConfig, Data, DataConfig, DataSet, ExampleForm, ImagesConfig, PairsConfig,
    Paths, PreferencesConfig, QuestionsConfig, Request, Shape, SpeechShape, Split,
    TaggedTextConfig, TextConfig, TranscribedSpeechConfig,
};
use crate::error::{Error, Result};

/// `kind = "none"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImportedConfig {
    /// The form of the inputs.
    pub gives: ExampleForm,
    /// Maximum length of an input in tokens; 0 for images.
    pub context: usize,
    /// Channels, height and width of images.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<[usize; 3]>,
    /// Mel bands and frames of recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speech: Option<SpeechShape>,
}

impl DataConfig {
    /// Returns the data of an imported run whose inputs have this form and shape.
    pub fn imported(gives: ExampleForm, shape: &Shape) -> Self {
        Self::Imported(ImportedConfig {
            gives,
            context: match gives {
                ExampleForm::Images => 0,
                ExampleForm::Text
                | ExampleForm::Labelled
                | ExampleForm::ManyLabelled
                | ExampleForm::Numbered
                | ExampleForm::Tagged
                | ExampleForm::Questions
                | ExampleForm::Pairs
                | ExampleForm::Captioned
                | ExampleForm::Spoken
                | ExampleForm::Preferences => shape.context,
            },
            image: shape.image,
            speech: shape.speech,
        })
    }
}

impl ImportedConfig {
    /// Returns a configuration that reads `files` for a model of this shape. The second file holds the labels
    /// of images, or the targets of texts.
    pub fn with_files(&self, files: &[PathBuf], shape: &Shape) -> DataConfig {
        let first = Paths(files.first().cloned().into_iter().collect());
        let second = files.get(1).cloned();
        match self.gives {
            ExampleForm::Text => DataConfig::Text(TextConfig {
                path: first,
                context: self.context,
                ..TextConfig::default()
            }),
            ExampleForm::Labelled => DataConfig::LabelledText(LabelledTextConfig {
                path: first,
                context: self.context,
                classes: shape.classes.clone(),
                ..LabelledTextConfig::default()
            }),
            // The label column holds lists of classes.
            ExampleForm::ManyLabelled => DataConfig::LabelledText(LabelledTextConfig {
                labels: Some(LabelledTextConfig::default_label(first.0.first(), false)),
                path: first,
                context: self.context,
                classes: shape.classes.clone(),
                ..LabelledTextConfig::default()
            }),
            // The label column holds numbers.
            ExampleForm::Numbered => DataConfig::LabelledText(LabelledTextConfig {
                score: Some(LabelledTextConfig::default_label(first.0.first(), false)),
                path: first,
                context: self.context,
                ..LabelledTextConfig::default()
            }),
            ExampleForm::Tagged => DataConfig::TaggedText(TaggedTextConfig {
                path: first,
                context: self.context,
                ..TaggedTextConfig::default()
            }),
            ExampleForm::Questions => DataConfig::Questions(QuestionsConfig {
                path: first,
                context: self.context,
                overlap: Windowing::with_default_overlap(self.context).overlap,
                ..QuestionsConfig::default()
            }),
            ExampleForm::Pairs => {
                let mut pairs = PairsConfig {
                    max_len: self.context,
                    ..PairsConfig::default()
                };
                match second {
                    Some(target) => {
                        pairs.source = first;
                        pairs.target = Paths(vec![target]);
                    }
                    None => pairs.path = first,
                }
                DataConfig::Pairs(Box::new(pairs))
            }
            ExampleForm::Captioned => {
                DataConfig::CaptionedImages(Box::new(CaptionedImagesConfig {
                    path: first,
                    images: second,
                    context: self.context,
                    channels: self.image.map(|[channels, ..]| channels),
                    size: self.image.map(|[_, height, width]| [height, width]),
                    mean: shape.mean.iter().map(|x| f64::from(*x)).collect(),
                    std: shape.std.iter().map(|x| f64::from(*x)).collect(),
                    ..CaptionedImagesConfig::default()
                }))
            }
            ExampleForm::Spoken => {
                let usual = TranscribedSpeechConfig::default();
                DataConfig::TranscribedSpeech(Box::new(TranscribedSpeechConfig {
                    path: first,
                    context: self.context,
                    n_mels: self.speech.map_or(usual.n_mels, |speech| speech.n_mels),
                    normalize: self.speech.filter(|s| s.n_mels == 0).map(|s| s.normalized),
                    seconds: self.speech.map_or(usual.seconds, speech::seconds),
                    ..usual
                }))
            }
            ExampleForm::Preferences => DataConfig::Preferences(Box::new(PreferencesConfig {
                path: first,
                context: self.context,
                ..PreferencesConfig::default()
            })),
            ExampleForm::Images => DataConfig::Images(ImagesConfig {
                path: first,
                labels: second,
                classes: shape.classes.clone(),
                channels: self.image.map(|[channels, ..]| channels),
                size: self.image.map(|[_, height, width]| [height, width]),
                mean: shape.mean.iter().map(|x| f64::from(*x)).collect(),
                std: shape.std.iter().map(|x| f64::from(*x)).collect(),
                ..ImagesConfig::default()
            }),
        }
    }
}

impl DataSet for ImportedConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let (images, tokens) = (self.gives.has_images(), self.gives.has_tokens());
        if images != self.image.is_some() || tokens != (self.context > 0) {
            faults.push(
                "[data] kind = \"none\" needs `context` only for texts, and `image` = [channels, height, width] only for images"
                    .into(),
            );
        }
        if self.gives.has_speech() != self.speech.is_some() {
            faults.push(
                "[data] kind = \"none\" needs `speech` = { n_mels = 80, n_frames = 3000 } for recordings, and only for them"
                    .into(),
            );
        }
        if let Some(SpeechShape {
            n_mels, n_frames, ..
        }) = self.speech
        {
            let (most, fewest) = (speech::MOST_MELS, speech::LogMel::FEWEST_FRAMES);
            if n_mels > most {
                faults.push(format!(
                    "[data] speech: n_mels = {n_mels} must be between 1 and {most}, or 0 for samples; Whisper uses 80, and 128 since large-v3"
                ));
            }
            if n_frames < fewest {
                faults.push(format!(
                    "[data] speech: n_frames = {n_frames} must be at least {fewest}; Whisper uses 3000"
                ));
            }
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        self.gives
    }

    fn context(&self) -> usize {
        self.context
    }

    fn image(&self) -> Option<[usize; 3]> {
        self.image
    }

    fn speech(&self) -> Option<SpeechShape> {
        self.speech
    }

    fn has(&self, _split: Split) -> bool {
        false
    }

    /// The imported folder may have no tokenizer.
    fn is_text(&self) -> bool {
        false
    }

    fn can_be_encoded_separately(&self) -> bool {
        matches!(
            self.gives,
            ExampleForm::Pairs | ExampleForm::Captioned | ExampleForm::Preferences
        )
    }

    fn can_be_masked(&self) -> bool {
        self.gives == ExampleForm::Text
    }

    fn prepare(&self, _request: &Request) -> Result<Data> {
        Err(Error::usage(
            "[data] kind = \"none\" has no examples: the run was imported; name data with `formwork eval RUN --data FILE`, \
             or begin a run from it with [init] from",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_recordings_are_held_to_their_ranges() {
        let faults = |n_mels, n_frames| {
            let config = ImportedConfig {
                gives: ExampleForm::Spoken,
                context: 8,
                image: None,
                speech: Some(SpeechShape {
                    n_mels,
                    n_frames,
                    normalized: false,
                }),
            };
            config.faults().len()
        };
        assert_eq!(faults(80, 3000), 0);
        assert_eq!([faults(0, 2), faults(129, 2), faults(1, 1)], [0, 1, 1]);
        assert_eq!(faults(129, 0), 2);
    }
}
