//! The names of a forward pass's arrays, as Hugging Face's models have them.

use super::{Inferred, POOLER_OUTPUT, floats};
use crate::nn::record::{Attended, Recorded};
use burn::tensor::TensorData;

/// The arrays of a forward pass by their names, batch first, in an order that does not depend on the rows. With
/// `ends_normed` the last hidden states stand for the last of `hidden_states.N` too, unless they are wider: where a reversible
/// stack puts its streams side by side, all of `hidden_states.N` are the second one.
pub fn arrays(
    inferred: Inferred,
    mut recorded: Recorded,
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
        // A network alone and one that writes have the usual name.
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
        let Attended {
            network,
            crossed,
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

/// The beginning of the names of a network's arrays; `None` for parts of a network that have no names there.
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
