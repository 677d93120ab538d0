//! `kind = "captioned_shapes"`: drawn shapes with a caption, `a red circle left of a blue square`, for networks that compare
//! images with texts. No file is needed.
//!
//! A picture has two shapes of any two colours, side by side or one above the other, or one shape alone; size, place and a
//! small turn of each are drawn, with a grey background and normal noise on every pixel. A caption belongs to training or is held
//! out by a hash of itself, so that a held-out picture shows colours and shapes that training knows in a combination that it never
//! saw. The captions of a held-out set are all different, and the same for every seed.

mod scene;

use std::collections::HashSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problems::{HeldOut, key};
use super::shapes::NAMES;
use crate::data::batch::CaptionedItem;
use crate::data::written::Captions;
use crate::data::{Data, DataSet, Gives, Item, Request, Shape, Source, Split, Tokenizers, View};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{Frame, Tokenizer};
use scene::{COLOURS, MEAN, STD, Scene, words};

/// `kind = "captioned_shapes"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptionedShapesConfig {
    /// Rows and columns of an image, which has three channels.
    #[schemars(range(min = 16, max = 1024))]
    pub size: usize,
    /// How many of the colours: red, green, blue, yellow, purple, cyan, white, pink.
    #[schemars(range(min = 2, max = 8))]
    pub colours: usize,
    /// How many of the shapes: circle, square, triangle, cross, star, ring, crescent, bar.
    #[schemars(range(min = 2, max = 8))]
    pub shapes: usize,
    /// Share of the pictures that show one shape alone.
    #[schemars(range(min = 0, max = 1))]
    pub alone: f64,
    /// Standard deviation of the noise, of values from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub noise: f64,
    /// Share of all captions that training never sees, for each held-out set.
    pub held_out: f64,
    /// Pictures in the validation split, at most one for each caption that is held out for it; 0 for none.
    pub valid_items: usize,
    /// Pictures in the test split, likewise.
    pub test_items: usize,
}

impl Default for CaptionedShapesConfig {
    fn default() -> Self {
        Self {
            size: 32,
            colours: 6,
            shapes: 6,
            alone: 0.25,
            noise: 0.05,
            held_out: 0.1,
            valid_items: 200,
            test_items: 0,
        }
    }
}

/// Training draws by the run's seed, held-out sets by this one.
const FIXED_SEED: u64 = 0;
/// Sets these draws apart from those of other generators.
const SITE: u64 = 3;
/// Draws before the captions are taken to have no further one of the wanted split.
const PATIENCE: usize = 10_000;
/// The length of one pass over pictures, of which there is no end.
const PASS: usize = 10_000;
/// Words of the longest caption, and the marks around them.
const LONGEST: usize = 8;
const MARKS: usize = 2;

impl CaptionedShapesConfig {
    fn sizes(&self) -> HeldOut {
        HeldOut {
            share: self.held_out,
            valid_items: self.valid_items,
            test_items: self.test_items,
        }
    }

    fn items(&self, split: Split) -> usize {
        match split {
            Split::Train => PASS,
            Split::Valid => self.valid_items,
            Split::Test => self.test_items,
        }
    }

    fn is_of(&self, scene: &Scene, split: Split) -> bool {
        self.sizes().split(key(&scene.caption())) == split
    }

