//! The tasks that can be distilled: their outputs, and their own losses computed from these.

use super::outputs::{Distillable, Outputs};
use crate::data::batch::Batch;
use crate::data::images::normalise::Renormalise;
use crate::kernel;
use crate::model::LanguageModel;
use crate::model::heads::VocabularyHead;
use crate::nn::pass::Pass;
use crate::task::host::{gather_at, scored_targets};
use crate::task::{
    CausalLm, ImageClassification, MaskedLm, PrefixLm, Scored, TextClassification, Translation,
    causal_lm, host, image_classification,
};
use burn::tensor::{Device, Tensor, TensorData};

/// Returns outputs of a network that writes texts, at its scored positions.
fn text_outputs(
    head: &VocabularyHead,
    hidden: Tensor<3>,
    targets: &[i32],
    device: &Device,
) -> Outputs {
    let (places, _) = scored_targets(targets);
    let scores = head.logits(gather_at(hidden.clone(), &places, device));
    let [_, n, vocab] = scores.dims();
    Outputs {
        scores: scores.reshape([n, vocab]),
        distilled_scores: None,
        pairs: None,
        hidden,
    }
}

/// Returns the loss of the logits at the scored positions of `targets`, in a batch with `items` items read.
fn token_loss(outputs: &Outputs, targets: &[i32], smoothing: f64, items: usize) -> Scored {
    let (_, targets) = scored_targets(targets);
    let scores = outputs.scores.clone();
    let targets = host::vector(&targets, &scores.device());
    let sum = kernel::cross_entropy_sum(scores, targets, smoothing);
    Scored::new(sum, items as u64)
}

impl Distillable for MaskedLm {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let texts = host::texts(batch);
        let device = self.model.embedding.weight.val().device();
        let states = self.read(texts, &device, pass);
        let (places, _) = scored_targets(&texts.targets);
        let picked = gather_at(states.prediction.clone(), &places, &device);
        Outputs {
            scores: self.head.forward(picked, &self.model),
            distilled_scores: None,
            pairs: self.pair_scores(&states),
            hidden: states.prediction,
        }
    }

    fn own_loss(&self, outputs: &Outputs, batch: &Batch, _pass: &Pass) -> Scored {
        let texts = host::texts(batch);
        let (_, targets) = scored_targets(&texts.targets);
        let hits = host::count_hits(&outputs.scores, &targets);
        let scored = token_loss(outputs, &texts.targets, 0.0, batch.tokens);
        self.with_pairs(scored, hits, outputs.pairs.clone(), texts)
    }
}

impl Distillable for CausalLm {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let texts = host::texts(batch);
        let network = self.model.network();
        let device = network.device();
        let hidden = network.forward(causal_lm::input(texts, &device), None, pass);
        text_outputs(&network.vocabulary_head(), hidden, &texts.targets, &device)
    }

    fn own_loss(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        let texts = host::texts(batch);
        let items = texts.inputs.len();
        token_loss(outputs, &texts.targets, self.smoothing(pass), items)
    }
}

impl Distillable for Translation {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let pairs = host::pairs(batch);
        let head = self.model.vocabulary_head();
        let device = head.embedding.device();
        let hidden = self.hidden(pairs, &device, pass);
        text_outputs(&head, hidden, &pairs.targets, &device)
    }

    fn own_loss(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        let targets = &host::pairs(batch).targets;
        token_loss(outputs, targets, self.smoothing(pass), batch.tokens)
    }
}

impl Distillable for PrefixLm {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let pairs = host::pairs(batch);
        let (hidden, device) = self.target_states(pairs, pass);
        let head = self.model.vocabulary_head();
        text_outputs(&head, hidden, &pairs.targets, &device)
    }

    fn own_loss(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        let targets = &host::pairs(batch).targets;
        token_loss(outputs, targets, self.smoothing(pass), batch.tokens)
    }
}

impl Distillable for TextClassification {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let (scores, hidden) = self.scores_and_hidden(host::texts(batch), &self.device(), pass);
        Outputs {
            scores,
            distilled_scores: None,
            pairs: None,
            hidden,
        }
    }

    fn own_loss(&self, outputs: &Outputs, batch: &Batch, pass: &Pass) -> Scored {
        self.scored(outputs.scores.clone(), batch, pass)
    }
}

/// Converts pixels `[rows, channels, height, width]` to another normalisation.
fn renormalise(pixels: Tensor<4>, by: &Renormalise) -> Tensor<4> {
    let device = pixels.device();
    let of_channels = |values: &[f32]| {
        let shape = [1, values.len(), 1, 1];
        Tensor::<4>::from_data(TensorData::new(values.to_vec(), shape), &device)
    };
    pixels * of_channels(&by.scale) + of_channels(&by.shift)
}

/// Returns outputs of an image classifier.
fn image_outputs(classifier: &ImageClassification, pixels: Tensor<4>, pass: &Pass) -> Outputs {
    let seen = classifier.outputs(pixels, pass);
    let [rows, d] = seen.features.dims();
    Outputs {
        scores: seen.class_logits,
        distilled_scores: seen.distilled,
        pairs: None,
        hidden: seen.features.reshape([rows, 1, d]),
    }
}

impl Distillable for ImageClassification {
    fn outputs(&self, batch: &Batch, pass: &Pass) -> Outputs {
        let device = self.head.weight.val().device();
        let pixels = image_classification::pixels(host::images(batch), &device);
        image_outputs(self, pixels, pass)
    }

    fn outputs_renormalised(&self, batch: &Batch, pixels: &Renormalise, pass: &Pass) -> Outputs {
        let device = self.head.weight.val().device();
        let read = image_classification::pixels(host::images(batch), &device);
        image_outputs(self, renormalise(read, pixels), pass)
    }

    fn own_loss(&self, outputs: &Outputs, batch: &Batch, _pass: &Pass) -> Scored {
        self.loss(outputs.scores.clone(), batch)
    }
}
