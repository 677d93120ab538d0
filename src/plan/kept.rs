//! What training keeps in memory of a batch, estimated from the layers' own counts.

use super::{Question, written};
use crate::model::{ItemOf, ModelConfig};
use crate::task::TaskConfig;

/// Bytes kept for the backward pass: in each layer the inputs of its products and of its norms (where activations are
/// computed anew, its input alone, or nothing, and the most that one layer keeps); at the end
/// the logits and their gradient; in each row the hidden states of earlier segments; once a pass what positions make of
/// distances. Of a convolution its result, that normalised, and that rectified.
pub(super) fn activations(question: &Question) -> u128 {
    let shape = question.shape;
    let maps = 3.0 * question.model.convolutions(shape).values * question.value_bytes as f64;
    let maps = (question.micro_batch_size as u128).saturating_mul(maps as u128);
    let (kept, earlier, shared) = match question.model.transformer() {
        None => match question.model.facts().kept() {
            Some(kept) => (kept, 0, 0),
            None => return maps,
        },
        Some(model) => {
            let (d_model, width) = (model.stack.d_model, model.stack.d_model as u128);
            let attentions = model.blocks().filter_map(|block| block.attention);
            let tokens = row(question);
            let sources = attentions.map(|a| a.pairs(tokens, true)[1]);
            let keys = sources.fold(tokens, usize::max);
            let positions = model.depths().map(|depth| {
                let shape = model.stack.position_shape(&depth, tokens);
                model.stack.position.facts().kept(&shape, keys)
            });
            let shared = positions.fold(0, u128::saturating_add);
            let tables = model.blocks().filter_map(|block| block.mixer);
            let tables = tables.map(|mixer| mixer.kept_once(tokens)).max();
            let layers = model.blocks().map(|block| {
                let attention = block.attention.map_or(0, |a| a.kept(d_model));
                let mixer = block.mixer.map_or(0, |m| m.kept(d_model));
                let feed_forward = block.feed_forward.map_or(0, |f| f.kept(d_model));
                let scaled = match model.stack.residual_scale.is_none() {
                    true => 0,
                    false => 2 * width,
                };
                6 * width + scaled + attention + mixer + feed_forward
            });
            let again = runs_again(question);
            let layers = match (model.stack.reversible, question.recompute) {
                (Some(_), _) => {
                    // Both streams at the end, side by side and as the join reads them, and one layer at a time.
                    4 * width + layers.max().unwrap_or(0)
                }
                (None, true) => {
                    let (count, most) =
                        layers.fold((again, 0), |(n, most), x| (n + 1, most.max(x)));
                    count * width + most
                }
                (None, false) => {
                    let (sum, last) = layers.fold((0, 0), |(sum, _), x| (sum + x, x));
                    sum + again * last
                }
            };
            let remembered = model.blocks().filter_map(|block| block.attention);
            let remembered = remembered.map(|a| a.kept_earlier(d_model));
            let neighbours = question.model.facts().kept_of_neighbours();
            let layers = layers + neighbours + tables.unwrap_or(0);
            (layers, remembered.sum::<u128>(), shared)
        }
    };
    // Each factor is below 2²⁴ or a tensor's length; their products pass 2⁶⁴ and may pass 2¹²⁸.
    let tokens = question.micro_batch_size as u128 * row(question) as u128;
    let width = question.model.d_output() as u128;
    let token = kept + 2 * (width + shape.vocab_size as u128);
    let tokens = tokens.saturating_mul(token.saturating_mul(question.value_bytes as u128));
    let earlier = earlier.saturating_mul(question.value_bytes as u128);
    let earlier = earlier.saturating_mul(question.micro_batch_size as u128);
    let shared = shared.saturating_mul(question.value_bytes as u128);
    tokens
        .saturating_add(earlier)
        .saturating_add(maps)
        .saturating_add(shared)
}

/// The same of a network that is trained beside the planned one: it reads all positions, where the other may read some.
pub(super) fn beside(question: &Question, model: &ModelConfig) -> u128 {
    let reads_all = |task: &&TaskConfig| {
        let seen = task.facts().seen(question.model, question.shape);
        seen.is_none()
    };
    activations(&Question {
        model,
        task: question.task.filter(reads_all),
        ..*question
    })
}

/// Positions that see each other: a decoder reads both sides of a pair in one row, each as long as it may be.
pub(super) fn row(question: &Question) -> usize {
    let (model, shape) = (question.model, question.shape);
    let seen = question
        .task
        .and_then(|task| task.facts().seen(model, shape));
    let tokens = seen.unwrap_or_else(|| model.tokens(shape));
    match model.item() {
        ItemOf::Token => tokens.saturating_add(written(question.task, tokens).unwrap_or(0)),
        ItemOf::Pair | ItemOf::Image | ItemOf::Recording => tokens,
    }
}

/// How often blocks like the last one run beyond once each: for each step of a mask decoder but one, and for each block but one
/// where a stream of queries goes through them as well.
fn runs_again(question: &Question) -> u128 {
    let demand = question.task.map(|task| task.facts().demand());
    let model = demand.as_ref().map(|demand| question.model.under(demand));
    let encoder = model.as_ref().and_then(|model| model.guessing());
    let decoder = encoder.and_then(|c| c.mask_decoder.as_ref());
    let queried = demand.is_some_and(|demand| demand.two_streams);
    let queried = encoder.filter(|_| queried).map_or(0, |c| c.n_layers());
    decoder.map_or(0, |d| d.steps.max(1) as u128 - 1) + queried.saturating_sub(1) as u128
}
