//! Text embeddings: vectors whose cosines tell how closely texts are related, for sentence similarity and dense
//! retrieval.
//!
//! One encoder reads the two texts of a pair separately and pools its hidden states. With `loss = "in_batch"` the texts
//! of the other pairs in a batch are the negatives (Karpukhin et al., arXiv:2004.04906, section 3.2; Gao et al.,
//! arXiv:2104.08821, equation 1; sentence-transformers' MultipleNegativesRankingLoss). A text paired with itself is
//! read under two dropout masks, and so learns without labels (Gao et al., section 3). With `loss = "cosine"` a pair's
//! cosine must match its score (Reimers and Gurevych, arXiv:1908.10084, section 3).

mod config;
pub mod losses;

pub(super) use config::group_faults;
pub use config::{EmbeddingLoss, TextEmbeddingConfig};

use super::infer::InferenceTask;
use super::metric_keys::MetricKeys;
use super::regression::squared_errors;
use super::whole_text::{Pooling, TextReading};
use super::{Networks, Scored, Task, host, masked_lm, towers};
use crate::data::batch::{Batch, TextBatch};
use crate::evaluate::correlation::NumberPairs;
use crate::evaluate::metric::{ACCURACY, Metric};
use crate::evaluate::predictions::Predictions;
use crate::evaluate::retrieval::{self, Retrieval};
use crate::kernel;
use crate::model::encoder::EncoderInput;
use crate::model::{BuildContext, TextModel};
use crate::nn::Kind;
use crate::nn::pass::Pass;
use crate::rng::mix;
use crate::stack::state::ModelState;
use crate::task::scored::{Count, Divisor, Term};
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use losses::Groups;

/// The entry of this kind among the kinds of `[task]`.
pub const KIND: Kind = Kind {
    kind: "text_embedding",
    summary: "vectors of texts whose cosines measure similarity, with an encoder, a decoder or recurrent cells",
    source: "Reimers and Gurevych, arXiv:1908.10084; Karpukhin et al., arXiv:2004.04906; Gao et al., arXiv:2104.08821",
    example: "{ kind = \"text_embedding\" }",
};

/// The loss compares cosines of the rows of a step, or a cosine with a score.
pub const METRIC_KEYS: MetricKeys = MetricKeys {
    metrics: &[("accuracy", &["loss"])],
    compares_rows: &["in_batch"],
    ..MetricKeys::for_kind(KIND.kind).with_loss_keys(&[
        "loss",
        "temperature",
        "symmetric",
        "top_score",
    ])
};

/// The metrics that this task defines.
pub const METRICS: &[Metric] = retrieval::METRICS;

/// A text network that computes text embeddings.
#[derive(Module, Debug)]
pub struct TextEmbedding {
    /// The network.
    pub model: TextModel,
    seed: u64,
    normalize: bool,
    #[module(skip)]
    learned: config::ResolvedLoss,
    #[module(skip)]
    pub(super) reading: TextReading,
}

impl TextEmbedding {
    /// Builds the task from a network that reads texts.
    pub fn new(model: TextModel, config: &TextEmbeddingConfig, inputs: &BuildContext) -> Self {
        Self {
            model,
            seed: inputs.seed,
            normalize: config.normalize,
            learned: config.resolved_loss(),
            reading: TextReading {
                towers: false,
                pooling: Some(config.pooling),
                globals: config.global_tokens.unwrap_or_default(),
                dropout: 0.0,
            },
        }
    }

    /// Returns the pooling of a text to one vector.
    pub fn pooling(&self) -> Pooling {
        self.reading.pooling(&self.model)
    }

    /// Returns whether embeddings are normalised to length 1 where they are used.
    pub fn normalizes(&self) -> bool {
        self.normalize
    }

    /// Returns the embeddings of single texts `[rows, d_model]`, of length 1 if the task normalises them.
    pub fn vectors(&self, input: EncoderInput, pass: &Pass) -> Tensor<2> {
        let (vectors, _) = self.reading.vectors_of(&self.model, input, pass);
        match self.normalize {
            true => losses::normalize_rows(vectors),
            false => vectors,
        }
    }

