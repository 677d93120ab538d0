//! Uniformly random tokens: nothing to learn, any shape to measure. The loss of a model that knows this is ln
//! V.
//!
//! In the masked view, a random share of the positions is scored on other random tokens. There is no mask
//! token, since measuring speed does not need one.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::data_set::{pairs_unsupported, speech_unsupported};
use crate::data::masked::masking::Pairs;
use crate::data::masked::masks;
use crate::data::{Data, DataSet, Item, NOT_SCORED, Request, Shape, Source, Split, TextItem, View};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// `kind = "random_tokens"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandomTokensConfig {
    /// Vocabulary size; ids are below this.
    pub vocab_size: usize,
    /// Tokens in a window.
    pub context: usize,
    /// Windows in the validation split; 0 for none.
    pub valid_items: usize,
}

impl Default for RandomTokensConfig {
    fn default() -> Self {
        Self {
            vocab_size: 256,
            context: 128,
            valid_items: 16,
        }
    }
}

impl DataSet for RandomTokensConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.vocab_size == 0 || self.vocab_size > i32::MAX as usize {
            faults.push(format!(
                "[data] vocab_size = {} must be between 1 and {}",
                self.vocab_size,
                i32::MAX
            ));
        }
        if self.context == 0 {
            faults.push("[data] context = 0 must be at least 1".into());
        }
        faults
    }

    fn context(&self) -> usize {
        self.context
    }

    fn has(&self, split: Split) -> bool {
        match split {
            Split::Train => true,
            Split::Valid => self.valid_items > 0,
            Split::Test => false,
        }
    }

    fn is_text(&self) -> bool {
        false
    }

    fn can_be_masked(&self) -> bool {
        true
    }

    fn view_faults(&self, view: &View) -> Vec<String> {
        let view = match view {
            View::Plain => return Vec::new(),
            View::EncodedSeparately => return pairs_unsupported(),
            View::Ctc => return speech_unsupported(),
            View::Masked(view) => view,
            View::Corrupted(_) => {
                return vec![
                    "[data] random tokens have no text to corrupt; use kind = \"random_pairs\" for text to text"
                        .into(),
                ];
            }
        };
        let mut faults = view.masking.faults();
        if view.pairs != Pairs::None {
            faults.push(
                "[task] pairs has no effect: random tokens have no sentences; remove it".into(),
            );
        }
        faults
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let share = match request.view {
            View::Plain | View::Corrupted(_) | View::EncodedSeparately | View::Ctc => None,
            View::Masked(view) => Some(view.masking.share),
        };
        Ok(prepare(self, request.seed, share))
    }
}

struct Random {
    config: RandomTokensConfig,
    split: Split,
    seed: u64,
    /// Share of the positions that are scored; `None` for next-token targets.
    share: Option<f64>,
}

impl Random {
    /// Returns random targets at a share of the positions.
    fn scored(&self, share: f64, stream: &mut Stream) -> Vec<i32> {
        let context = self.config.context;
        let mut targets = vec![NOT_SCORED; context];
        for at in masks::choose(context, masks::scored(context, share), stream) {
            targets[at] = stream.below(self.config.vocab_size as u64) as i32;
        }
        targets
    }
}

impl Source for Random {
    fn len(&self) -> usize {
        match self.split {
            Split::Train => 1 << 16,
            Split::Valid | Split::Test => self.config.valid_items,
        }
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let mut stream = Stream::new(
            self.seed,
            Purpose::Synthetic,
            (sample, self.split as u64, 0),
        );
        let vocab_size = self.config.vocab_size as u64;
        let mut inputs: Vec<i32> = (0..=self.config.context)
            .map(|_| stream.below(vocab_size) as i32)
            .collect();
        let targets = match self.share {
            None => inputs[1..].to_vec(),
            Some(share) => self.scored(share, &mut stream),
        };
        inputs.pop();
        Ok(Item::Text(TextItem {
            inputs,
            targets,
            ..TextItem::default()
        }))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_endless(&self) -> bool {
        self.split == Split::Train
    }
}

fn prepare(config: &RandomTokensConfig, seed: u64, share: Option<f64>) -> Data {
    let source = |split| Random {
        config: config.clone(),
        split,
        seed,
        share,
    };
    let shape = Shape::of_text(config.context, config.vocab_size);
    Data {
        valid: (config.valid_items > 0).then(|| Arc::new(source(Split::Valid)) as Arc<dyn Source>),
        ..Data::new(Arc::new(source(Split::Train)), shape)
    }
}
