//! The keys of the task that matches images with texts.

use super::{ImageText, KIND};
use crate::data::batch::TextBatch;
use crate::data::{DataSet, ExampleForm, Source, View};
use crate::error::{Error, Result};
use crate::evaluate::metric::{ACCURACY, Metric};
use crate::evaluate::retrieval;
use crate::faults::TableFaults;
use crate::model::{BuildContext, Demand, ModelConfig, TwoTowers, Use};
use crate::nn::Kind;
use crate::one_table::is_usual;
use crate::task::AnyTask;
use crate::task::facts::TaskFacts;
use crate::task::text_embedding::group_faults;
use crate::task::whole_text::Pooling;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The loss that compares images and texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImageTextLoss {
    /// Each image must find its text among those of its group, and each text its image (Radford et al. 2021, section
    /// 2.3).
    #[default]
    Softmax,
    /// Each pair of an image and a text of a group is classified as belonging together or not, independently of the
    /// other pairs (Zhai et al. 2023, section 3.2).
    Sigmoid,
}

/// Settings of matching images with texts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ImageTextConfig {
    /// The training loss: each image is searched among the texts and each text among the images (CLIP), or each pair is
    /// classified by itself (SigLIP). Source: Radford et al. 2021, section 2.3; Zhai et al. 2023, section 3.2.
    #[serde(skip_serializing_if = "is_usual")]
    pub loss: ImageTextLoss,
    /// Pooling of a text to one vector. Default: the state of its last token, or of its first position for an encoder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pooling: Option<Pooling>,
    /// The token that ends a text, if arrays of ids (`infer`) continue after it: the rest is not read. Default: texts
    /// end with their last token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<TextEnd>,
    /// Id of the token that pads every text to the longest input. It is read like the text's own tokens, so that all
    /// texts have the same length (SigLIP, with `pooling = "last"`). Default: none; padding is masked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fill: Option<u32>,
    /// Number of rows that are compared with each other, counted from a step's first row. Default: all rows of a step.
    #[schemars(range(min = 2))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<usize>,
}

/// The token that ends a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TextEnd {
    /// The first token with this id, or the text's first token if there is none.
    Token(EndToken),
    /// The first token with the largest id in the text; in CLIP's vocabulary this is the end token.
    LargestId(LargestId),
}

/// A token by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndToken {
    /// The token's id.
    pub id: u32,
}

/// The token with the largest id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LargestId {}

impl TextEnd {
    /// Returns the number of tokens up to and including the end, for ids that may continue after it.
    fn length(self, ids: &[i32]) -> usize {
        let end = match self {
            Self::Token(EndToken { id }) => ids.iter().position(|other| *other as u32 == id),
            Self::LargestId(_) => {
                let largest = ids.iter().max();
                largest.and_then(|largest| ids.iter().position(|other| other == largest))
            }
        };
        1 + end.unwrap_or(0)
    }

    /// Returns the number of tokens of each text up to and including its end; `None` if no text ends before the last
    /// column.
    pub(super) fn lengths(self, texts: &TextBatch) -> Option<Vec<usize>> {
        let rows = texts.inputs.chunks(texts.cols.max(1));
        let lengths: Vec<usize> = rows.map(|row| self.length(row)).collect();
        let shorter = lengths.iter().any(|length| *length < texts.cols);
        shorter.then_some(lengths)
    }
}

/// Padding of texts to a common length.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextPadding {
    /// Id of the padding token.
    pub id: i32,
    /// Common length of the texts in tokens.
    pub width: usize,
}

impl TextPadding {
    /// Pads tokens and segments of texts with these lengths to the common length.
    pub(super) fn pad(self, texts: &TextBatch, lengths: Option<&[usize]>) -> TextBatch {
        let (cols, width) = (texts.cols, self.width.max(texts.cols));
        let length = |row: usize| lengths.map_or(cols, |all| all[row]);
        let filled = |values: &[i32], with: i32| {
            let mut all = Vec::with_capacity(values.len() / cols.max(1) * width);
            for (row, of_row) in values.chunks(cols.max(1)).enumerate() {
                all.extend_from_slice(&of_row[..length(row).min(cols)]);
                all.resize((row + 1) * width, with);
            }
            all
        };
        TextBatch {
            inputs: filled(&texts.inputs, self.id),
            segments: texts.segments.as_deref().map(|all| filled(all, 0)),
            cols: width,
            ..TextBatch::default()
        }
    }
}

