//! Denoising (Lewis et al. 2019, BART, arXiv:1910.13461, section 2.2): a text is corrupted by one or several noises, and
//! the target is the text as it was.
//!
//! Noises follow each other: sentences change places, spans become masks, tokens become masks, tokens are left out, the
//! text is turned. Each takes its share of what the one before left; special tokens, those of a noise before it
//! included, are neither hidden nor left out. `noises` has the noises themselves. Source and target stand in the
//! frame of the vocabulary; masks that spans of no length add may make a source longer than its text, and what then exceeds
//! the context is cut off.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::noises::{self, Stand};
use super::{Corruption, Passage};
use crate::data::PairItem;
use crate::data::text::words;
use crate::error::{Error, Result};
use crate::rng::Stream;
use crate::tokenizer::{Frame, Marks, Tokenizer};

/// `[task]` of denoising: its noises. All that it leaves out is as in BART: spans and sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoiseConfig {
    /// Share of the sentences that change places with each other. Source: Lewis et al. 2020, section 2.2.
    pub permute_sentences: f64,
    /// Share of the words that lie in spans, each of which becomes one mask token.
    /// Source: Lewis et al. 2020, section 2.2.
    pub infill: f64,
    /// Mean words of a span (Poisson). Default 3. Source: Lewis et al. 2020, section 2.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_span: Option<f64>,
    /// Share of the tokens that become a mask token, each for itself. Source: Lewis et al. 2020, section 2.2.
    pub mask: f64,
    /// Share of the masks, of tokens and of spans, in whose place a random token stands. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<f64>,
    /// Share of the tokens that are left out. Source: Lewis et al. 2020, section 2.2.
    pub delete: f64,
    /// Probability that a text begins at a random token, and ends with what stood before it.
    /// Source: Lewis et al. 2020, section 2.2.
    pub rotate: f64,
}

impl Default for NoiseConfig {
    fn default() -> Self {
        Self {
            permute_sentences: 1.0,
            infill: 0.3,
            mean_span: None,
            mask: 0.0,
            random: None,
            delete: 0.0,
            rotate: 0.0,
        }
    }
}

/// Mean words of a span, in the paper.
const MEAN_SPAN: f64 = 3.0;
/// Mean words of any span. Below 1, more spans would be without a word than not.
const SPANS: std::ops::RangeInclusive<f64> = 1.0..=100.0;
/// A token in its frame.
const LEAST_CONTEXT: usize = 3;
/// Tokens around a text.
const FRAME: usize = 2;

impl NoiseConfig {
    /// All faults of its keys, each with its remedy.
    pub(super) fn faults(&self, context: usize) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: String| {
            if wrong {
                faults.push(message);
            }
        };
        for (key, share) in [
            ("infill", self.infill),
            ("mask", self.mask),
            ("delete", self.delete),
        ] {
            fault(
                !(0.0..1.0).contains(&share),
                format!("[task] {key} = {share} must be at least 0 and below 1"),
            );
        }
        for (key, share) in [
            ("permute_sentences", self.permute_sentences),
            ("rotate", self.rotate),
            ("random", self.random.unwrap_or(0.0)),
        ] {
            fault(
                !(0.0..=1.0).contains(&share),
                format!("[task] {key} = {share} must be 0 to 1"),
            );
        }
        let mean = self.mean_span();
        fault(
            !SPANS.contains(&mean),
            format!("[task] mean_span = {mean} must be 1 to 100"),
        );
        fault(
            self.mean_span.is_some() && self.infill == 0.0,
            "[task] mean_span has no effect: infill = 0 makes no spans; leave it out".into(),
        );
        fault(
            self.random.is_some() && self.infill == 0.0 && self.mask == 0.0,
            "[task] random has no effect: infill = 0 and mask = 0 make no masks; leave it out"
                .into(),
        );
        let noises = [
            self.permute_sentences,
            self.infill,
            self.mask,
            self.delete,
            self.rotate,
        ];
        fault(
            noises.iter().all(|share| *share == 0.0),
            "[task] permute_sentences, infill, mask, delete and rotate are all 0: the text would be its own source; \
             set one of them"
                .into(),
        );
        fault(
            context < LEAST_CONTEXT,
            format!(
                "[data] context = {context} is too short for a token in its frame; the least is {LEAST_CONTEXT}"
            ),
        );
        faults
    }

    /// Mean words of a span.
    pub fn mean_span(&self) -> f64 {
        self.mean_span.unwrap_or(MEAN_SPAN)
    }

    /// It for a vocabulary.
    ///
    /// # Errors
    /// A vocabulary without a frame, or without a mask token where masks are wanted.
    pub(super) fn corruption(
        &self,
        tokenizer: &Tokenizer,
        marks: Marks,
        context: usize,
    ) -> Result<Denoising> {
        let frame = tokenizer.frame().ok_or_else(|| {
            Error::usage(
                "the vocabulary has no tokens to put around a text (<s> and </s>, or [CLS] and [SEP]); use the \
                 vocabulary of a BART model, or let [tokenizer] train one",
            )
        })?;
        Ok(Denoising {
            noiser: Noiser::new(self, tokenizer)?,
            frame,
            begin: marks.begin,
            context,
        })
    }
}

