//! The tasks that can be distilled: their outputs, and their own losses computed from these.

use super::outputs::{Distils, Outputs};
use crate::data::batch::Batch;
use crate::data::images::normalise::Renormalise;
use crate::kernel;
use crate::model::LanguageModel;
use crate::model::heads::VocabularyHead;
use crate::nn::pass::Pass;
use crate::task::host::{at, scored};
use crate::task::{
    CausalLm, ImageClassification, MaskedLm, PrefixLm, Scored, TextClassification, Translation,
    causal_lm, host, image_classification,
};
use burn::tensor::{Device, Tensor, TensorData};

/// Returns outputs of a network that writes texts, at its scored positions.
fn written(head: &VocabularyHead, hidden: Tensor<3>, targets: &[i32], device: &Device) -> Outputs {
    let (places, _) = scored(targets);
    let scores = head.logits(at(hidden.clone(), &places, device));
    let [_, n, vocab] = scores.dims();
    Outputs {
        scores: scores.reshape([n, vocab]),
        taught: None,
        pairs: None,
        hidden,
    }
}

/// Returns the loss of the logits at the scored positions of `targets`, in a batch with `items` items read.
fn of_tokens(outputs: &Outputs, targets: &[i32], smoothing: f64, items: usize) -> Scored {
    let (_, targets) = scored(targets);
    let scores = outputs.scores.clone();
    let targets = host::vector(&targets, &scores.device());
    let sum = kernel::cross_entropy_sum(scores, targets, smoothing);
    Scored::new(sum, items as u64)
}

impl Distils for MaskedLm {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let texts = host::texts(batch);
        let device = self.model.embedding.weight.val().device();
        let states = self.read(texts, &device, pass);
        let (places, _) = scored(&texts.targets);
        let picked = at(states.guessing.clone(), &places, &device);
        Outputs {
            scores: self.head.forward(picked, &self.model),
            taught: None,
            pairs: self.pair_scores(&states),
            hidden: states.guessing,
        }
    }

    fn own(&self, outputs: &Outputs, batch: &Batch, _pass: &Pass) -> Scored {
        let texts = host::texts(batch);
        let (_, targets) = scored(&texts.targets);
        let hits = host::hits(&outputs.scores, &targets);
        let scored = of_tokens(outputs, &texts.targets, 0.0, batch.tokens);
        self.with_pairs(scored, hits, outputs.pairs.clone(), texts)
    }
}

impl Distils for CausalLm {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let texts = host::texts(batch);
        let network = self.model.network();
        let device = network.device();
        let hidden = network.forward(causal_lm::input(texts, &device), None, pass);
        written(&network.vocabulary_head(), hidden, &texts.targets, &device)
    }

    fn own(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        let texts = host::texts(batch);
        let items = texts.inputs.len();
        of_tokens(outputs, &texts.targets, self.smoothing(pass), items)
    }
}

impl Distils for Translation {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let pairs = host::pairs(batch);
        let head = self.model.vocabulary_head();
        let device = head.embedding.device();
        let hidden = self.hidden(pairs, &device, pass);
        written(&head, hidden, &pairs.targets, &device)
    }

    fn own(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        let targets = &host::pairs(batch).targets;
        of_tokens(outputs, targets, self.smoothing(pass), batch.tokens)
    }
}

impl Distils for PrefixLm {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let pairs = host::pairs(batch);
        let (hidden, device) = self.of_targets(pairs, pass);
        let head = self.model.vocabulary_head();
        written(&head, hidden, &pairs.targets, &device)
    }

    fn own(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        let targets = &host::pairs(batch).targets;
        of_tokens(outputs, targets, self.smoothing(pass), batch.tokens)
    }
}

impl Distils for TextClassification {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let (scores, hidden) = self.scores_and_hidden(host::texts(batch), &self.device(), pass);
        Outputs {
            scores,
            taught: None,
            pairs: None,
            hidden,
        }
    }

    fn own(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        self.scored(outputs.scores.clone(), batch, pass)
    }
}

/// Converts pixels `[rows, channels, height, width]` to another normalisation.
fn turned(pixels: Tensor<4>, by: &Renormalise) -> Tensor<4> {
    let device = pixels.device();
    let of_channels = |values: &[f32]| {
        let shape = [1, values.len(), 1, 1];
        Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device)
    };
    pixels * of_channels(&by.scale) + of_channels(&by.shift)
}

/// Returns outputs of an image classifier.
fn of_images(classifier: &ImageClassification, pixels: Tensor<4>, pass: &Pass) -> Outputs {
    let seen = classifier.seen(pixels, pass);
    let [rows, d] = seen.features.dims();
    Outputs {
        scores: seen.of_classes,
        taught: seen.distilled,
        pairs: None,
        hidden: seen.features.reshape([rows, 1, d]),
    }
}

impl Distils for ImageClassification {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let device = self.head.weight.val().device();
        let pixels = image_classification::pixels(host::images(batch), &device);
        of_images(self, pixels, pass)
    }

    fn outputs_of(&self, batch: &Batch, pixels: &Renormalise, pass: &Pass) -> Outputs {
        let device = self.head.weight.val().device();
        let read = image_classification::pixels(host::images(batch), &device);
        of_images(self, turned(read, pixels), pass)
    }

    fn own(&self, outputs: &Outputs, batch: &Batch, _pass: &Pass) -> Scored {
        self.loss(outputs.scores.clone(), batch)
    }
}
