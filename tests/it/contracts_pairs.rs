//! Contracts of encoders and encoder-decoders, over all positions and norm placements: which tokens see which, padding, rows,
//! cached decoding; DeepNorm's factors in two stacks; the prefix mask.

use crate::contracts::{ids, near};
use crate::kinds;
use crate::transfer::{put, values_of};
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use formwork::data::Shape;
use formwork::kernel::{Span, Visibility};
use formwork::model::encoder::EncoderInput;
use formwork::model::encoder_decoder::Source;
use formwork::model::{BuildContext, Encoder, EncoderConfig, EncoderDecoder, EncoderDecoderConfig};
use formwork::nn::init::InitConfig;
use formwork::nn::norm::{LayerNormConfig, NormConfig};
use formwork::nn::pass::Pass;
use formwork::nn::state::StateUse;
use formwork::stack::{NormPlacement, StackConfig};

const VOCAB: usize = 17;
const WIDTH: usize = 16;
const SEQ: usize = 9;
const LENGTHS: [usize; 3] = [9, 5, 7];

fn shape() -> Shape {
    Shape::of_text(12, VOCAB)
}

fn encoder(config: &EncoderConfig) -> Encoder {
    config.init(&BuildContext {
        shape: &shape(),
        seed: 5,
        device: &Device::flex(),
    })
}

fn both(config: &EncoderDecoderConfig) -> EncoderDecoder {
    config.init(&BuildContext {
        shape: &shape(),
        seed: 5,
        device: &Device::flex(),
    })
}

/// Rows of these lengths, padded to `cols` with the token `filling`.
fn rows(lengths: &[usize], cols: usize, filling: i32) -> Vec<i32> {
    let token = |row: usize, col: usize| ((row * 11 + col * 7 + col * col) % VOCAB) as i32;
    let row = |(row, length): (usize, &usize)| {
        let length = *length;
        (0..cols).map(move |col| {
            if col < length {
                token(row, col)
            } else {
                filling
            }
        })
    };
    lengths.iter().enumerate().flat_map(row).collect()
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().iter::<f32>().collect()
}

/// Returns the first `n` vectors of a row.
fn part(values: &[f32], row: usize, cols: usize, n: usize) -> &[f32] {
    part_of(WIDTH, values, row, cols, n)
}

/// The same for vectors of `width` elements.
fn part_of(width: usize, values: &[f32], row: usize, cols: usize, n: usize) -> &[f32] {
    &values[row * cols * width..(row * cols + n) * width]
}

fn hidden(model: &Encoder, values: &[i32], lengths: Option<&[usize]>) -> Vec<f32> {
    let count = lengths.map_or(1, <[usize]>::len);
    let input = EncoderInput {
        ids: ids(values, count),
        segments: None,
        lengths: lengths.map(<[usize]>::to_vec),
        // Attention without global tokens ignores them.
        globals: Some(vec![vec![0]; count].into()),
    };
    floats(model.forward(input, &Pass::evaluation()))
}

#[test]
fn an_encoder_sees_its_text_and_nothing_else() {
    for (name, config) in kinds::encoders() {
        let model = encoder(&config);
        let values = rows(&LENGTHS, SEQ, 0);
        let whole = hidden(&model, &values, Some(&LENGTHS));
        let other = hidden(&model, &rows(&LENGTHS, SEQ, 3), Some(&LENGTHS));
        // The output of a reversible stack may hold both streams side by side.
        let width = whole.len() / (LENGTHS.len() * SEQ);
        for (row, length) in LENGTHS.into_iter().enumerate() {
            let ours = part_of(width, &whole, row, SEQ, length);
            assert_eq!(
                ours,
                part_of(width, &other, row, SEQ, length),
                "{name}: the filling"
            );
            let text = &values[row * SEQ..row * SEQ + length];
            near(&hidden(&model, text, None), ours, &name);
        }
        let mut changed = values.clone();
        changed[SEQ + 4] = (changed[SEQ + 4] + 1) % VOCAB as i32;
        let after = hidden(&model, &changed, Some(&LENGTHS));
        assert_eq!(
            part_of(width, &after, 0, SEQ, SEQ),
            part_of(width, &whole, 0, SEQ, SEQ)
        );
        assert_eq!(
            part_of(width, &after, 2, SEQ, 7),
            part_of(width, &whole, 2, SEQ, 7)
        );
        let first = |x: &[f32]| part_of(width, x, 1, SEQ, 1).to_vec();
        let facts = config.stack.attention.facts();
        let of_blocks = facts.depends_on_absolute_position();
        let sees = of_blocks || first(&after) != first(&whole);
        assert!(sees, "{name}: the first token sees no last");
        let mut changed = values.clone();
        changed[SEQ + 1] = (changed[SEQ + 1] + 1) % VOCAB as i32;
        let after = hidden(&model, &changed, Some(&LENGTHS));
        assert_ne!(first(&after), first(&whole), "{name}: sees no second");
    }
}

