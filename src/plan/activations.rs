//! Estimate of the activation memory that training keeps for a batch, from the layers' own counts.

use super::{PlanRequest, generated_length};
use crate::model::{ModelConfig, ThroughputUnit};
use crate::task::TaskConfig;

/// Bytes kept for the backward pass. In each layer these are the inputs of its products and norms. With recomputation, it is only
/// the layer's input (for reversible stacks, nothing), plus the maximum that one layer keeps. In addition: the logits and their
/// gradient; in each row, the hidden states of earlier segments; once per pass, the tensors of distances of a position scheme.
/// For a convolution: its output, the normalised output, and the rectified output.
pub(super) fn activations(question: &PlanRequest) -> u128 {
    let shape = question.shape;
    let maps = 3.0 * question.model.convolution_cost(shape).values * question.value_bytes as f64;
    let maps = (question.micro_batch_size as u128).saturating_mul(maps as u128);
    let (kept, earlier, shared) = match question.model.transformer() {
        None => match question.model.facts().activations_per_token() {
            Some(kept) => (kept, 0, 0),
            None => return maps,
        },
        Some(model) => {
            let (d_model, width) = (model.stack.d_model, model.stack.d_model as u128);
            let attentions = model.blocks().filter_map(|block| block.attention);
            let tokens = row(question);
            let sources = attentions.map(|a| a.query_key_counts(tokens, true)[1]);
            let keys = sources.fold(tokens, usize::max);
            let positions = model.depths().map(|depth| {
                let shape = model.stack.position_shape(&depth, tokens);
                model.stack.position.facts().activations(&shape, keys)
            });
            let shared = positions.fold(0, u128::saturating_add);
            let tables = model.blocks().filter_map(|block| block.mixer);
            let tables = tables.map(|mixer| mixer.shared_activations(tokens)).max();
            let layers = model.blocks().map(|block| {
                let attention = block.attention.map_or(0, |a| a.kept(d_model));
                let mixer = block.mixer.map_or(0, |m| m.activations(d_model));
                let feed_forward = block.feed_forward.map_or(0, |f| f.activations(d_model));
                let scaled = match model.stack.residual_scale.is_none() {
                    true => 0,
                    false => 2 * width,
                };
                6 * width + scaled + attention + mixer + feed_forward
            });
            let again = repeated_blocks(question);
            let layers = match (model.stack.reversible, question.recompute) {
                (Some(_), _) => {
                    // Both final streams, concatenated and as the join reads them, and one layer at a time.
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
            let remembered = remembered.map(|a| a.segment_memory_activations(d_model));
            let neighbours = question.model.facts().neighbour_activations_per_token();
            let layers = layers + neighbours + tables.unwrap_or(0);
            (layers, remembered.sum::<u128>(), shared)
        }
    };
    // Each factor is below 2²⁴ or a tensor's length; their products exceed 2⁶⁴ and may exceed 2¹²⁸.
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

/// Bytes kept by a network that is trained beside the planned one; it reads all positions, even if the planned one reads only
/// some.
pub(super) fn companion_activations(question: &PlanRequest, model: &ModelConfig) -> u128 {
    let reads_all = |task: &&TaskConfig| {
        let seen = task.facts().positions_read(question.model, question.shape);
        seen.is_none()
    };
    activations(&PlanRequest {
        model,
        task: question.task.filter(reads_all),
        ..*question
    })
}

/// Number of positions that see each other: a decoder reads both sides of a pair in one row, each at its maximum length.
pub(super) fn row(question: &PlanRequest) -> usize {
    let (model, shape) = (question.model, question.shape);
    let seen = question
        .task
        .and_then(|task| task.facts().positions_read(model, shape));
    let tokens = seen.unwrap_or_else(|| model.tokens(shape));
    match model.throughput_unit() {
        ThroughputUnit::Token => {
            tokens.saturating_add(generated_length(question.task, tokens).unwrap_or(0))
        }
        ThroughputUnit::Pair | ThroughputUnit::Image | ThroughputUnit::Recording => tokens,
    }
}

/// Number of additional runs of blocks like the last one: one for each step of a mask decoder except the first, and one for each
/// block except one if a query stream goes through them as well.
fn repeated_blocks(question: &PlanRequest) -> u128 {
    let demand = question.task.map(|task| task.facts().demand());
    let model = demand
        .as_ref()
        .map(|demand| question.model.restricted_to(demand));
    let encoder = model.as_ref().and_then(|model| model.masked_lm_encoder());
    let decoder = encoder.and_then(|c| c.mask_decoder.as_ref());
    let queried = demand.is_some_and(|demand| demand.has_query_stream);
    let queried = encoder.filter(|_| queried).map_or(0, |c| c.n_layers());
    decoder.map_or(0, |d| d.steps.max(1) as u128 - 1) + queried.saturating_sub(1) as u128
}