/// Draws noises.
pub struct Noiser {
    config: NoiseConfig,
    tokenizer: Tokenizer,
    stand: Stand,
}

impl Noiser {
    /// For texts of a vocabulary.
    ///
    /// # Errors
    /// A vocabulary without a mask token where masks are wanted.
    pub fn new(config: &NoiseConfig, tokenizer: &Tokenizer) -> Result<Self> {
        let masks = config.infill > 0.0 || config.mask > 0.0;
        let mask = match tokenizer.mask() {
            Some(mask) => mask as i32,
            // Never read.
            None if !masks => 0,
            None => {
                return Err(Error::usage(
                    "the vocabulary has no mask token (<mask>, [MASK]); use the vocabulary of a BART model, or let \
                     [tokenizer] train one",
                ));
            }
        };
        let ids = 0..tokenizer.vocab_size() as u32;
        let ordinary = ids.filter(|id| !tokenizer.is_special(*id));
        Ok(Self {
            stand: Stand {
                mask,
                random: config.random.unwrap_or(0.0),
                ordinary: ordinary.map(|id| id as i32).collect(),
            },
            config: config.clone(),
            tokenizer: tokenizer.clone(),
        })
    }

    /// A text with its noises: a function of the text and the stream. `ends` is the place after each of its sentences, the
    /// last one the text's end.
    pub fn corrupt(&self, ids: &[i32], ends: &[usize], stream: &mut Stream) -> Vec<i32> {
        let (config, stand) = (&self.config, &self.stand);
        let mut text = ids.to_vec();
        if config.permute_sentences > 0.0 {
            text = noises::permute_sentences(&text, ends, config.permute_sentences, stream);
        }
        if config.infill > 0.0 {
            let words = words::words(&text, &self.tokenizer);
            let spans = (config.infill, config.mean_span());
            text = noises::infill(&text, &words, spans, stand, stream);
        }
        if config.mask > 0.0 {
            let places = self.ordinary(&text);
            text = noises::mask_tokens(&text, &places, config.mask, stand, stream);
        }
        if config.delete > 0.0 {
            let places = self.ordinary(&text);
            text = noises::delete_tokens(&text, &places, config.delete, stream);
        }
        if config.rotate > 0.0 && f64::from(stream.uniform()) < config.rotate {
            text = noises::rotate(&text, stream);
        }
        text
    }

    /// The places of the tokens that are not special.
    fn ordinary(&self, ids: &[i32]) -> Vec<usize> {
        let ordinary = |at: &usize| !self.tokenizer.is_special(ids[*at] as u32);
        (0..ids.len()).filter(ordinary).collect()
    }
}

/// Texts of one vocabulary and context.
pub(super) struct Denoising {
    noiser: Noiser,
    frame: Frame,
    /// Begins a target.
    begin: u32,
    context: usize,
}

impl Corruption for Denoising {
    fn passage(&self) -> usize {
        self.context - FRAME
    }

    fn pair(&self, passage: &Passage, stream: &mut Stream) -> PairItem {
        let mut source = self.noiser.corrupt(&passage.ids, &passage.ends, stream);
        source.truncate(self.passage());
        let mut target = self.frame.around(&passage.ids);
        // Published BART models begin a target with its end mark, before the frame.
        if self.begin != self.frame.begin {
            target.insert(0, self.begin as i32);
        }
        PairItem {
            source: self.frame.around(&source),
            target,
        }
    }
}
