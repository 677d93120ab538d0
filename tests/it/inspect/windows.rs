//! Sliding windows: each token of a split is scored once, with the loss of a pass over its own window.

use super::{VOCAB, close, decoder, loss, tokens};
use formwork::data::text::ids::InMemoryIds;
use formwork::data::text::windows::{Layout, TextSource};
use formwork::data::{NOT_SCORED, Source, Split};
use formwork::task::{CausalLm, CausalLmConfig, Objective};
use formwork::train::evaluation::{self, evaluate};
use std::sync::Arc;

const CONTEXT: usize = 8;

fn source(length: usize, starts: &[usize], layout: Layout, blocked: bool) -> Arc<dyn Source> {
    let text = InMemoryIds {
        ids: tokens(3, length),
        starts: starts.to_vec(),
    };
    let source = TextSource::new(Arc::new(text), CONTEXT, layout, blocked, Split::Valid);
    Arc::new(source)
}

#[test]
fn a_stride_gives_the_loss_of_one_pass_for_each_token() {
    let model = decoder("n_layers = 2\nd_model = 16\nposition = { kind = \"learned\" }");
    let config = CausalLmConfig::default();
    let task = Objective(CausalLm::new(model.clone(), &config, 1, false));
    for (length, stride) in [(30, 1), (30, 3), (30, 7), (30, 8), (6, 2), (9, 1), (10, 4)] {
        let split = evaluation::Split {
            source: source(length, &[0], Layout::Sliding { stride }, false),
            bytes_per_token: Some(1.0),
            carries_state: false,
            groups: 1,
            contrasts_rows: false,
        };
        let found = evaluate(&task, &split, 4).unwrap();
        let text = tokens(3, length);
        let of_token = |at: usize| {
            // The first window that contains the token; window k begins at k strides.
            let window = at.saturating_sub(CONTEXT).div_ceil(stride);
            loss(&model, &text[window * stride..at], text[at])
        };
        let all: Vec<f64> = (1..length).map(of_token).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        close(
            found.loss,
            mean,
            &format!("{length} tokens, stride {stride}"),
        );
        let bits = found.metrics["bits_per_byte"];
        close(bits, mean / std::f64::consts::LN_2, "bits per byte");
    }
}

#[test]
fn every_token_is_scored_once_in_its_document() {
    let starts = [0, 5, 6, 17, 29];
    let targets = |layout| -> Vec<usize> {
        let source = source(33, &starts, layout, true);
        let mut scored = Vec::new();
        for sample in 0..source.len() as u64 {
            let item = source.get(sample, sample).unwrap().text().unwrap();
            let stride = match layout {
                Layout::Sliding { stride } => stride,
                Layout::Whole | Layout::Covering | Layout::Drawn { .. } => CONTEXT,
            };
            let places = item.targets.iter().enumerate();
            let places = places.filter(|(_, target)| **target != NOT_SCORED);
            scored.extend(places.map(|(i, target)| {
                let at = sample as usize * stride + i + 1;
                assert_eq!(*target, tokens(3, 33)[at]);
                at
            }));
        }
        scored.sort_unstable();
        scored
    };
    let all: Vec<usize> = (1..33).filter(|at| !starts.contains(at)).collect();
    assert!(all.len() > 20 && VOCAB > 8);
    assert_eq!(targets(Layout::Covering), all);
    for stride in [1, 2, 5, 8] {
        assert_eq!(targets(Layout::Sliding { stride }), all, "stride {stride}");
    }
}
