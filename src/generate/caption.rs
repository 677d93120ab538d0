//! Captions of images: images are read in batches, and captions are found by beam search with key-value caches, where
//! those of an image's vectors are computed once; or they are sampled, token by token.

use super::beam::{BeamConfig, NextScores, SearchStart, TokenRules, search};
use super::decode::DecodeConfig;
use super::next::{Interruptible, column, log_probs, numbers};
use super::{GeneratedText, SamplingConfig, TextGenerator};
use crate::data::Tokenizers;
use crate::data::batch::{ImageBatch, ImageItem};
use crate::error::{Error, Result};
use crate::model::LanguageModel;
use crate::model::decoder::DecoderInput;
use crate::model::vision_language::ImageConditionedDecoder;
use crate::nn::pass::Pass;
use crate::nn::state::StateUse;
use crate::stack::ModelState;
use crate::stop::StopFlag;
use crate::task::{Captioning, Objective};
use crate::tokenizer::{Frame, Tokenizer};
use burn::tensor::Tensor;

/// Writes captions with a model in evaluation mode.
pub struct Captioner<'a> {
    task: &'a Captioning,
    tokenizer: &'a Tokenizer,
    frame: Frame,
    batch_size: usize,
    /// Number of tokens of a caption that the model reads in training.
    context: usize,
    stop: StopFlag,
}

impl<'a> Captioner<'a> {
    /// Builds the writer for a model that writes captions of up to `context` tokens; `None` for any other model.
    ///
    /// # Errors
    /// If the run has no tokenizer, or one without marks around a text.
    pub fn new(
        model: &'a Objective,
        tokenizers: &'a Tokenizers,
        config: &DecodeConfig,
        context: usize,
    ) -> Result<Option<Self>> {
        let Some(task) = model.networks().captioning else {
            return Ok(None);
        };
        let missing = || Error::usage("the run has no tokenizer to convert tokens to text");
        let tokenizer = tokenizers.text.as_ref().ok_or_else(missing)?;
        let frame = tokenizer.frame().ok_or_else(|| {
            Error::usage("the run's vocabulary has no special tokens for the beginning and the end of a caption")
        })?;
        Ok(Some(Self {
            task,
            tokenizer,
            frame,
            batch_size: config.batch_size.max(1),
            context,
            stop: StopFlag::default(),
        }))
    }

    /// Makes the writer return [`Error::Stopped`] when the flag is raised.
    #[must_use]
    pub fn with_stop(self, stop: &StopFlag) -> Self {
        Self {
            stop: stop.clone(),
            ..self
        }
    }

    /// Returns the number of images that are read together.
    pub fn batch_size(&self) -> usize {
        self.batch_size
    }

    /// Returns the tokens that a caption begins with: the mark and a prompt.
    fn prompt_tokens(&self, prompt: &str) -> Result<Vec<u32>> {
        let ids = self.tokenizer.encode(prompt)?;
        let all: Vec<u32> = std::iter::once(self.frame.begin).chain(ids).collect();
        let limit = self.limit();
        match all.len() < limit {
            true => Ok(all),
            false => Err(Error::usage(format!(
                "the prompt has {} tokens with its special token, but the model reads {limit}, including at least one of the \
                 caption; shorten it",
                all.len()
            ))),
        }
    }

    /// Returns the maximum number of tokens of a caption that the decoder reads: in training all but the last of the context.
    fn limit(&self) -> usize {
        let trained = self.context.saturating_sub(1);
        let placed = self.task.model.text.max_len();
        placed.map_or(trained, |limit| limit.min(trained))
    }

