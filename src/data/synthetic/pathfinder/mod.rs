//! `kind = "pathfinder"`: does a dashed path join the two circles? No file is needed.
//!
//! Linsley et al., "Learning long-range spatial dependencies with horizontal gated recurrent units",
//! arXiv:1805.08315: an image has two long curved paths of dashes, shorter ones as distractors, and two
//! circles, at both ends of one long path or at one end of each. To tell which, a path has to be followed
//! dash by dash. Tay et al., "Long Range Arena", arXiv:2011.04006, section 2.2, read 32 × 32 such pixels as a
//! text of 1,024 values: `sequence = true`. Otherwise they are images for vision models. Both classes have
//! the same paths, dashes and circles.
//!
//! An image is drawn from (seed, split, number). Training has no end; held-out images are the same for every
//! seed, and half of them are joined.

pub mod drawing;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::data::batch::ImageItem;
use crate::data::images::sequence;
use crate::data::synthetic::held_out::{FIXED_SEED, PASS};
use crate::data::{Data, DataSet, ExampleForm, Item, Request, Shape, Source, Split};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use drawing::Drawing;

/// `kind = "pathfinder"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PathfinderConfig {
    /// Height and width of an image in pixels.
    pub size: usize,
    /// Number of dashes of each of the two long paths: 6, 9 and 14 in the paper.
    /// Source: Linsley et al. 2018; Tay et al. 2021, section 2.2.5.
    pub length: usize,
    /// Number of short paths.
    #[schemars(range(max = MOST_DISTRACTORS))]
    pub distractors: usize,
    /// Number of dashes of a short path.
    pub distractor_length: usize,
    /// Whether an image is read as a text, one token for each grey value, row by row.
    pub sequence: bool,
    /// Images in the validation split; 0 for none.
    pub valid_items: usize,
    /// Images in the test split; 0 for none.
    pub test_items: usize,
}

impl Default for PathfinderConfig {
    fn default() -> Self {
        Self {
            size: 32,
            length: 6,
            distractors: 2,
            distractor_length: 2,
            sequence: false,
            valid_items: 1000,
            test_items: 0,
        }
    }
}

/// Names of the classes, in the order of their labels.
const CLASSES: [&str; 2] = ["apart", "joined"];
/// Number of drawings that are tried for an image when a run begins, before its paths are assumed to have no
/// room.
const MAX_DRAWINGS: usize = 1000;
/// Number of images that must each be drawn within [`PATIENCE`] when a run begins.
const CHECKED_IMAGES: u64 = 64;
/// Factor by which more drawings are tried later, so that no image of a run fails.
const RETRY_FACTOR: usize = 100;
/// Upper bounds, so that images are small enough to be read as texts.
const LARGEST: usize = 256;
const LONGEST: usize = 64;
const MOST_DISTRACTORS: usize = 64;
/// Mean and standard deviation by which values from 0 to 1 are normalised, about those of default images.
const MEAN: f32 = 0.1;
const STD: f32 = 0.25;

impl PathfinderConfig {
    /// Returns image number `sample` of a split, drawn from `seed`.
    ///
    /// # Errors
    /// If there is no room for its paths.
    pub fn drawing(&self, seed: u64, split: Split, sample: u64) -> Result<Drawing> {
        self.drawing_within(MAX_DRAWINGS * RETRY_FACTOR, [seed, sample], split)
    }

    fn drawing_within(
        &self,
        patience: usize,
        [seed, sample]: [u64; 2],
        split: Split,
    ) -> Result<Drawing> {
        let at = (sample, split as u64, 0);
        let mut stream = Stream::new(seed, Purpose::Synthetic, at);
        let joined = match split {
            Split::Train => stream.below(2) == 1,
            // The classes are as balanced as possible.
            Split::Valid | Split::Test => sample % 2 == 1,
        };
        let drawn = (0..patience).find_map(|_| drawing::draw(self, joined, &mut stream));
        drawn.ok_or_else(|| {
            Error::usage(format!(
                "[data] none of {patience} attempts to draw an image succeeded: size = {} hardly has room for two paths of length = {} dashes and \
                 distractors = {} of distractor_length = {}; raise size or lower one of the others",
                self.size, self.length, self.distractors, self.distractor_length
            ))
        })
    }
}

impl DataSet for PathfinderConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        let (size, length, short) = (self.size, self.length, self.distractor_length);
        fault(
            !(16..=LARGEST).contains(&size),
            format!("size = {size} must be between 16 and {LARGEST}"),
        );
        fault(
            !(2..=LONGEST).contains(&length),
            format!("length = {length} must be between 2 and {LONGEST} dashes"),
        );
        fault(
            self.distractors > MOST_DISTRACTORS,
            format!(
                "distractors = {} must be at most {MOST_DISTRACTORS}",
                self.distractors
            ),
        );
        fault(
            short == 0 || short >= length,
            format!("distractor_length = {short} must be at least 1 and below length = {length}"),
        );
        faults
    }

    fn example_form(&self) -> ExampleForm {
        match self.sequence {
            true => ExampleForm::Labelled,
            false => ExampleForm::Images,
        }
    }

    fn image(&self) -> Option<[usize; 3]> {
        (!self.sequence).then_some([1, self.size, self.size])
    }

    fn context(&self) -> usize {
        match self.sequence {
            true => self.size * self.size,
            false => 0,
        }
    }

    fn has(&self, split: Split) -> bool {
        match split {
            Split::Train => true,
            Split::Valid => self.valid_items > 0,
            Split::Test => self.test_items > 0,
        }
    }

    fn is_text(&self) -> bool {
        false
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let source = |split, seed, items| Paths {
            config: self.clone(),
            split,
            seed,
            items,
        };
        let held_out = |split, items| -> Option<Arc<dyn Source>> {
            (items > 0).then(|| Arc::new(source(split, FIXED_SEED, items)) as Arc<dyn Source>)
        };
        let classes = CLASSES.map(String::from).to_vec();
        let shape = match self.sequence {
            true => sequence::shape(self.size * self.size, classes),
            false => Shape {
                image: Some([1, self.size, self.size]),
                classes,
                mean: vec![MEAN],
                std: vec![STD],
                ..Shape::default()
            },
        };
        let train = source(Split::Train, request.seed, PASS);
        for sample in 0..CHECKED_IMAGES {
            self.drawing_within(MAX_DRAWINGS, [request.seed, sample], Split::Train)?;
        }
        Ok(Data {
            valid: held_out(Split::Valid, self.valid_items),
            test: held_out(Split::Test, self.test_items),
            ..Data::new(Arc::new(train), shape)
        })
    }
}

struct Paths {
    config: PathfinderConfig,
    split: Split,
    seed: u64,
    items: usize,
}

impl Source for Paths {
    fn len(&self) -> usize {
        self.items
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        let drawing = self.config.drawing(self.seed, self.split, sample)?;
        let label = i32::from(drawing.joined);
        if self.config.sequence {
            return Ok(sequence::item(&drawing.pixels, label));
        }
        let value = |byte: &u8| (f32::from(*byte) / 255.0 - MEAN) / STD;
        Ok(Item::Image(ImageItem {
            pixels: drawing.pixels.iter().map(value).collect(),
            shape: [1, self.config.size, self.config.size],
            label,
            mixed: None,
            views: None,
        }))
    }

    fn size(&self, _sample: u64) -> usize {
        match self.config.sequence {
            true => self.config.size * self.config.size,
            false => 1,
        }
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_endless(&self) -> bool {
        self.split == Split::Train
    }
}
