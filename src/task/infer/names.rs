//! Names of a forward pass's arrays, as in Hugging Face's models.

use super::{InferenceOutputs, POOLER_OUTPUT, floats};
use crate::nn::record::{AttentionKey, RecordedValues};
use burn::tensor::TensorData;

/// Collects the arrays of a forward pass by name, batch first, in an order that does not depend on the rows. With
/// `ends_normed` the last of `hidden_states.N` is replaced by the last hidden states, unless these have another shape:
/// a reversible stack puts its two streams side by side in its last hidden states, whereas all of `hidden_states.N` are
/// the second stream.
pub fn arrays(
    inferred: InferenceOutputs,
    mut recorded: RecordedValues,
    ends_normed: bool,
) -> Vec<(String, TensorData)> {
    let mut all = Vec::new();
    for scores in inferred.scores {
        let data = floats(scores.values);
        all.push((scores.name.to_string(), shaped(data, scores.shape)));
    }
    if ends_normed {
        for (network, last) in &recorded.last {
            let mut stream = recorded.hidden_states.iter_mut();
            let end = stream.rfind(|((of, _), _)| of == network);
            if let Some((_, end)) = end.filter(|(_, end)| end.shape() == last.shape()) {
                end.clone_from(last);
            }
        }
    }
    for (network, last) in recorded.last {
        // A network without an encoder, and a decoder, have the usual name without a prefix.
        let prefix = match &network[..] {
            "decoder" => Some(String::new()),
            other => prefix(other),
        };
        all.extend(prefix.map(|p| (format!("{p}last_hidden_state"), last)));
    }
    all.extend(inferred.pooled.map(|x| (POOLER_OUTPUT.to_string(), x)));
    for ((network, number), x) in recorded.hidden_states {
        all.extend(prefix(&network).map(|p| (format!("{p}hidden_states.{number}"), x)));
    }
    for (attended, x) in recorded.attentions {
        let AttentionKey {
            network,
            is_cross: crossed,
            layer,
        } = attended;
        let prefix = match crossed {
            true => Some("cross_".to_string()),
            false => prefix(&network),
        };
        all.extend(prefix.map(|p| (format!("{p}attentions.{layer}"), x)));
    }
    all
}

/// Returns the prefix of the names of a network's arrays; `None` for parts of a network that have no names in Hugging
/// Face's models.
fn prefix(network: &str) -> Option<String> {
    match network {
        "" => Some(String::new()),
        "encoder" | "decoder" => Some(format!("{network}_")),
        _ => None,
    }
}

fn shaped(data: TensorData, shape: Vec<usize>) -> TensorData {
    TensorData::new(data.iter::<f32>().collect::<Vec<f32>>(), shape)
}