    /// Encodes the images, and returns the decoder that attends to them.
    fn encode_images(&self, images: &[ImageItem]) -> ImageConditionedDecoder<'a> {
        let batch = ImageBatch::of(images);
        let pixels = self.task.pixels(&batch);
        let memory = self.task.model.image_memory(pixels, &Pass::evaluation());
        self.task.model.with_images(memory)
    }

    /// Finds the best captions of each image that begin with a prompt, which may be empty, in the order of the images.
    ///
    /// # Errors
    /// If the tokenizer cannot encode the prompt, the prompt is too long for the model, or scores are not finite.
    pub fn write(
        &self,
        images: &[ImageItem],
        prompt: &str,
        config: &BeamConfig,
    ) -> Result<Vec<Vec<GeneratedText>>> {
        let opening = self.prompt_tokens(prompt)?;
        let prompt = match opening.is_empty() {
            true => vec![self.frame.begin],
            false => opening.clone(),
        };
        let room = self.limit().saturating_sub(opening.len());
        let (max_len, limit) = config.limited_len(0, Some(room));
        let before = &prompt[..prompt.len() - 1];
        let start = SearchStart {
            prompt: prompt.clone(),
            max_len,
        };
        let rules = self.rules();
        let mut written = Vec::with_capacity(images.len());
        for some in images.chunks(self.batch_size) {
            self.stop.check()?;
            let mut looking = ImageDecoderState::new(self.encode_images(some));
            for token in before {
                looking.read(&vec![*token; some.len()]);
            }
            let mut model = Interruptible {
                model: Box::new(looking),
                stop: &self.stop,
            };
            let found = search(&mut model, &vec![start.clone(); some.len()], &rules, config)?;
            let text = |tokens: &[u32]| self.text(&opening, tokens);
            let texts = found
                .into_iter()
                .map(|found| GeneratedText::all(found, (max_len, limit), text));
            written.extend(texts);
        }
        Ok(written)
    }

    /// Samples `samples` captions of an image that begin with a prompt, side by side.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn sample(
        &self,
        image: &ImageItem,
        prompt: &str,
        config: &SamplingConfig,
        (samples, seed): (usize, u64),
    ) -> Result<Vec<String>> {
        let opening = self.prompt_tokens(prompt)?;
        let room = self.limit().saturating_sub(opening.len());
        let most = self.max_new_tokens(opening.len(), config)?.min(room);
        let rows = vec![image.clone(); samples];
        let seeing = self.encode_images(&rows);
        let sampling = config.rules(seed);
        let prompts = vec![opening.as_slice(); samples];
        let context = self.context.max(opening.len().saturating_add(most));
        let mut generator = TextGenerator::new(&seeing, context, &prompts)?;
        generator.reserve(most);
        let mut texts: Vec<(Vec<u32>, bool)> = vec![(Vec::new(), false); samples];
        for _ in 0..most {
            self.stop.check()?;
            if texts.iter().all(|(_, ended)| *ended) {
                break;
            }
            for ((text, ended), token) in texts.iter_mut().zip(generator.next(&sampling)) {
                *ended |= token == self.frame.end || config.end.contains(&token);
                text.extend(Some(token).filter(|_| !*ended));
            }
        }
        let texts = texts.iter().map(|(tokens, _)| self.text(&opening, tokens));
        Ok(texts.collect())
    }

    /// Returns the maximum number of tokens to sample after an opening of `opening` tokens, according to the settings.
    fn max_new_tokens(&self, opening: usize, config: &SamplingConfig) -> Result<usize> {
        let Some(length) = config.max_length else {
            return Ok(config.tokens.unwrap_or(self.context));
        };
        let left = length.checked_sub(opening).filter(|left| *left > 0);
        left.ok_or_else(|| {
            Error::usage(format!(
                "the prompt has {opening} tokens with its special token, but the run's [decode.sampling] max_length = {length} \
                 limits prompt and caption together"
            ))
        })
    }

    /// Decodes a caption's text, including its prompt.
    fn text(&self, opening: &[u32], tokens: &[u32]) -> String {
        let all = [opening.get(1..).unwrap_or_default(), tokens].concat();
        self.tokenizer.decode_text(&all)
    }

    /// Returns the rules of the search: a caption ends with the end mark and contains no other special token.
    fn rules(&self) -> TokenRules {
        let specials = self.tokenizer.specials().iter().copied();
        TokenRules {
            ends: vec![self.frame.end],
            banned: specials.filter(|id| *id != self.frame.end).collect(),
        }
    }
}

/// A decoder with the images that it attends to and the state of the tokens it has read.
struct ImageDecoderState<'a> {
    network: ImageConditionedDecoder<'a>,
    state: ModelState,
}

impl<'a> ImageDecoderState<'a> {
    fn new(network: ImageConditionedDecoder<'a>) -> Self {
        Self {
            state: network.empty_state(StateUse::Decoding),
            network,
        }
    }

    /// Reads one token for each row and returns the hidden states, `[rows, 1, d_model]`.
    fn read(&mut self, tokens: &[u32]) -> Tensor<3> {
        let input = DecoderInput::new(column(tokens, &self.network.device()));
        self.network
            .forward(input, Some(&mut self.state), &Pass::evaluation())
    }
}

impl NextScores for ImageDecoderState<'_> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        let hidden = self.read(tokens);
        Ok(log_probs(self.network.logits(hidden)))
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        let numbers = numbers(rows, &self.network.device());
        self.network.select(&numbers);
        self.state.select(&numbers);
        Ok(())
    }
}
