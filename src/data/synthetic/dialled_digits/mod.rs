//! `kind = "dialled_digits"`: telephone numbers as their dialling tones, with the digits as transcript. No file is needed.
//!
//! ```text
//! x(t) = a (sin(2π f_row t + φ) + r sin(2π f_column t + ψ)) + noise          while a key is held
//!          1209 Hz  1336 Hz  1477 Hz
//! 697 Hz      1        2        3
//! 770 Hz      4        5        6
//! 852 Hz      7        8        9
//! 941 Hz               0
//! ```
//!
//! ITU-T Recommendation Q.23 has the frequencies; ITU-T Q.24 is what receivers bear: tones of 40 ms and longer, and levels of the two that differ by
//! some dB. How many digits there are, the lengths of tones and pauses, the beginning, the levels and the noise are drawn. A number belongs to training or
//! is held out by a hash of its digits, so that training never hears a number that is held out. The numbers of a held-out set are all
//! different, and it is the same for every seed.

mod tones;

use super::problems::{FIXED_SEED, HeldOut, PASS, key};
use crate::data::batch::{SpeechItem, SpeechShape, SpokenItem};
use crate::data::speech::{LogMel, SpeechAugmentConfig, marks, shape, shape_faults};
use crate::data::written::Captions;
use crate::data::{Data, DataSet, Gives, Item, Request, Shape, Source, Split, Tokenizers, View};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream};
use crate::tokenizer::{Around, Edges, Tokenizer, TokenizerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;

/// Sets these draws apart from those of other generators.
const SITE: u64 = 12;
/// Draws before the numbers are taken to have no further one of the wanted split.
const PATIENCE: usize = 10_000;
/// Marks around a number.
const MARKS: usize = 2;
/// Digits of a number at most.
const MOST_DIGITS: usize = 32;

/// `kind = "dialled_digits"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DialledDigitsConfig {
    /// The fewest and the most digits of a number.
    pub digits: [usize; 2],
    /// The shortest and the longest tone in seconds.
    pub tone: [f64; 2],
    /// The shortest and the longest pause after a tone in seconds.
    pub pause: [f64; 2],
    /// Standard deviation of the noise; tones have levels of 0.05 to 0.4.
    #[schemars(range(min = 0, max = 1))]
    pub noise: f64,
    /// Length of a recording.
    #[schemars(range(min = 0.1, max = 600))]
    pub seconds: f64,
    /// Bands of the features.
    #[schemars(range(min = 1, max = 128))]
    pub n_mels: usize,
    /// Share of all numbers that training never hears, for each held-out set.
    pub held_out: f64,
    /// Recordings in the validation split, at most one for each number that is held out for it; 0 for none.
    pub valid_items: usize,
    /// Recordings in the test split, likewise.
    pub test_items: usize,
    /// How training recordings are masked.
    pub augment: SpeechAugmentConfig,
}

impl Default for DialledDigitsConfig {
    fn default() -> Self {
        Self {
            digits: [3, 7],
            tone: [0.06, 0.15],
            pause: [0.04, 0.12],
            noise: 0.01,
            seconds: 2.0,
            n_mels: 80,
            held_out: 0.1,
            valid_items: 200,
            test_items: 0,
            augment: SpeechAugmentConfig::default(),
        }
    }
}

impl DialledDigitsConfig {
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

    fn shape(&self) -> SpeechShape {
        shape(self.n_mels, self.seconds)
    }

    fn number(&self, stream: &mut Stream) -> String {
        let [least, most] = self.digits;
        let len = least + stream.below((most - least) as u64 + 1) as usize;
        let mut digit = || char::from(b'0' + stream.below(10) as u8);
        (0..len).map(|_| digit()).collect()
    }

    fn is_of(&self, number: &str, split: Split) -> bool {
        self.sizes().split(key(number)) == split
    }

    /// Different numbers of a held-out split, in the order in which a fixed stream draws them.
    fn fixed(&self, split: Split) -> Vec<String> {
        let mut stream = Stream::new(FIXED_SEED, Purpose::Synthetic, (0, split as u64, SITE));
        let (mut seen, mut numbers, mut in_vain) = (HashSet::new(), Vec::new(), 0);
        while numbers.len() < self.items(split) && in_vain < PATIENCE {
            let number = self.number(&mut stream);
            if self.is_of(&number, split) && seen.insert(number.clone()) {
                numbers.push(number);
                in_vain = 0;
            } else {
                in_vain += 1;
            }
        }
        numbers
    }
}

fn too_few(split: Split) -> Error {
    Error::usage(format!(
        "[data] held_out leaves no number for the {} split; choose another share",
        split.name()
    ))
}

/// The ten digits, and marks around a number.
fn tokenizer() -> Result<Tokenizer> {
    let digits = TokenizerConfig::characters().with_frame(false);
    Tokenizer::build(&digits, &["0123456789"])
}

