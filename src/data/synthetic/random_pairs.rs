//! Uniformly random pairs of exact lengths: nothing to learn, any shape to measure.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::{Data, DataSet, ExampleForm, Item, PairItem, Request, Shape, Source, Split};
use crate::error::Result;
use crate::rng::{Purpose, Stream};

/// `kind = "random_pairs"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RandomPairsConfig {
    /// Vocabulary size; ids are below this.
    pub vocab_size: usize,
    /// Length of a source in tokens.
    pub source_len: usize,
    /// Number of target tokens that a decoder reads, and that it predicts.
    pub target_len: usize,
    /// Pairs in the validation split; 0 for none.
    pub valid_items: usize,
}

impl Default for RandomPairsConfig {
    fn default() -> Self {
        Self {
            vocab_size: 256,
            source_len: 32,
            target_len: 32,
            valid_items: 16,
        }
    }
}

impl DataSet for RandomPairsConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.vocab_size == 0 || self.vocab_size > i32::MAX as usize {
            faults.push(format!(
                "[data] vocab_size = {} must be between 1 and {}",
                self.vocab_size,
                i32::MAX
            ));
        }
        for (key, len) in [
            ("source_len", self.source_len),
            ("target_len", self.target_len),
        ] {
            if len == 0 {
                faults.push(format!("[data] {key} = 0 must be at least 1"));
            }
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Pairs
    }

    fn context(&self) -> usize {
        self.source_len.max(self.target_len)
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

    fn prepare(&self, request: &Request) -> Result<Data> {
        let source = |split| -> Arc<dyn Source> {
            Arc::new(Random {
                config: self.clone(),
                split,
                seed: request.seed,
            })
        };
        let shape = Shape::of_text(self.context(), self.vocab_size);
        Ok(Data {
            valid: self.has(Split::Valid).then(|| source(Split::Valid)),
            ..Data::new(source(Split::Train), shape)
        })
    }
}

struct Random {
    config: RandomPairsConfig,
    split: Split,
    seed: u64,
}

impl Source for Random {
    fn len(&self) -> usize {
        match self.split {
            Split::Train => 1 << 16,
            Split::Valid | Split::Test => self.config.valid_items,
        }
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let place = (sample, self.split as u64, 0);
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, place);
        let vocab_size = self.config.vocab_size as u64;
        let mut ids = |count: usize| {
            (0..count)
                .map(|_| stream.below(vocab_size) as i32)
                .collect()
        };
        Ok(Item::Pair(PairItem {
            source: ids(self.config.source_len),
            target: ids(self.config.target_len + 1),
        }))
    }

    fn size(&self, _sample: u64) -> usize {
        self.config.source_len.max(self.config.target_len + 1)
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_endless(&self) -> bool {
        self.split == Split::Train
    }
}
