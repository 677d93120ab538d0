//! Contracts of every retrieval-enhanced decoder: causality to the token, no effect without neighbours, independence of the
//! order of neighbours, the same gradients for every size of micro-batch and under recomputation.

use super::{built, cached, input, logits, part};
use crate::oracle::{difference, values};
use crate::transfer::{gradients_of, values_of};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use formwork::data::NOT_SCORED;
use formwork::data::batch::{Batch, Content};
use formwork::model::LanguageModel;
use formwork::model::decoder::{Decoder, DecoderConfig};
use formwork::nn::neighbours::Neighbours;
use formwork::nn::pass::{Draws, Pass};
use formwork::nn::state::StateUse;
use formwork::task::{CausalLm, CausalLmConfig, Objective};
use formwork::train::gradients::accumulate;
use formwork::train::{optim, parameters};

const VOCAB: usize = 19;
const M: usize = 4;
const K: usize = 2;
const SEQ: usize = 12;
const CHUNKS: usize = SEQ / M;

/// Decoders with retrieval, each with another position scheme or kind of block.
fn configs() -> Vec<(String, DecoderConfig)> {
    let each = [
        "position = { kind = \"rotary\" }",
        "position = { kind = \"learned\" }",
        "position = { kind = \"alibi\" }\nretrieval = { encoder = { position = { kind = \"rotary\" }, d_model = 12, cross = [2], attention = { kind = \"multi_head\", n_heads = 2 } } }",
        "position = { kind = \"none\" }\nlayers = [{ mixer = { kind = \"rwkv\" }, feed_forward = { kind = \"gated\" } }, { attention = { kind = \"multi_head\", n_heads = 4 }, feed_forward = { kind = \"dense\" } }]",
        "position = { kind = \"rotary\" }\nattention = { kind = \"sliding_window\", n_heads = 4, window = 3 }\nretrieval = { encoder = { attention = { kind = \"multi_head\", n_heads = 2 } } }",
    ];
    let of = |keys: &str| -> DecoderConfig {
        let mut table: toml::Table = toml::from_str(
            "n_layers = 4\nd_model = 16\ndropout = 0.0\ninit = { kind = \"xavier\" }\nattention = { kind = \"multi_head\", n_heads = 4 }",
        )
        .unwrap();
        let mut retrieval: toml::Table =
            toml::from_str("chunk = 4\nneighbours = 2\nlayers = [2, 4]").unwrap();
        let keys: toml::Table = toml::from_str(keys).unwrap();
        if keys.contains_key("layers") {
            table.remove("attention");
        }
        table.extend(keys);
        if let Some(toml::Value::Table(more)) = table.remove("retrieval") {
            retrieval.extend(more);
        }
        table.insert("retrieval".into(), retrieval.into());
        table.try_into().unwrap()
    };
    each.iter()
        .map(|keys| ((*keys).to_string(), of(keys)))
        .collect()
}

fn tokens(rows: usize, salt: usize) -> Vec<i32> {
    let each = (0..rows * SEQ).map(|i| ((i * 7 + salt * 5 + i * i) % VOCAB) as i32);
    each.collect()
}

/// Neighbours of every chunk, some shorter than the maximum, one chunk with a single neighbour.
fn found(rows: usize, salt: usize) -> Neighbours {
    let mut all = Neighbours::empty(M, K);
    for place in 0..rows * CHUNKS * K {
        let length = match place {
            3 => 0,
            _ => 2 * M - place % 3,
        };
        let ids = (0..length).map(|i| ((i * i + 3 * place + salt) % VOCAB) as i32);
        all.push(&ids.collect::<Vec<i32>>());
    }
    all
}

fn model(config: &DecoderConfig) -> Decoder {
    built(config, [SEQ, VOCAB], &Device::flex())
}

fn read(model: &Decoder, ids: &[i32], rows: usize, neighbours: Option<Neighbours>) -> Vec<f32> {
    values(logits(model, input(ids, rows, neighbours, &Device::flex())))
}

/// Returns the first position whose logits differ.
fn first_difference(a: &[f32], b: &[f32]) -> Option<usize> {
    let differs = a.iter().zip(b).position(|(a, b)| (a - b).abs() > 1e-6);
    differs.map(|at| at / VOCAB)
}

#[test]
fn a_token_changes_nothing_before_it_and_neighbours_nothing_before_the_end_of_their_chunk() {
    for (name, config) in configs() {
        let (model, ids, texts) = (model(&config), tokens(1, 0), found(1, 0));
        let before = read(&model, &ids, 1, Some(texts.clone()));
        for at in 0..SEQ {
            let mut other = ids.clone();
            other[at] = (other[at] + 1) % VOCAB as i32;
            let after = read(&model, &other, 1, Some(texts.clone()));
            assert_eq!(
                first_difference(&before, &after),
                Some(at),
                "{name}: token {at}"
            );
        }
        for chunk in 0..CHUNKS {
            let mut other = texts.clone();
            other.ids[chunk * K * other.width] =
                (other.ids[chunk * K * other.width] + 1) % VOCAB as i32;
            let after = read(&model, &ids, 1, Some(other));
            let last = chunk * M + M - 1;
            assert_eq!(
                first_difference(&before, &after),
                Some(last),
                "{name}: chunk {chunk}"
            );
        }
    }
}

