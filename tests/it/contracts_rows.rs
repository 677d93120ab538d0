//! Rows of a batch, and documents of a row, do not affect each other.

use crate::contracts::{SEQ, VOCAB, build, ids, logits, near, plain, sample};
use crate::kinds::{all, regrouping};
use burn::tensor::Device;
use formwork::kernel::{Documents, Visibility};
use formwork::model::DecoderConfig;
use formwork::model::decoder::DecoderInput;

#[test]
fn packed_documents_equal_documents_alone() {
    let hides = |config: &DecoderConfig| {
        let depth = config.depth();
        let mut blocks = config
            .stack
            .blocks(&depth)
            .filter_map(|block| block.attention);
        // FIRE's relative distances depend on the position in the row, which changes for documents that are not first.
        let by_row = config.stack.position.facts().kind().kind == "fire";
        !by_row
            && blocks.all(|attention| {
                let facts = attention.facts();
                facts.abilities().documents && !facts.depends_on_absolute_position()
            })
    };
    for (name, config) in all().into_iter().filter(|(_, config)| hides(config)) {
        let model = build(&config, &Device::flex());
        let values = sample(1, 2);
        let (first, second) = values.split_at(5);
        let documents: Vec<i32> = (0..SEQ).map(|i| i32::from(i >= 5)).collect();
        let positions: Vec<i32> = (0..SEQ as i32)
            .map(|i| if i >= 5 { i - 5 } else { i })
            .collect();
        let packed = logits(
            &model,
            DecoderInput {
                neighbours: None,
                ids: ids(&values, 1),
                positions: Some(ids(&positions, 1)),
                visible: Visibility {
                    documents: Some(Documents::new(&documents, SEQ)),
                    ..Visibility::causal()
                },
            },
        );
        near(&packed[..5 * VOCAB], &plain(&model, first, 1), &name);
        near(&packed[5 * VOCAB..], &plain(&model, second, 1), &name);
        let across = plain(&model, &values, 1);
        assert_ne!(
            across[5 * VOCAB..],
            packed[5 * VOCAB..],
            "{name}: the mask does nothing"
        );
    }
}

/// Rows do not affect each other even if a later token may change the keys that an earlier query sees.
#[test]
fn rows_are_apart_where_tokens_are_grouped_anew() {
    for (name, config) in regrouping() {
        let model = build(&config, &Device::flex());
        assert!(
            config.stack.attention.facts().depends_on_whole_row(SEQ),
            "{name}"
        );
        let values = sample(2, 0);
        let before = plain(&model, &values, 2);
        let mut changed = values.clone();
        changed[SEQ + 5] = (changed[SEQ + 5] + 1) % VOCAB as i32;
        let after = plain(&model, &changed, 2);
        assert_eq!(after[..SEQ * VOCAB], before[..SEQ * VOCAB], "{name}");
        assert_ne!(after, before, "{name}: a token has no effect");
        let alone = plain(&model, &values[SEQ..], 1);
        near(&alone, &before[SEQ * VOCAB..], &name);
    }
}
