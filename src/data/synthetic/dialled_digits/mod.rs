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
//! The frequencies are from ITU-T Recommendation Q.23. ITU-T Q.24 states what receivers tolerate: tones of 40
//! ms and longer, and a level difference of some dB between the two frequencies. The number of digits, the
//! lengths of tones and pauses, the start, the levels and the noise are random. A number belongs to training
//! or is held out according to a hash of its digits, so that training never contains a held-out number. The
//! numbers of a held-out set are all different, and the set is the same for every seed.

mod tones;

use super::described::{self, Described, ExampleKey};
use super::held_out::HeldOut;
use crate::data::batch::SpeechShape;
use crate::data::speech::{
    SpeechAugmentConfig, SpeechInputs, Transcripts, framing, shape, shape_faults,
};
use crate::data::{Data, DataSet, ExampleForm, Item, Request, Shape, Split, View};
use crate::error::Result;
use crate::rng::Stream;
use crate::tokenizer::{TokenFraming, Tokenizer, TokenizerConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Number of special tokens around a number.
const MARKS: usize = 2;
/// Maximum number of digits.
const MOST_DIGITS: usize = 32;

/// `kind = "dialled_digits"`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DialledDigitsConfig {
    /// Minimum and maximum number of digits.
    pub digits: [usize; 2],
    /// Minimum and maximum length of a tone in seconds.
    pub tone: [f64; 2],
    /// Minimum and maximum length of the pause after a tone in seconds.
    pub pause: [f64; 2],
    /// Standard deviation of the noise; tones have levels of 0.05 to 0.4.
    #[schemars(range(min = 0, max = 1))]
    pub noise: f64,
    /// Length of a recording in seconds.
    #[schemars(range(min = 0.1, max = 600))]
    pub seconds: f64,
    /// Number of mel bands; 0 for the raw samples.
    #[schemars(range(max = 128))]
    pub n_mels: usize,
    /// Whether the samples of a recording are normalised to mean 0 and variance 1, with `n_mels = 0`.
    /// Default: they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normalize: Option<bool>,
    /// Share of all numbers that training never contains, for each held-out set.
    pub held_out: f64,
    /// Recordings in the validation split, at most one for each number that is held out for it; 0 for none.
    pub valid_items: usize,
    /// Recordings in the test split, at most one for each number that is held out for it; 0 for none.
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
            normalize: None,
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

    fn shape(&self) -> SpeechShape {
        shape(self.n_mels, self.seconds, self.normalize)
    }

    fn number(&self, stream: &mut Stream) -> String {
        let [least, most] = self.digits;
        let len = least + stream.below((most - least) as u64 + 1) as usize;
        let mut digit = || char::from(b'0' + stream.below(10) as u8);
        (0..len).map(|_| digit()).collect()
    }
}

/// Returns the tokenizer of the ten digits, with special tokens around a number.
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
                "digits = [{least}, {most}] must be the smallest and the largest number of digits, between 1 and {MOST_DIGITS}"
            ),
        );
        for (name, [short, long], floor) in [("tone", self.tone, 0.02), ("pause", self.pause, 0.0)]
        {
            fault(
                !(short >= floor && short <= long && long <= 10.0),
                format!(
                    "{name} = [{short:?}, {long:?}] must be the shortest and the longest duration in seconds, between {floor:?} and 10.0"
                ),
            );
        }
        let noise = self.noise;
        fault(
            !(0.0..=1.0).contains(&noise),
            format!("noise = {noise} must be between 0 and 1"),
        );
        let longest = most as f64 * (self.tone[1] + self.pause[1]);
        fault(
            in_order && longest > self.seconds,
            format!(
                "seconds = {:?} is too short for {most} digits, which take up to {longest:.2} s with their pauses; set seconds = {:?}",
                self.seconds,
                (longest * 10.0).ceil() / 10.0
            ),
        );
        faults.extend(shape_faults(self.n_mels, self.seconds, self.normalize));
        faults.extend(self.augment.faults(self.n_mels));
        faults
    }

    fn new_run_faults(&self) -> Vec<String> {
        self.augment.new_run_faults()
    }

    fn example_form(&self) -> ExampleForm {
        ExampleForm::Spoken
    }

    fn speech(&self) -> Option<SpeechShape> {
        Some(self.shape())
    }

    fn context(&self) -> usize {
        self.digits[1].saturating_add(MARKS)
    }

    fn has(&self, split: Split) -> bool {
        self.sizes().has(split)
    }

    fn framing(&self, view: &View) -> TokenFraming {
        framing(view)
    }

    fn prepare(&self, request: &Request) -> Result<Data> {
        let tokenizer = match &request.saved_tokenizers.text {
            Some(saved) => saved.clone(),
            None => tokenizer()?,
        };
        let transcripts = Transcripts::new(&tokenizer, request.view)?;
        let shape = Shape {
            speech: Some(self.shape()),
            blank: transcripts.blank(),
            ..Shape::of_text(self.context(), tokenizer.vocab_size())
        };
        let recordings = Recordings {
            config: self.clone(),
            hearing: SpeechInputs::new(self.shape()),
            transcripts,
        };
        described::prepare(recordings, &tokenizer, shape, request)
    }
}

/// A generator of recordings with their numbers.
struct Recordings {
    config: DialledDigitsConfig,
    hearing: SpeechInputs,
    transcripts: Transcripts,
}

impl Described for Recordings {
    const SITE: u64 = 12;
    const HELD_OUT: &'static str = "number";
    const COSTLY: bool = true;
    type Subject = String;

    fn sizes(&self) -> HeldOut {
        self.config.sizes()
    }

    fn draw(&self, stream: &mut Stream) -> String {
        self.config.number(stream)
    }

    fn text(&self, number: &String) -> String {
        number.clone()
    }

    fn size(&self, number: &String) -> usize {
        number.len() + MARKS
    }

    fn item(&self, number: &String, ids: &[i32], taken: &ExampleKey, stream: &mut Stream) -> Item {
        let wave = self.config.dialled(number, stream);
        let mut speech = self.hearing.item(&wave);
        if taken.split == Split::Train {
            let (augment, shape) = (&self.config.augment, speech.shape);
            augment.apply(&mut speech.features, shape, shape.n_frames, taken.key);
        }
        Item::Spoken(self.transcripts.example(speech, ids))
    }
}