    /// Returns the normalised embeddings of both texts of each pair, `[rows, d_model]` each.
    fn embed_both(&self, texts: [TextBatch; 2], pass: &Pass) -> [Tensor<2>; 2] {
        let device = self.device();
        let read = |texts: &TextBatch| {
            let input = masked_lm::input(texts, self.reading.globals, &device);
            let (vectors, _) = self.reading.vectors_of(&self.model, input, pass);
            losses::normalize_rows(vectors)
        };
        let [first, second] = texts;
        [read(&first), pass.in_network("second", || read(&second))]
    }

    /// Scores each pair against the others of its group.
    fn score_contrastive(&self, batch: &Batch, pass: &Pass) -> Scored {
        let texts = towers::source_and_target(host::pairs(batch));
        let documents = (!pass.is_training()).then(|| text_hashes(&texts[1]));
        let [first, second] = self.embed_both(texts, pass);
        let (learned, rows) = (&self.learned, batch.rows);
        let groups = Groups {
            size: learned.group.unwrap_or(rows),
            samples: &batch.samples,
        };
        let found = losses::in_batch(&first, &second, learned.temperature, groups);
        let mut sum = found.loss;
        if learned.symmetric {
            let back = losses::in_batch(&second, &first, learned.temperature, groups);
            sum = (sum + back.loss) * 0.5;
        }
        let predictions = documents.map(|documents| {
            let [_, width] = first.dims();
            let [first, second] = [first, second].map(numbers);
            Predictions::Retrieval(Retrieval::new(width, &first, &second, documents))
        });
        let hits = Count {
            sum: found.hits,
            of: rows as f64,
        };
        let scored = Scored::new(sum, batch.tokens as u64).with_count(ACCURACY, hits);
        Scored {
            loss: Term {
                over: Divisor::Rows,
                ..scored.loss
            },
            predictions,
            ..scored
        }
    }

    /// Scores each pair's cosine against the pair's score.
    fn score_similarity(&self, batch: &Batch, pass: &Pass) -> Scored {
        let texts = host::texts(batch);
        let truth = texts.numbers.as_deref().unwrap_or_default();
        let [first, second] = self.embed_both(towers::split_with_first_token(texts), pass);
        let cosines = (first * second).sum_dim(1);
        let predictions = (!pass.is_training()).then(|| {
            let predicted = kernel::read(kernel::untracked(cosines.clone()));
            let mut all = NumberPairs::default();
            for (predicted, truth) in predicted.iter::<f32>().zip(truth) {
                all.add(*truth, predicted);
            }
            Predictions::Numbers(all)
        });
        let shares: Vec<f32> = truth.iter().map(|t| t / self.learned.top_score).collect();
        Scored {
            predictions,
            ..Scored::new(squared_errors(cosines, &shares), batch.tokens as u64)
        }
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> Device {
        self.model.device()
    }
}

/// Returns a hash of each row's tokens, padding excluded.
pub(super) fn text_hashes(texts: &TextBatch) -> Vec<u64> {
    let rows = texts.inputs.chunks(texts.cols.max(1)).enumerate();
    rows.map(|(number, row)| {
        let length = texts.lengths.as_ref().map_or(row.len(), |all| all[number]);
        let ids = row[..length].iter();
        ids.fold(length as u64, |text, id| mix(text ^ u64::from(*id as u32)))
    })
    .collect()
}

/// Returns the numbers of a tensor, row by row.
pub(super) fn numbers(x: Tensor<2>) -> Vec<f32> {
    let data = kernel::read(kernel::untracked(x));
    data.iter().collect()
}

impl Task for TextEmbedding {
    fn score(&self, batch: &Batch, pass: &Pass, _state: Option<&mut ModelState>) -> Scored {
        match self.learned.loss {
            EmbeddingLoss::InBatch => self.score_contrastive(batch, pass),
            EmbeddingLoss::Cosine => self.score_similarity(batch, pass),
        }
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn networks(&self) -> Networks<'_> {
        Networks {
            embedder: Some(self),
            infers: Some(self as &dyn InferenceTask),
            ..Networks::default()
        }
    }
}