#[test]
fn without_neighbours_the_layers_are_passed_over() {
    for (name, config) in configs() {
        let (full, ids) = (model(&config), tokens(2, 1));
        let plain = DecoderConfig {
            retrieval: None,
            ..config
        };
        // The parameters that both models have are initialised alike.
        let plain = read(&model(&plain), &ids, 2, None);
        let mut none = Neighbours::empty(M, K);
        (0..2 * CHUNKS * K).for_each(|_| none.push(&[]));
        assert!(read(&full, &ids, 2, None) == plain, "{name}: off");
        assert!(
            read(&full, &ids, 2, Some(none.clone())) == plain,
            "{name}: none found"
        );
        // Chunks without neighbours beside others that have some.
        let mut some = found(2, 0);
        let (lengths, ids_of_row) = (CHUNKS * K, CHUNKS * K * some.width);
        some.lengths[..lengths].fill(0);
        some.ids[..ids_of_row].fill(7);
        let mixed = read(&full, &ids, 2, Some(some.clone()));
        let row = SEQ * VOCAB;
        assert!(
            difference(&mixed[..row], &plain[..row]) < 1e-6,
            "{name}: one row has none"
        );
        assert!(
            difference(&mixed[row..], &plain[row..]) > 1e-3,
            "{name}: the other has some"
        );
    }
}

#[test]
fn the_order_of_neighbours_and_what_fills_them_up_change_nothing() {
    for (name, config) in configs() {
        let (model, ids, texts) = (model(&config), tokens(2, 2), found(2, 3));
        let before = read(&model, &ids, 2, Some(texts.clone()));
        let mut turned = Neighbours::empty(M, K);
        for chunk in 0..2 * CHUNKS {
            for place in (0..K).rev() {
                let at = chunk * K + place;
                let of = &texts.ids[at * texts.width..(at + 1) * texts.width];
                turned.push(&of[..texts.lengths[at]]);
            }
        }
        let off = difference(&read(&model, &ids, 2, Some(turned)), &before);
        assert!(off < 1e-5, "{name}: another order is off by {off:e}");
        let mut filled = texts.clone();
        for (at, length) in texts.lengths.iter().enumerate() {
            filled.ids[at * texts.width + length..(at + 1) * texts.width].fill(5);
        }
        let off = difference(&read(&model, &ids, 2, Some(filled)), &before);
        assert!(off < 1e-6, "{name}: other filling is off by {off:e}");
        let second = read(&model, &ids[SEQ..], 1, Some(second_row(&texts)));
        let off = difference(&second, &before[SEQ * VOCAB..]);
        assert!(off < 1e-5, "{name}: a row by itself is off by {off:e}");
    }
}

fn second_row(texts: &Neighbours) -> Neighbours {
    let (lengths, ids) = (CHUNKS * K, CHUNKS * K * texts.width);
    Neighbours {
        ids: texts.ids[ids..].to_vec(),
        lengths: texts.lengths[lengths..].to_vec(),
        ..*texts
    }
}

#[test]
fn cached_decoding_equals_the_whole_pass() {
    for (name, config) in configs() {
        let (model, ids, texts) = (model(&config), tokens(2, 4), found(2, 1));
        let whole = read(&model, &ids, 2, Some(texts.clone()));
        for step in [1, 2, 3, 5, 7] {
            let off = difference(&values(cached(&model, &ids, 2, &texts, step)), &whole);
            assert!(off < 1e-5, "{name}: {step} at a time is off by {off:e}");
        }
    }
}

