//! BigBird against HF's (`tests/goldens/make_big_bird.py` makes the oracle): hidden states, logits, losses and gradients, with
//! the random blocks that the oracle drew; texts short enough to select every block get full attention.

use crate::block_patterns::{at_sizes, forward, near};
use crate::goldens_encoders::{check_task, config, task};
use crate::names;
use crate::oracle::Oracle;
use burn::tensor::Device;
use formwork::data::masked::masking::Pairs;
use formwork::kernel::Visibility;
use formwork::model::EncoderConfig;
use formwork::nn::attention::big_bird::{BigBirdConfig, BlockSparse};
use formwork::nn::attention::{Attention, AttentionConfig};
use formwork::nn::feed_forward::{Activation, DenseConfig, FeedForwardConfig};
use formwork::nn::position::learned::LearnedConfig;
use formwork::stack::StackConfig;
use formwork::task::{MaskedLm, Objective};
use serde_json::json;

fn encoder() -> EncoderConfig {
    let positions = LearnedConfig {
        max_len: Some(40),
        first: 0,
    };
    let plain = config(positions, 2, 1e-12, true);
    EncoderConfig {
        head_activation: Activation::GeluTanh,
        stack: StackConfig {
            attention: AttentionConfig::BigBird(BigBirdConfig {
                block: 4,
                random: 1,
                ..BigBirdConfig::default()
            }),
            feed_forward: FeedForwardConfig::Dense(DenseConfig {
                d_ff: Some(40),
                activation: Activation::GeluTanh,
                bias: true,
                ..DenseConfig::default()
            }),
            ..plain.stack
        },
        ..plain
    }
}

/// Returns the random blocks of each layer, by head and block of queries.
fn plans(oracle: &Oracle) -> Vec<Vec<Vec<Vec<usize>>>> {
    let (shape, numbers) = oracle.integers("plan");
    let blocks = |row: &[i32]| {
        let known = row.iter().filter(|block| **block >= 0);
        known.map(|block| *block as usize).collect::<Vec<_>>()
    };
    let heads = numbers.chunks(shape[2] * shape[3]);
    let heads: Vec<Vec<Vec<usize>>> = heads
        .map(|head| head.chunks(shape[3]).map(blocks).collect())
        .collect();
    heads.chunks(shape[1]).map(<[_]>::to_vec).collect()
}

/// Replaces the random blocks of each layer's attention with these.
fn with_plans(
    mut task: Objective<MaskedLm>,
    plans: &[Vec<Vec<Vec<usize>>>],
) -> Objective<MaskedLm> {
    for (block, plan) in task.0.model.stack.blocks.iter_mut().zip(plans) {
        let Some(Attention::BigBird(heads)) = block.attention.take() else {
            panic!("BigBird's attention")
        };
        let heads = heads.with_weighing(BlockSparse::given(4, plan));
        block.attention = Some(Attention::BigBird(heads));
    }
    task
}

#[test]
fn big_bird_is_hf_s() {
    let device = Device::flex().autodiff();
    let task = task(&encoder(), Pairs::NextSentence, 47, &device);
    let plans = plans(&Oracle::open("big_bird"));
    check_task("big_bird", with_plans(task, &plans), &names::big_bird(2));
}

/// If all blocks are selected, attention is dense, for short texts and longer ones, with partial blocks and padding.
#[test]
fn all_blocks_picked_are_dense_attention() {
    let dense = json!({ "kind": "multi_head", "n_heads": 4, "n_kv_heads": 2 });
    // A text of at most 5 + 2·random blocks gets full attention.
    let short =
        json!({ "kind": "big_bird", "n_heads": 4, "n_kv_heads": 2, "block": 5, "random": 3 });
    let visible = Visibility::from_lengths(&[50, 43]);
    let wanted = forward(&at_sizes(&dense, false), &visible, [50, 43]);
    let found = forward(&at_sizes(&short, false), &visible, [50, 43]);
    near("short", &found, &wanted);

    // A longer text whose plan selects every block, and one whose plan misses a block.
    let plan = |but: usize| -> Vec<Vec<Vec<usize>>> {
        let others = |_| (0..13).filter(|block| *block != but).collect();
        (0..4).map(|_| (0..13).map(others).collect()).collect()
    };
    let given = |but: usize| {
        let blocks =
            json!({ "kind": "big_bird", "n_heads": 4, "n_kv_heads": 2, "block": 4, "random": 2 });
        let Attention::BigBird(heads) = at_sizes(&blocks, false) else {
            panic!("BigBird's attention")
        };
        Attention::BigBird(heads.with_weighing(BlockSparse::given(4, &plan(but))))
    };
    let found = forward(&given(13), &visible, [50, 43]);
    near("by plan", &found, &wanted);
    let fewer = forward(&given(6), &visible, [50, 43]);
    let apart = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-3;
    assert!(fewer.iter().zip(&wanted).any(apart), "a block less counts");
}

/// The last global block and the random ones depend on the row's own length, not on the padded one.
#[test]
fn padding_moves_no_block() {
    let blocks = json!({ "kind": "big_bird", "n_heads": 4, "block": 3, "random": 1, "seed": 7 });
    let layer = at_sizes(&blocks, false);
    let padded = forward(&layer, &Visibility::from_lengths(&[50, 37]), [50, 37]);
    let alone = forward(&layer, &Visibility::from_lengths(&[37, 37]), [37, 37]);
    near("row 1", &padded[50 * 16..], &alone[37 * 16..]);
}
