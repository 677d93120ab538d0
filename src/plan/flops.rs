//! FLOPs of a training step per item, from the multiplications that layers, networks and tasks report.

use super::PlanRequest;
use super::activations::row;
use crate::model::{Demand, ThroughputUnit, Use};
use crate::task::TaskConfig;

/// Cost of a training step in forward passes.
pub const FORWARDS: f64 = 3.0;

/// FLOPs of a forward pass over one example: a text, both texts of a pair, an image, or an audio clip with its text.
pub fn forward_flops(question: &PlanRequest) -> f64 {
    let (model, shape) = (question.model, question.shape);
    let products = match question.task {
        Some(task) => task.facts().products(model, shape),
        // Without a task, count as a language model if the network is one, otherwise without heads.
        None => model.products(&Demand::plain(Use::NextTokens), shape),
    };
    2.0 * products
}

/// FLOPs of a training step per item: a token of either side, an image or an audio clip.
pub(super) fn flops(question: &PlanRequest) -> f64 {
    let items = match question.model.throughput_unit() {
        ThroughputUnit::Token => row(question),
        // Tokens of both sides count as items.
        ThroughputUnit::Pair => {
            let context = question.shape.context;
            context.saturating_add(generated_length(question.task, context).unwrap_or(context))
        }
        ThroughputUnit::Image | ThroughputUnit::Recording => 1,
    };
    let forward = forward_flops(question) - 2.0 * shared_per_batch(question);
    (FORWARDS * forward + 2.0 * recomputed(question)) / items.max(1) as f64
}

/// Multiplications per example that are saved because a pass does them only once for all its examples.
fn shared_per_batch(question: &PlanRequest) -> f64 {
    let once = question.model.facts().products_per_pass(question.shape);
    once * (1.0 - 1.0 / question.micro_batch_size.max(1) as f64)
}

/// Multiplications per example that the backward pass repeats: of all blocks, or of chunked feed-forward layers.
fn recomputed(question: &PlanRequest) -> f64 {
    if question.model.parts().is_some() {
        let networks = question.model.networks().into_iter();
        return networks
            .map(|model| recomputed(&PlanRequest { model, ..*question }))
            .sum();
    }
    let Some(model) = question.model.transformer() else {
        let blocks = question.model.facts().products_in_stages(question.shape);
        return match question.recompute {
            true => blocks - shared_per_batch(question),
            false => 0.0,
        };
    };
    let (stack, tokens) = (model.stack, row(question));
    let heard = question.model.encoder_positions(question.shape);
    let written = generated_length(question.task, tokens).unwrap_or(tokens);
    let each = [heard.unwrap_or(tokens), written];
    let again = model.depths().zip(each).map(|(depth, tokens)| {
        if question.recompute || stack.reversible.is_some() {
            let memory = heard.unwrap_or(question.shape.context);
            return stack.products(&depth, tokens, memory);
        }
        let layers = stack.blocks(&depth).filter_map(|block| block.feed_forward);
        let chunked = layers.filter(|layer| layer.chunk().is_some());
        tokens as u128
            * chunked
                .map(|layer| layer.products(stack.d_model))
                .sum::<u128>()
    });
    again.sum::<u128>() as f64
}

/// Length of the longest text that a task generates for an input of `context` tokens; the journal counts these tokens too.
pub fn generated_length(task: Option<&TaskConfig>, context: usize) -> Option<usize> {
    task.and_then(|task| task.facts().longest_written(context))
}