#[test]
fn a_state_is_that_of_the_rows_that_are_selected() {
    let (_, config) = configs().remove(0);
    let (model, ids, texts) = (model(&config), tokens(2, 4), found(2, 1));
    let whole = read(&model, &ids, 2, Some(texts.clone()));
    let half = 6;
    let rows = |range: std::ops::Range<usize>| -> Vec<i32> {
        ids.chunks(SEQ)
            .flat_map(|row| row[range.clone()].to_vec())
            .collect()
    };
    let mut state = model.empty_state(StateUse::Decoding);
    let first = input(
        &rows(0..half),
        2,
        Some(part(&texts, CHUNKS, 0..1)),
        &Device::flex(),
    );
    model.forward(first, Some(&mut state), &Pass::evaluation());
    let turned = Tensor::<1, Int>::from_data(TensorData::from([1, 0]), &Device::flex());
    state.select(&turned);
    let swap = |all: Vec<i32>| [&all[all.len() / 2..], &all[..all.len() / 2]].concat();
    let mut later = part(&texts, CHUNKS, 1..CHUNKS);
    later.ids = swap(later.ids);
    let middle = later.lengths.len() / 2;
    later.lengths.rotate_left(middle);
    let rest = input(&swap(rows(half..SEQ)), 2, Some(later), &Device::flex());
    let rest = values(model.logits(model.forward(rest, Some(&mut state), &Pass::evaluation())));
    let expected = [
        &whole[(SEQ + half) * VOCAB..],
        &whole[half * VOCAB..SEQ * VOCAB],
    ]
    .concat();
    let off = difference(&rest, &expected);
    assert!(off < 1e-5, "off by {off:e}");
}

fn task(config: &DecoderConfig) -> Objective<CausalLm> {
    let model = built(config, [SEQ, VOCAB], &Device::flex().autodiff());
    let task = CausalLm::new(model, &CausalLmConfig::default(), 11, false);
    parameters::materialize(parameters::name_parameters(Objective(task)))
}

/// Rows of a step's batch of four.
fn batch(rows: std::ops::Range<usize>) -> Batch {
    let (ids, texts) = (tokens(4, 6), found(4, 2));
    let mut targets: Vec<i32> = ids.iter().map(|id| (id + 3) % VOCAB as i32).collect();
    targets[2] = NOT_SCORED;
    let part = |all: &[i32]| all[rows.start * SEQ..rows.end * SEQ].to_vec();
    let mut batch = crate::batches::of_texts(&part(&ids), &part(&targets), rows.len());
    let each = CHUNKS * K;
    if let Content::Text(of) = &mut batch.content {
        of.neighbours = Some(Neighbours {
            ids: texts.ids[rows.start * each * texts.width..rows.end * each * texts.width].to_vec(),
            lengths: texts.lengths[rows.start * each..rows.end * each].to_vec(),
            ..texts
        });
    }
    Batch {
        first_row: rows.start,
        step_scored: 4 * SEQ - 1,
        step_rows: 4,
        step_tokens: 4 * SEQ,
        step: 3,
        ..batch
    }
}

#[test]
fn every_parameter_learns_alike_by_whatever_micro_batches() {
    for (name, mut config) in configs() {
        config.stack.dropout = 0.1;
        let task = task(&config);
        let whole = accumulate(&task, vec![batch(0..4)]);
        let parts = accumulate(&task, vec![batch(0..1), batch(1..4)]);
        let (whole_of, parts_of) = (
            gradients_of(&task, &whole.gradients),
            gradients_of(&task, &parts.gradients),
        );
        for (path, gradient) in &whole_of {
            let most = gradient
                .values
                .iter()
                .fold(0.0f32, |most, x| most.max(x.abs()));
            assert!(
                most > 0.0 || path.ends_with("key.bias"),
                "{name}: {path} has no gradient"
            );
            let off = difference(&gradient.values, &parts_of[path].values);
            assert!(off < 2e-5, "{name}: {path} is off by {off:e}");
        }
        assert!(whole_of == gradients_of(&task, &accumulate(&task, vec![batch(0..4)]).gradients));
        let before = values_of(&task);
        let adamw = serde_json::from_str("{\"kind\": \"adamw\", \"lr\": 1e-3}").unwrap();
        let mut optimizer = optim::build(&adamw, &task).unwrap();
        let after = values_of(&optimizer.step(1e-3, task, whole.gradients));
        let stays = before
            .iter()
            .find(|(path, value)| after[*path] == **value && !path.ends_with("key.bias"));
        assert!(stays.is_none(), "{name}: {} stays", stays.unwrap().0);
    }
}

#[test]
fn blocks_that_are_computed_anew_have_the_same_gradients() {
    for (name, mut config) in configs() {
        config.stack.dropout = 0.1;
        let device = Device::flex().autodiff();
        let model = built(&config, [SEQ, VOCAB], &device);
        let gradients = |recomputing: bool| {
            let pass = Pass::training(Draws::default());
            let pass = match recomputing {
                true => pass.with_recomputation(),
                false => pass,
            };
            let input = input(&tokens(2, 0), 2, Some(found(2, 0)), &device);
            let y = model.logits(model.forward(input, None, &pass));
            let loss = (y.clone() * y).sum();
            gradients_of(
                &model,
                &GradientsParams::from_grads(loss.backward(), &model),
            )
        };
        let (plain, anew) = (gradients(false), gradients(true));
        for (path, gradient) in &plain {
            let off = difference(&anew[path].values, &gradient.values);
            assert!(off < 1e-6, "{name}: {path} is off by {off:e}");
        }
    }
}
