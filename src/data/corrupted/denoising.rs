//! Denoising (Lewis et al. 2019, BART, arXiv:1910.13461, section 2.2): a text is corrupted by one or several
//! noises, and the target is the original text.
//!
//! Noises are applied in this order: sentences are permuted, spans become masks, tokens become masks, tokens
//! are deleted, the text is rotated. Each takes its share of what the noise before left. Special tokens,
//! including those of an earlier noise, are neither masked nor deleted. `noises` implements the noises.
//! Source and target stand in the frame of the vocabulary. Masks for spans of length 0 may make a source
//! longer than its text; what then exceeds the context is cut off.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::noises::{self, Replacement};
use super::{Corruption, Passage};
use crate::data::PairItem;
use crate::data::text::words;
use crate::error::{Error, Result};
use crate::rng::Stream;
use crate::tokenizer::{Frame, Marks, Tokenizer};

/// `[task]` of denoising: its noises. Keys that are left out are as in BART: spans and sentences.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoiseConfig {
    /// Share of the sentences that are permuted. Source: Lewis et al. 2020, section 2.2.
    pub permute_sentences: f64,
    /// Share of the words that lie in spans, each of which becomes one mask token.
    /// Source: Lewis et al. 2020, section 2.2.
    pub infill: f64,
    /// Mean length of a span in words (Poisson). Default 3. Source: Lewis et al. 2020, section 2.2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_span: Option<f64>,
    /// Share of the tokens that are each replaced by a mask token. Source: Lewis et al. 2020, section 2.2.
    pub mask: f64,
    /// Share of the masks, of tokens and of spans, that are replaced by a random token. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<f64>,
    /// Share of the tokens that are deleted. Source: Lewis et al. 2020, section 2.2.
    pub delete: f64,
    /// Probability that a text is rotated to begin at a random token, followed at its end by the tokens
    /// before it.
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

/// Mean length of a span in words, in the paper.
const MEAN_SPAN: f64 = 3.0;
/// Allowed mean lengths of a span in words. Below 1, most spans would have no word.
const SPANS: std::ops::RangeInclusive<f64> = 1.0..=100.0;
/// One token in its frame.
const LEAST_CONTEXT: usize = 3;
/// Number of special tokens around a text.
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
                format!("[task] {key} = {share} must be between 0 and 1"),
            );
        }
        let mean = self.mean_span();
        fault(
            !SPANS.contains(&mean),
            format!("[task] mean_span = {mean} must be between 1 and 100"),
        );
        fault(
            self.mean_span.is_some() && self.infill == 0.0,
            "[task] mean_span has no effect: infill = 0 makes no spans; remove it".into(),
        );
        fault(
            self.random.is_some() && self.infill == 0.0 && self.mask == 0.0,
            "[task] random has no effect: infill = 0 and mask = 0 make no masks; remove it".into(),
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
            "[task] permute_sentences, infill, mask, delete and rotate are all 0, so source and target would be the same text; \
             set one of them"
                .into(),
        );
        fault(
            context < LEAST_CONTEXT,
            format!(
                "[data] context = {context} is too short for a token between special tokens; the minimum is {LEAST_CONTEXT}"
            ),
        );
        faults
    }

    /// Returns the mean length of a span in words.
    pub fn mean_span(&self) -> f64 {
        self.mean_span.unwrap_or(MEAN_SPAN)
    }

    /// Builds the corruption for a vocabulary.
    ///
    /// # Errors
    /// If the vocabulary has no frame, or no mask token although the noises need one.
    pub(super) fn corruption(
        &self,
        tokenizer: &Tokenizer,
        marks: Marks,
        context: usize,
    ) -> Result<Denoising> {
        let frame = tokenizer.frame().ok_or_else(|| {
            Error::usage(
                "the vocabulary has no special tokens for the ends of a text (<s> and </s>, or [CLS] and [SEP]); use the \
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

/// Draws noises and applies them to texts.
pub struct Noiser {
    config: NoiseConfig,
    tokenizer: Tokenizer,
    replacement: Replacement,
}

impl Noiser {
    /// Builds a noiser for texts of a vocabulary.
    ///
    /// # Errors
    /// If the vocabulary has no mask token although the noises need one.
    pub fn new(config: &NoiseConfig, tokenizer: &Tokenizer) -> Result<Self> {
        let masks = config.infill > 0.0 || config.mask > 0.0;
        let mask = match tokenizer.mask() {
            Some(mask) => mask as i32,
            // Never used.
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
            replacement: Replacement {
                mask,
                random: config.random.unwrap_or(0.0),
                ordinary: ordinary.map(|id| id as i32).collect(),
            },
            config: config.clone(),
            tokenizer: tokenizer.clone(),
        })
    }

    /// Returns the corrupted text: a function of the text and the stream. `ends` holds the position after
    /// each sentence; the last is the end of the text.
    pub fn corrupt(&self, ids: &[i32], ends: &[usize], stream: &mut Stream) -> Vec<i32> {
        let (config, stand) = (&self.config, &self.replacement);
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

    /// Returns the positions of the tokens that are not special.
    fn ordinary(&self, ids: &[i32]) -> Vec<usize> {
        let ordinary = |at: &usize| !self.tokenizer.is_special(ids[*at] as u32);
        (0..ids.len()).filter(ordinary).collect()
    }
}

/// Denoising of texts of one vocabulary and context.
pub(super) struct Denoising {
    noiser: Noiser,
    frame: Frame,
    /// Token that begins a target.
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
        // Published BART models begin a target with its end token, before the frame.
        if self.begin != self.frame.begin {
            target.insert(0, self.begin as i32);
        }
        PairItem {
            source: self.frame.around(&source),
            target,
        }
    }
}