#[test]
fn segments_are_told_apart_and_the_first_is_the_default() {
    let model = encoder(&EncoderConfig::default());
    let values = rows(&[4], 4, 0);
    let states = |segments: Option<&[i32]>| {
        let input = EncoderInput {
            ids: ids(&values, 1),
            segments: segments.map(|segments| ids(segments, 1)),
            lengths: None,
            globals: None,
        };
        floats(model.forward(input, &Pass::evaluation()))
    };
    assert_eq!(states(None), states(Some(&[0; 4])));
    assert_ne!(states(None), states(Some(&[0, 0, 1, 1])));
}

fn read(model: &EncoderDecoder, values: &[i32], lengths: Option<&[usize]>) -> Source {
    let count = lengths.map_or(1, <[usize]>::len);
    let lengths = lengths.map(<[usize]>::to_vec);
    model.encode(ids(values, count), lengths, &Pass::evaluation())
}

fn write(model: &EncoderDecoder, target: &[i32], source: &Source) -> Vec<f32> {
    let [count, _, _] = source.states.dims();
    floats(model.decode(ids(target, count), source, None, &Pass::evaluation()))
}

const TARGET: usize = 6;

#[test]
fn a_decoder_sees_its_past_and_all_of_its_source() {
    for (name, config) in kinds::encoder_decoders() {
        let model = both(&config);
        let values = rows(&LENGTHS, SEQ, 0);
        let target = rows(&[TARGET; 3], TARGET, 0);
        let source = read(&model, &values, Some(&LENGTHS));
        let whole = write(&model, &target, &source);
        let other = read(&model, &rows(&LENGTHS, SEQ, 3), Some(&LENGTHS));
        let filled = write(&model, &target, &other);
        assert_eq!(whole, filled, "{name}: what fills the sources up");
        for (row, length) in LENGTHS.into_iter().enumerate() {
            let alone = read(&model, &values[row * SEQ..row * SEQ + length], None);
            let alone = write(&model, &target[row * TARGET..(row + 1) * TARGET], &alone);
            near(&alone, part(&whole, row, TARGET, TARGET), &name);
        }
        let mut later = target.clone();
        later[TARGET + 3] = (later[TARGET + 3] + 1) % VOCAB as i32;
        let later = write(&model, &later, &source);
        near(
            part(&later, 1, TARGET, 3),
            part(&whole, 1, TARGET, 3),
            &name,
        );
        assert_ne!(part(&later, 1, TARGET, 4), part(&whole, 1, TARGET, 4));
        for place in [0, LENGTHS[1] - 1] {
            let mut values = values.clone();
            let token = &mut values[SEQ + place];
            *token = (*token + 1) % VOCAB as i32;
            let changed = write(&model, &target, &read(&model, &values, Some(&LENGTHS)));
            let firsts = [&changed, &whole].map(|x| part(x, 1, TARGET, 1).to_vec());
            assert_ne!(firsts[0], firsts[1], "{name}: source token {place}");
            assert_eq!(part(&changed, 2, TARGET, 1), part(&whole, 2, TARGET, 1));
        }
    }
}

/// Returns columns `from..to` of every row.
fn columns(values: &[i32], cols: usize, from: usize, to: usize) -> Vec<i32> {
    let rows = values.chunks(cols);
    rows.flat_map(|row| row[from..to].to_vec()).collect()
}

#[test]
fn cached_decoding_equals_uncached_and_its_rows_can_be_reordered() {
    for (name, config) in kinds::encoder_decoders() {
        let model = both(&config);
        let mut source = read(&model, &rows(&LENGTHS, SEQ, 0), Some(&LENGTHS));
        let mut target = rows(&[TARGET; 3], TARGET, 0);
        let mut state = model.empty_state(StateUse::Decoding);
        assert_eq!(state.seen, 0);
        let mut at = 0;
        let orders = [vec![0, 1, 2], vec![2, 0, 0], vec![0, 2, 1, 0], vec![3, 1]];
        for (steps, order) in [2, 1, 1, 2].into_iter().zip(orders) {
            let numbers: Vec<i32> = order.iter().map(|row| *row as i32).collect();
            state.select(&Tensor::<1, Int>::from_ints(
                numbers.as_slice(),
                &Device::flex(),
            ));
            source = source.select(&order);
            let row = |row: &usize| target[row * TARGET..(row + 1) * TARGET].to_vec();
            target = order.iter().flat_map(row).collect();
            let whole = write(&model, &target, &source);
            let now = ids(&columns(&target, TARGET, at, at + steps), order.len());
            let new = model.decode(now, &source, Some(&mut state), &Pass::evaluation());
            let new = floats(new);
            for row in 0..order.len() {
                let wanted = &part(&whole, row, TARGET, at + steps)[at * WIDTH..];
                near(part(&new, row, steps, steps), wanted, &name);
            }
            at += steps;
            assert_eq!(state.seen, at);
        }
    }
}