impl DataSet for DialledDigitsConfig {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.sizes().faults();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        let [least, most] = self.digits;
        let in_order = least >= 1 && least <= most && most <= MOST_DIGITS;
        fault(
            !in_order,
            format!(
                "digits = [{least}, {most}] must be the fewest and the most digits of a number, 1 to {MOST_DIGITS}"
            ),
        );
        for (name, [short, long], floor) in [("tone", self.tone, 0.02), ("pause", self.pause, 0.0)]
        {
            fault(
                !(short >= floor && short <= long && long <= 10.0),
                format!(
                    "{name} = [{short:?}, {long:?}] must be the shortest and the longest in seconds, {floor:?} to 10.0"
                ),
            );
        }
        let noise = self.noise;
        fault(
            !(0.0..=1.0).contains(&noise),
            format!("noise = {noise} must be 0 to 1"),
        );
        let longest = most as f64 * (self.tone[1] + self.pause[1]);
        fault(
            in_order && longest > self.seconds,
            format!(
                "seconds = {:?} is too short for {most} digits, which take up to {longest:.2} with their pauses; set seconds = {:?}",
                self.seconds,
                (longest * 10.0).ceil() / 10.0
            ),
        );
        faults.extend(shape_faults(self.n_mels, self.seconds));
        faults.extend(self.augment.faults(self.n_mels));
        faults
    }

    fn new_run_faults(&self) -> Vec<String> {
        self.augment.new_run_faults()
    }

    fn gives(&self) -> Gives {
        Gives::Spoken
    }

    fn speech(&self) -> Option<SpeechShape> {
        Some(self.shape())
    }

    fn context(&self) -> usize {
        self.digits[1].saturating_add(MARKS)
    }

    fn has(&self, split: Split) -> bool {
        self.items(split) > 0
    }

    fn around(&self, _view: &View) -> Around {
        Around::Edges
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let tokenizer = match &request.saved.text {
            Some(saved) => saved.clone(),
            None => tokenizer()?,
        };
        let marks = marks(&tokenizer)?;
        let source = |split, seed| Recordings {
            numbers: match split {
                Split::Train => Vec::new(),
                Split::Valid | Split::Test => self.fixed(split),
            },
            config: self.clone(),
            log_mel: LogMel::new(self.n_mels),
            tokenizer: tokenizer.clone(),
            marks: marks.clone(),
            split,
            seed,
        };
        let held_out = |split| -> Result<Option<Arc<dyn Source>>> {
            let source = self.has(split).then(|| source(split, FIXED_SEED));
            match source {
                Some(source) if source.numbers.is_empty() => Err(too_few(split)),
                source => Ok(source.map(|source| Arc::new(source) as Arc<dyn Source>)),
            }
        };
        let train = source(Split::Train, request.seed);
        train.get(0, 0)?;
        let shape = Shape {
            speech: Some(self.shape()),
            ..Shape::of_text(self.context(), tokenizer.vocab_size())
        };
        let mut data = Data {
            valid: held_out(Split::Valid)?,
            test: held_out(Split::Test)?,
            tokenizers: Tokenizers::one(tokenizer.clone()),
            ..Data::new(Arc::new(train), shape)
        };
        for split in [Split::Valid, Split::Test] {
            let texts = self.fixed(split).into_iter().map(|number| vec![number]);
            *data.captions.get_mut(split) = Captions::behind(&data, split, request, texts);
        }
        Ok(data)
    }
}

/// Recordings of a split: of `numbers`, or drawn without end.
struct Recordings {
    config: DialledDigitsConfig,
    numbers: Vec<String>,
    log_mel: LogMel,
    tokenizer: Tokenizer,
    marks: Edges,
    split: Split,
    seed: u64,
}

impl Recordings {
    /// The draws of a recording, from which no held-out number is drawn.
    fn stream(&self, sample: u64) -> Stream {
        let place = (sample, Split::ALL.len() as u64 + self.split as u64, SITE);
        Stream::new(self.seed, Purpose::Synthetic, place)
    }

    fn number(&self, sample: u64, stream: &mut Stream) -> Result<String> {
        if self.split != Split::Train {
            return Ok(self.numbers[sample as usize].clone());
        }
        let mut drawn = (0..PATIENCE).map(|_| self.config.number(stream));
        drawn
            .find(|number| self.config.is_of(number, Split::Train))
            .ok_or_else(|| too_few(Split::Train))
    }
}

impl Source for Recordings {
    fn len(&self) -> usize {
        match self.split {
            Split::Train => PASS,
            Split::Valid | Split::Test => self.numbers.len(),
        }
    }

    fn get(&self, sample: u64, draw: u64) -> Result<Item> {
        let mut stream = self.stream(sample);
        let number = self.number(sample, &mut stream)?;
        let wave = self.config.dialled(&number, &mut stream);
        let shape = self.config.shape();
        let mut features = self.log_mel.features(&wave, shape.n_frames);
        if self.split == Split::Train {
            let key = (self.seed, draw, sample);
            let augment = &self.config.augment;
            augment.apply(&mut features, shape, shape.n_frames, key);
        }
        let ids = self.tokenizer.encode(&number)?.into_iter();
        let ids: Vec<i32> = ids.map(|id| id as i32).collect();
        let speech = SpeechItem { features, shape };
        Ok(Item::Spoken(SpokenItem::new(
            speech,
            &self.marks.around(&ids),
        )))
    }

    fn size(&self, sample: u64) -> usize {
        // What cannot be drawn is an error when it is taken.
        let number = self.number(sample, &mut self.stream(sample));
        number.map_or(1, |number| number.len() + MARKS)
    }

    fn split(&self) -> Split {
        self.split
    }

    fn is_costly(&self) -> bool {
        true
    }

    fn drawn(&self) -> bool {
        self.split == Split::Train
    }
}