    /// Different scenes of a held-out split, in the order in which a fixed stream draws them.
    fn fixed(&self, split: Split) -> Vec<Scene> {
        let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, (0, split as u64, SITE));
        let (mut seen, mut scenes, mut in_vain) = (HashSet::new(), Vec::new(), 0);
        while scenes.len() < self.items(split) && in_vain < PATIENCE {
            let scene = Scene::draw(self, &mut stream);
            if self.is_of(&scene, split) && seen.insert(scene) {
                scenes.push(scene);
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
        scenes
    }
}

fn too_few(split: Split) -> Error {
    Error::usage(format!(
        "[data] held_out leaves no caption for the {} split; choose another share",
        split.name()
    ))
}

impl DataSet for CaptionedShapesConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.sizes().faults();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        let size = self.size;
        fault(
            !(16..=1024).contains(&size),
            format!("size = {size} must be 16 to 1024"),
        );
        let counts = [
            ("colours", self.colours, COLOURS.len()),
            ("shapes", self.shapes, NAMES.len()),
        ];
        for (name, count, most) in counts {
            fault(
                !(2..=most).contains(&count),
                format!("{name} = {count} must be 2 to {most}"),
            );
        }
        for (name, share) in [("alone", self.alone), ("noise", self.noise)] {
            fault(
                !(0.0..=1.0).contains(&share),
                format!("{name} = {share} must be 0 to 1"),
            );
        }
        faults
    }

    fn gives(&self) -> Gives {
        Gives::Captioned
    }

    fn image(&self) -> Option<[usize; 3]> {
        Some([3, self.size, self.size])
    }

    fn context(&self) -> usize {
        LONGEST + MARKS
    }

    fn has(&self, split: Split) -> bool {
        self.items(split) > 0
    }

    fn can_be_read_alone(&self) -> bool {
        true
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let tokenizer = match &request.saved.text {
            Some(saved) => saved.clone(),
            None => Tokenizer::of_words(&words())?,
        };
        let Some(frame) = tokenizer.frame() else {
            return Err(Error::usage(
                "[data] captioned_shapes needs a vocabulary with tokens around texts, and the run's has none",
            ));
        };
        let source = |split, seed| Pictures {
            scenes: match split {
                Split::Train => Vec::new(),
                Split::Valid | Split::Test => self.fixed(split),
            },
            config: self.clone(),
            tokenizer: tokenizer.clone(),
            frame,
            split,
            seed,
            written: *request.view == View::AsItIs,
        };
        let held_out = |split| -> Result<Option<Arc<dyn Source>>> {
            let source = self.has(split).then(|| source(split, FIXED_SEED));
            match source {
                Some(source) if source.scenes.is_empty() => Err(too_few(split)),
                source => Ok(source.map(|source| Arc::new(source) as Arc<dyn Source>)),
            }
        };
        let train = source(Split::Train, request.seed);
        train.get(0, 0)?;
        let shape = Shape {
            image: self.image(),
            mean: vec![MEAN; 3],
            std: vec![STD; 3],
            ..Shape::of_text(self.context(), tokenizer.vocab_size())
        };
        let mut data = Data {
            valid: held_out(Split::Valid)?,
            test: held_out(Split::Test)?,
            tokenizers: Tokenizers::one(tokenizer.clone()),
            ..Data::new(Arc::new(train), shape)
        };
        for split in [Split::Valid, Split::Test] {
            let captions = self.fixed(split).into_iter();
            let captions = captions.map(|scene| vec![scene.caption()]);
            *data.captions.get_mut(split) = Captions::behind(&data, split, request, captions);
        }
        Ok(data)
    }
}

/// Pictures of a split: those of `scenes`, or drawn without end.
struct Pictures {
    config: CaptionedShapesConfig,
    scenes: Vec<Scene>,
    tokenizer: Tokenizer,
    frame: Frame,
    split: Split,
    seed: u64,
    /// Whether captions are to be written, and are not read.
    written: bool,
}

impl Pictures {
    fn scene(&self, sample: u64, stream: &mut Stream) -> Result<Scene> {
        if self.split != Split::Train {
            return Ok(self.scenes[sample as usize]);
        }
        let mut drawn = (0..PATIENCE).map(|_| Scene::draw(&self.config, stream));
        drawn
            .find(|scene| self.config.is_of(scene, Split::Train))
            .ok_or_else(|| too_few(Split::Train))
    }
}

impl Source for Pictures {
    fn len(&self) -> usize {
        match self.split {
            Split::Train => PASS,
            Split::Valid | Split::Test => self.scenes.len(),
        }
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        // Of numbers that no held-out caption is drawn from.
        let place = (sample, Split::ALL.len() as u64 + self.split as u64, SITE);
        let mut stream = Stream::new(self.seed, Purpose::Synthetic, place);
        let scene = self.scene(sample, &mut stream)?;
        let caption = scene.caption();
        let ids = self.tokenizer.encode(&caption)?.into_iter();
        let ids: Vec<i32> = ids.map(|id| id as i32).collect();
        Ok(Item::Captioned(CaptionedItem::new(
            scene.image(&self.config, &mut stream),
            self.frame.around(&ids),
            CaptionedItem::number(&caption),
            self.written,
        )))
    }

    fn split(&self) -> Split {
        self.split
    }

    fn drawn(&self) -> bool {
        self.split == Split::Train
    }
}