#[test]
fn sources_may_have_a_vocabulary_of_their_own() {
    let config = EncoderDecoderConfig {
        share_embeddings: false,
        stack: StackConfig {
            d_model: WIDTH,
            ..StackConfig::default()
        },
        ..EncoderDecoderConfig::default()
    };
    let shape = Shape {
        source_vocab_size: Some(VOCAB + 9),
        ..shape()
    };
    let model = config.init(&BuildContext {
        shape: &shape,
        seed: 5,
        device: &Device::flex(),
    });
    let source = read(&model, &[VOCAB as i32 + 8, 3], None);
    let hidden = model.decode(ids(&[1, 2], 1), &source, None, &Pass::evaluation());
    assert_eq!(model.logits(hidden).dims(), [1, 2, VOCAB]);
}

/// α and β for 6 and 6, 12 and 6, 100 and 100 layers, from table 2 of Wang et al. 2022.
#[test]
fn deepnorm_s_factors_are_those_of_the_table() {
    for (n, m, [(a, b), (c, d)]) in [
        (6, 6, [(1.4179, 0.4970), (2.0598, 0.3433)]),
        (12, 6, [(1.6862, 0.4179), (2.0598, 0.3433)]),
        (100, 100, [(3.4157, 0.2063), (4.1618, 0.1699)]),
    ] {
        let ours = NormPlacement::Deepnorm.alpha_beta_encoder_decoder(n, m);
        let pairs = ours.into_iter().flat_map(|(a, b)| [a, b]);
        for (ours, table) in pairs.zip([a, b, c, d]) {
            assert!((ours - table).abs() < 1e-4, "{n} and {m}: {ours}, {table}");
        }
    }
    let alone = NormPlacement::Deepnorm.alpha_beta(12);
    assert!((alone.0 - 2.2134).abs() < 1e-4 && (alone.1 - 0.3195).abs() < 1e-4);
}

/// LN(αx + f(x)) = LN(x + f(x)/α): a post-norm model whose sublayer outputs are divided by α is the DeepNorm one. DeepNorm's
/// initial weights are those of the post-norm model, with values, output projections and feed-forward layers multiplied by β.
#[test]
fn deepnorm_acts_in_both_stacks() {
    let placed = |norm_placement| {
        let config = EncoderDecoderConfig {
            n_encoder_layers: Some(3),
            n_decoder_layers: Some(2),
            stack: StackConfig {
                d_model: WIDTH,
                norm_placement,
                init: Some(InitConfig::xavier()),
                norm: NormConfig::Layer(LayerNormConfig {
                    eps: 1e-12,
                    ..LayerNormConfig::default()
                }),
                ..StackConfig::default()
            },
            ..EncoderDecoderConfig::default()
        };
        config.init(&BuildContext {
            shape: &shape(),
            seed: 5,
            device: &Device::flex().autodiff(),
        })
    };
    let deep = placed(NormPlacement::Deepnorm);
    let mut divided = values_of(&deep);
    let plain = values_of(&placed(NormPlacement::Post));
    let [encoder, decoder] = NormPlacement::Deepnorm.alpha_beta_encoder_decoder(3, 2);
    for (path, array) in &mut divided {
        let (alpha, beta) = if path.starts_with("encoder") {
            encoder
        } else {
            decoder
        };
        let scaled = ["value.weight", "output.weight", "up.weight", "down.weight"];
        let scaled = scaled.iter().any(|name| path.ends_with(name));
        let beta = if scaled { beta as f32 } else { 1.0 };
        let expected: Vec<f32> = plain[path].values.iter().map(|x| x * beta).collect();
        near(&array.values, &expected, path);
        if path.contains("output.") || path.contains("down.") {
            array.values.iter_mut().for_each(|x| *x /= alpha as f32);
        }
    }
    let post = put(placed(NormPlacement::Post), &divided);
    let values = rows(&LENGTHS, SEQ, 0);
    let target = rows(&[TARGET; 3], TARGET, 0);
    let run = |model: &EncoderDecoder| {
        let source = read(model, &values, Some(&LENGTHS));
        write(model, &target, &source)
    };
    near(&run(&deep.valid()), &run(&post.valid()), "DeepNorm");
}

#[test]
fn a_prefix_is_seen_from_everywhere_and_the_rest_from_behind() {
    let visible = Visibility {
        prefix: Some([2, 0, 3].into()),
        ..Visibility::causal()
    };
    let mask = visible.dense_mask([3, 1], Span::full(4), &Device::flex());
    let mask = mask.unwrap();
    assert_eq!(mask.dims(), [3, 1, 4, 4]);
    let blocked: Vec<bool> = mask.into_data().iter::<bool>().collect();
    let table = [
        // The prefix has two tokens.
        "..##", "..##", "...#", "....", // No prefix: causal.
        ".###", "..##", "...#", "....", // A prefix of three.
        "...#", "...#", "...#", "....",
    ];
    let expected: Vec<bool> = table.concat().chars().map(|c| c == '#').collect();
    assert_eq!(blocked, expected);
}
