//! `kind = "captioned_shapes"`: generated shapes with a caption, `a red circle left of a blue square`, for
//! networks that compare images with texts. No file is needed.
//!
//! A picture has two shapes of any two colours, side by side or one above the other, or only one shape. Size,
//! position and a small rotation of each are random, on a grey background with normal noise on every pixel. A
//! caption belongs to training or is held out according to its hash, so that a held-out picture shows colours
//! and shapes that training knows in a combination that it never saw. The captions of a held-out set are all
//! different, and the same for every seed.

mod scene;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::described::{self, Described, ExampleKey};
use super::held_out::HeldOut;
use super::shapes::NAMES;
use crate::data::batch::CaptionedItem;
use crate::data::{Data, DataSet, ExampleForm, Item, Request, Shape, Split, View};
use crate::error::{Error, Result};
use crate::rng::Stream;
use crate::tokenizer::{Frame, Tokenizer};
use scene::{COLOURS, MEAN, STD, Scene, words};

/// `kind = "captioned_shapes"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CaptionedShapesConfig {
    /// Height and width of an image in pixels; it has three channels.
    #[schemars(range(min = 16, max = 1024))]
    pub size: usize,
    /// Number of the colours in use: red, green, blue, yellow, purple, cyan, white, pink.
    #[schemars(range(min = 2, max = 8))]
    pub colours: usize,
    /// Number of the shapes in use: circle, square, triangle, cross, star, ring, crescent, bar.
    #[schemars(range(min = 2, max = 8))]
    pub shapes: usize,
    /// Share of the pictures that show only one shape.
    #[schemars(range(min = 0, max = 1))]
    pub alone: f64,
    /// Standard deviation of the noise, of values from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub noise: f64,
    /// Share of all captions that training never sees, for each held-out set.
    pub held_out: f64,
    /// Pictures in the validation split, at most one for each caption that is held out for it; 0 for none.
    pub valid_items: usize,
    /// Pictures in the test split, at most one for each caption that is held out for it; 0 for none.
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

/// Number of words in the longest caption, and of special tokens around it.
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
            format!("size = {size} must be between 16 and 1024"),
        );
        let counts = [
            ("colours", self.colours, COLOURS.len()),
            ("shapes", self.shapes, NAMES.len()),
        ];
        for (name, count, most) in counts {
            fault(
                !(2..=most).contains(&count),
                format!("{name} = {count} must be between 2 and {most}"),
            );
        }
        for (name, share) in [("alone", self.alone), ("noise", self.noise)] {
            fault(
                !(0.0..=1.0).contains(&share),
                format!("{name} = {share} must be between 0 and 1"),
            );
        }
        faults
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Captioned
    }

    fn image(&self) -> Option<[usize; 3]> {
        Some([3, self.size, self.size])
    }

    fn context(&self) -> usize {
        LONGEST + MARKS
    }

    fn has(&self, split: Split) -> bool {
        self.sizes().has(split)
    }

    fn can_be_encoded_separately(&self) -> bool {
        true
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let tokenizer = match &request.saved_tokenizers.text {
            Some(saved) => saved.clone(),
            None => Tokenizer::of_words(&words())?,
        };
        let Some(frame) = tokenizer.frame() else {
            return Err(Error::usage(
                "[data] captioned_shapes needs a vocabulary with special tokens for the ends of a text, but that of the run has none",
            ));
        };
        let shape = Shape {
            image: self.image(),
            mean: vec![MEAN; 3],
            std: vec![STD; 3],
            ..Shape::of_text(self.context(), tokenizer.vocab_size())
        };
        let pictures = Pictures {
            config: self.clone(),
            frame,
            written: *request.view == View::Plain,
        };
        described::prepare(pictures, &tokenizer, shape, request)
    }
}

/// Generator of pictures with their captions in the frame of a vocabulary.
struct Pictures {
    config: CaptionedShapesConfig,
    frame: Frame,
    /// Whether captions are to be generated rather than read.
    written: bool,
}

impl Described for Pictures {
    const SITE: u64 = 3;
    const HELD_OUT: &'static str = "caption";
    const COSTLY: bool = false;
    type Subject = Scene;

    fn sizes(&self) -> HeldOut {
        self.config.sizes()
    }

    fn draw(&self, stream: &mut Stream) -> Scene {
        Scene::draw(&self.config, stream)
    }

    fn text(&self, scene: &Scene) -> String {
        scene.caption()
    }

    fn item(&self, scene: &Scene, ids: &[i32], _taken: &ExampleKey, stream: &mut Stream) -> Item {
        Item::Captioned(CaptionedItem::new(
            scene.image(&self.config, stream),
            self.frame.around(ids),
            CaptionedItem::hash_text(&scene.caption()),
            self.written,
        ))
    }
}
