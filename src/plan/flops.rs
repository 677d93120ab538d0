//! FLOPs of a training step for each item, from what layers, networks and tasks say that they multiply.

use super::Question;
use super::kept::row;
use crate::model::{Demand, ItemOf, Use};
use crate::task::TaskConfig;

/// Forward passes that a training step costs.
pub const FORWARDS: f64 = 3.0;

/// FLOPs of a forward pass over one example: a text, both texts of a pair, an image, or a recording with its text.
pub fn forward_flops(question: &Question) -> f64 {
    let (model, shape) = (question.model, question.shape);
    let products = match question.task {
        Some(task) => task.facts().products(model, shape),
        // As a language model where it writes, without heads elsewhere.
        None => model.products(&Demand::of(Use::NextTokens), shape),
    };
    2.0 * products
}

/// FLOPs of a training step for each item: a token of any side, an image or a recording.
pub(super) fn flops(question: &Question) -> f64 {
    let items = match question.model.item() {
        ItemOf::Token => row(question),
        // Both sides are counted.
        ItemOf::Pair => {
            let context = question.shape.context;
            context.saturating_add(written(question.task, context).unwrap_or(context))
        }
        ItemOf::Image | ItemOf::Recording => 1,
    };
    let forward = forward_flops(question) - 2.0 * spared(question);
    (FORWARDS * forward + 2.0 * computed_again(question)) / items.max(1) as f64
}

/// Multiplications of a pass that one example would cost and an example among others does not: a pass makes them once.
fn spared(question: &Question) -> f64 {
    let once = question.model.facts().products_once(question.shape);
    once * (1.0 - 1.0 / question.micro_batch_size.max(1) as f64)
}

/// Multiplications of an example that the way back makes once more: of all blocks, or of feed-forward layers in chunks.
fn computed_again(question: &Question) -> f64 {
    if question.model.parts().is_some() {
        let networks = question.model.networks().into_iter();
        return networks
            .map(|model| computed_again(&Question { model, ..*question }))
            .sum();
    }
    let Some(model) = question.model.transformer() else {
        let blocks = question.model.facts().products_in_stages(question.shape);
        return match question.recompute {
            true => blocks - spared(question),
            false => 0.0,
        };
    };
    let (stack, tokens) = (model.stack, row(question));
    let heard = question.model.heard(question.shape);
    let written = written(question.task, tokens).unwrap_or(tokens);
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

/// Tokens of the longest text that a task writes for one of `context` tokens, which the journal counts beside it.
pub fn written(task: Option<&TaskConfig>, context: usize) -> Option<usize> {
    task.and_then(|task| task.facts().written(context))
}