impl TaskFacts for ImageTextConfig {
    fn kind(&self) -> Kind {
        KIND
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Captioned
    }

    fn view(&self) -> View {
        View::EncodedSeparately
    }

    fn demand(&self) -> Demand {
        Demand {
            pooled_text: Pooling::demand(self.pooling),
            has_score_bias: self.loss == ImageTextLoss::Sigmoid,
            ..Demand::plain(Use::ImageText)
        }
    }

    fn faults(&self, at: &mut TableFaults) {
        group_faults(self.group, at);
    }

    fn compared_rows(&self) -> Option<Option<usize>> {
        Some(self.group)
    }

    fn data_fault(&self, train: &dyn Source) -> Result<Option<String>> {
        let (images, least) = (train.len(), self.group.unwrap_or(2));
        Ok((images < least).then(|| {
            format!("[data] has {images} image(s) to train on, but each is compared with others: at least {least} are needed")
        }))
    }

    fn metrics(&self, _data: &dyn DataSet) -> Vec<Metric> {
        [&[ACCURACY], retrieval::IMAGE_TEXT].concat()
    }

    fn command(&self, run: &str, _prompt: Option<&str>) -> Option<String> {
        Some(format!(
            "formwork classify {run} FILE.png --class NAME --class NAME"
        ))
    }

    fn init(
        &self,
        model: &ModelConfig,
        inputs: &BuildContext,
        _exact: bool,
    ) -> Result<Option<AnyTask>> {
        if !model.uses().contains(&Use::ImageText) {
            return Ok(None);
        }
        let tokens = inputs.shape.vocab_size;
        let end = self.end.and_then(|end| match end {
            TextEnd::Token(EndToken { id }) => Some(id),
            TextEnd::LargestId(_) => None,
        });
        for (key, id) in [("end.id", end), ("fill", self.fill)] {
            if let Some(id) = id.filter(|id| tokens > 0 && *id as usize >= tokens) {
                return Err(Error::usage(format!(
                    "[task] {key} = {id} is not a token: the vocabulary has {tokens}, numbered from 0"
                )));
            }
        }
        if let Some(misfit) = model.image_size_fault(inputs.shape.image) {
            return Err(Error::usage(misfit));
        }
        let network = TwoTowers::new(&model.restricted_to(&self.demand()), inputs);
        let network = network.ok_or_else(|| {
            Error::usage("[task] image_text needs images; the data has no images, or [model] has no network for them")
        })?;
        Ok(Some(AnyTask::ImageText(ImageText::new(
            network, self, inputs,
        ))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_with_its_token_or_with_the_largest_id() {
        let token = |id| TextEnd::Token(EndToken { id });
        let largest = TextEnd::LargestId(LargestId {});
        // The token 9 ends the text and pads it.
        assert_eq!(token(9).length(&[8, 3, 9, 9, 9]), 3);
        assert_eq!(largest.length(&[8, 3, 9, 9, 9]), 3);
        // An id larger than the end's precedes it.
        assert_eq!(token(7).length(&[8, 3, 9, 7, 0]), 4);
        assert_eq!(largest.length(&[8, 3, 9, 7, 0]), 3);
        // As in transformers if no token is the end.
        assert_eq!(token(5).length(&[8, 3, 9]), 1);
        let texts = TextBatch {
            inputs: vec![8, 3, 9, 8, 9, 9],
            cols: 3,
            ..TextBatch::default()
        };
        assert_eq!(token(9).lengths(&texts), Some(vec![3, 2]));
        assert_eq!(token(0).lengths(&TextBatch::default()), None);
    }

    #[test]
    fn texts_are_filled_up_to_one_length() {
        let fill = TextPadding { id: 1, width: 4 };
        let texts = TextBatch {
            inputs: vec![8, 3, 9, 8, 9, 0],
            segments: Some(vec![0, 0, 1, 0, 1, 1]),
            cols: 3,
            ..TextBatch::default()
        };
        let filled = fill.pad(&texts, Some(&[3, 2]));
        assert_eq!(filled.inputs, [8, 3, 9, 1, 8, 9, 1, 1]);
        let segments = [0, 0, 1, 0, 0, 1, 0, 0];
        assert_eq!(filled.segments.as_deref(), Some(&segments[..]));
        assert_eq!((filled.lengths.is_none(), filled.cols), (true, 4));
        // Arrays without lengths are read whole, and arrays longer than the width stay as they are.
        let long = TextPadding { id: 1, width: 2 };
        assert_eq!(long.pad(&texts, None).inputs, texts.inputs);
    }
}
