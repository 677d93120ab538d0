//! Predictions that an evaluation collects over its whole split, for metrics that are not means over examples.

use super::answers::Answers;
use super::classification::Confusion;
use super::correlation::NumberPairs;
use super::metric::{
    ACCURACY, EXACT_MATCH, F1, MACRO_F1, MCC, MICRO_F1, Metric, PEARSON, PRECISION, RECALL,
    ROC_AUC, SPEARMAN,
};
use super::multi_label::MultiLabelScores;
use super::neighbours::{KNN_ACCURACY, KnnEmbeddings};
use super::retrieval::Retrieval;
use super::tags::TagCounts;
use serde::{Deserialize, Serialize};

/// Predictions of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Predictions {
    /// A class for each example.
    Classes(Confusion),
    /// Any number of classes for each example.
    Several(MultiLabelScores),
    /// A tag for each word.
    Tags(TagCounts),
    /// A number for each example.
    Numbers(NumberPairs),
    /// Embeddings of queries and documents.
    Retrieval(Retrieval),
    /// Embeddings of images and texts.
    ImageText(Retrieval),
    /// Answers as spans of contexts.
    Answers(Answers),
    /// Embeddings of examples with their classes.
    Neighbours(KnnEmbeddings),
}

impl Predictions {
    /// Adds the predictions of another part of the split, which must be of the same kind.
    pub fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Classes(all), Self::Classes(more)) => all.merge(more),
            (Self::Several(all), Self::Several(more)) => all.merge(more),
            (Self::Tags(all), Self::Tags(more)) => all.merge(more),
            (Self::Numbers(all), Self::Numbers(more)) => all.merge(more),
            (Self::Retrieval(all), Self::Retrieval(more))
            | (Self::ImageText(all), Self::ImageText(more)) => all.merge(more),
            (Self::Answers(all), Self::Answers(more)) => all.merge(more),
            (Self::Neighbours(all), Self::Neighbours(more)) => all.merge(more),
            (
                Self::Classes(_)
                | Self::Several(_)
                | Self::Tags(_)
                | Self::Numbers(_)
                | Self::Retrieval(_)
                | Self::ImageText(_)
                | Self::Answers(_)
                | Self::Neighbours(_),
                _,
            ) => {
                unreachable!("a task makes predictions of one kind")
            }
        }
    }

    /// Returns the confusion matrix of classes or tags, if there is one.
    pub fn confusion(&self) -> Option<&Confusion> {
        match self {
            Self::Classes(confusion) => Some(confusion),
            Self::Tags(tags) => Some(tags.confusion()),
            Self::Several(_)
            | Self::Numbers(_)
            | Self::Retrieval(_)
            | Self::ImageText(_)
            | Self::Answers(_)
            | Self::Neighbours(_) => None,
        }
    }

    /// Computes the metrics of these predictions.
    pub fn metrics(&self) -> Vec<(Metric, f64)> {
        match self {
            Self::Classes(confusion) => classification_metrics(confusion),
            Self::Several(all) => vec![
                (MICRO_F1, all.micro_f1()),
                (MACRO_F1, all.macro_f1()),
                (EXACT_MATCH, all.exact_match()),
                (ROC_AUC, all.roc_auc()),
            ],
            Self::Tags(tags) => {
                let accuracy = (ACCURACY, tags.confusion().accuracy());
                let further = match tags.entities() {
                    Some(all) => vec![
                        (PRECISION, all.precision),
                        (RECALL, all.recall),
                        (F1, all.f1),
                    ],
                    None => classification_metrics(tags.confusion()),
                };
                [vec![accuracy], further].concat()
            }
            Self::Numbers(numbers) => {
                vec![(PEARSON, numbers.pearson()), (SPEARMAN, numbers.spearman())]
            }
            Self::Retrieval(vectors) => vectors.metrics(),
            Self::ImageText(vectors) => vectors.image_text_metrics(),
            Self::Answers(answers) => {
                let [exact, f1] = answers.scores();
                vec![(EXACT_MATCH, exact), (F1, f1)]
            }
            Self::Neighbours(vectors) => vec![(KNN_ACCURACY, vectors.accuracy())],
        }
    }
}

fn classification_metrics(confusion: &Confusion) -> Vec<(Metric, f64)> {
    // GLUE's convention: of two classes, the second is the positive one.
    let f1 = match confusion.names().len() {
        2 => confusion.binary().f1,
        _ => confusion.macro_average().f1,
    };
    vec![(F1, f1), (MCC, confusion.matthews())]
}
