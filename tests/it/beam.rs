//! Beam search against enumeration, against a plain greedy search, and against values computed by hand.

mod folders;
mod hugging_face;
mod rules;

use formwork::error::Result;
use formwork::generate::beam::{
    AverageConfig, BeamConfig, GnmtConfig, Hypothesis, LengthPenalty, NextScores, NoPenaltyConfig,
    SearchStart, TokenRules, search,
};
use formwork::rng::mix;

const END: u32 = 0;
const FIRST: u32 = 9;

/// A model whose log-probabilities are a function of all tokens that a row has read.
struct Model<F> {
    scores: F,
    rows: Vec<Vec<u32>>,
    /// Number of rows in each call.
    calls: Vec<usize>,
}

impl<F: Fn(&[u32]) -> Vec<f32>> Model<F> {
    fn new(sentences: usize, scores: F) -> Self {
        Self {
            scores,
            rows: vec![Vec::new(); sentences],
            calls: Vec::new(),
        }
    }
}

impl<F: Fn(&[u32]) -> Vec<f32>> NextScores for Model<F> {
    fn next(&mut self, tokens: &[u32]) -> Result<Vec<f32>> {
        assert_eq!(tokens.len(), self.rows.len());
        self.calls.push(tokens.len());
        for (row, token) in self.rows.iter_mut().zip(tokens) {
            row.push(*token);
        }
        Ok(self
            .rows
            .iter()
            .flat_map(|row| (self.scores)(row))
            .collect())
    }

    fn select(&mut self, rows: &[usize]) -> Result<()> {
        self.rows = rows.iter().map(|row| self.rows[*row].clone()).collect();
        Ok(())
    }
}

fn normalised(logits: Vec<f64>) -> Vec<f32> {
    let sum: f64 = logits.iter().map(|l| l.exp()).sum();
    logits.iter().map(|l| (l - sum.ln()) as f32).collect()
}

/// A random model of `vocab_size` tokens; the end-of-text token becomes likelier as a text grows.
fn random(seed: u64, vocab_size: usize, spread: f64) -> impl Fn(&[u32]) -> Vec<f32> {
    move |read: &[u32]| {
        let key = read.iter().fold(mix(seed), |k, t| mix(k ^ u64::from(*t)));
        let logit = |token: u64| {
            let uniform = mix(key ^ mix(token + 1)) as f64 / u64::MAX as f64;
            spread * uniform
                + if token == 0 {
                    0.2 * read.len() as f64
                } else {
                    0.0
                }
        };
        normalised((0..vocab_size as u64).map(logit).collect())
    }
}

fn log(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() as f32).collect()
}

fn rules() -> TokenRules {
    TokenRules {
        ends: vec![END],
        banned: Vec::new(),
    }
}

fn sentence(max_len: usize) -> SearchStart {
    SearchStart {
        prompt: vec![FIRST],
        max_len,
    }
}

fn config(beam: usize, n_best: usize, length_penalty: LengthPenalty) -> BeamConfig {
    BeamConfig {
        beam,
        n_best,
        length_penalty,
        ..BeamConfig::default()
    }
}

fn penalties() -> [LengthPenalty; 6] {
    let gnmt = |alpha| LengthPenalty::Gnmt(GnmtConfig { alpha });
    let average = |alpha| LengthPenalty::Average(AverageConfig { alpha });
    let none = LengthPenalty::None(NoPenaltyConfig {});
    [
        none,
        gnmt(0.6),
        gnmt(2.0),
        average(1.0),
        average(0.3),
        average(-0.5),
    ]
}

/// Returns every text of at most `max_len` tokens with its score, best first.
fn enumerated(
    scores: &dyn Fn(&[u32]) -> Vec<f32>,
    max_len: usize,
    penalty: LengthPenalty,
) -> Vec<Hypothesis> {
    let mut all = Vec::new();
    let mut open = vec![(vec![FIRST], 0.0f64)];
    while let Some((read, log_prob)) = open.pop() {
        let next = scores(&read);
        let ended = log_prob + f64::from(next[END as usize]);
        all.push(Hypothesis {
            tokens: read[1..].to_vec(),
            log_prob: ended,
            score: ended / penalty.divisor(read.len()),
        });
        if read.len() <= max_len {
            for (token, score) in next.iter().enumerate().skip(1) {
                let mut longer = read.clone();
                longer.push(token as u32);
                open.push((longer, log_prob + f64::from(*score)));
            }
        }
    }
    all.sort_by(|a, b| b.score.total_cmp(&a.score));
    all
}

#[test]
fn a_beam_that_holds_everything_finds_the_best_texts_in_order() {
    for seed in 0..12 {
        let model = random(seed, 4, 3.0);
        for penalty in penalties() {
            let all = enumerated(&model, 4, penalty);
            // 1 + 3 + 9 + 27 + 81 texts.
            assert_eq!(all.len(), 121);
            for n_best in [1, 5, 121] {
                let config = config(200, n_best, penalty);
                let mut model = Model::new(1, &model);
                let found = search(&mut model, &[sentence(4)], &rules(), &config).unwrap();
                assert_eq!(found[0], all[..n_best], "seed {seed}, {penalty:?}");
            }
        }
    }
}

/// A model in which greedy search finds a text of probability 0.6 · 0.35, though one of 0.4 · 0.9 exists.
fn crossroads(read: &[u32]) -> Vec<f32> {
    log(match read {
        [_] => &[0.0, 0.6, 0.4],
        [_, 1] => &[0.3, 0.35, 0.35],
        [_, 2] => &[0.9, 0.05, 0.05],
        _ => &[1.0, 0.0, 0.0],
    })
}

#[test]
fn a_beam_finds_what_greed_misses() {
    let none = LengthPenalty::None(NoPenaltyConfig {});
    let best = |beam| {
        let mut model = Model::new(1, crossroads);
        let config = config(beam, 1, none);
        search(&mut model, &[sentence(9)], &rules(), &config).unwrap()[0][0].clone()
    };
    assert_eq!(best(1).tokens, [1, 1]);
    assert!((best(1).log_prob.exp() - 0.6 * 0.35).abs() < 1e-6);
    assert_eq!(best(2).tokens, [2]);
    assert!((best(2).log_prob.exp() - 0.36).abs() < 1e-6);
}

/// A model that gives the empty text probability 0.4, and a text of two tokens 0.36.
fn short_or_long(read: &[u32]) -> Vec<f32> {
    log(match read.len() {
        1 => &[0.4, 0.6],
        2 => &[0.0, 1.0],
        _ => &[0.6, 0.4],
    })
}

#[test]
fn length_penalties_by_hand() {
    let scores = |penalty| {
        let mut model = Model::new(1, short_or_long);
        let config = config(2, 2, penalty);
        let found = search(&mut model, &[sentence(2)], &rules(), &config).unwrap();
        let text = |h: &Hypothesis| (h.tokens.clone(), h.score);
        found[0].iter().map(text).collect::<Vec<_>>()
    };
    // A text of two tokens reaches the limit; its end is scored nevertheless: 0.6 · 1 · 0.6.
    let (short, long) = (0.4f64.ln(), 0.36f64.ln());
    let [none, _, gnmt, average, _, _] = penalties();
    for (penalty, expected) in [
        (none, [(0, short), (2, long)]),
        // ((5 + 3) / 6)² = 16/9 and ((5 + 1) / 6)² = 1.
        (gnmt, [(2, long * 9.0 / 16.0), (0, short)]),
        (average, [(2, long / 3.0), (0, short)]),
    ] {
        let found = scores(penalty);
        for ((tokens, score), (len, by_hand)) in found.iter().zip(expected) {
            assert_eq!(tokens, &vec![1; len], "{penalty:?}");
            assert!(
                (score - by_hand).abs() < 1e-6,
                "{penalty:?}: {score} {by_hand}"
            );
        }
    }
}

#[test]
fn a_beam_of_one_is_greedy_search() {
    for seed in 0..200 {
        let model = random(seed, 30, 6.0);
        let mut read = vec![FIRST];
        while read.len() <= 20 {
            let scores = model(&read);
            let best = (0..30)
                .rev()
                .max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
            match best {
                Some(0) | None => break,
                Some(token) => read.push(token as u32),
            }
        }
        for length_penalty in penalties() {
            let config = BeamConfig {
                length_penalty,
                ..BeamConfig::greedy()
            };
            let mut model = Model::new(1, &model);
            let found = search(&mut model, &[sentence(20)], &rules(), &config).unwrap();
            assert_eq!(found[0][0].tokens, read[1..], "seed {seed}");
        }
    }
}

/// Beam search without early stopping: every hypothesis continues until it ends or is crowded out of the beam.
fn to_the_end(
    scores: &dyn Fn(&[u32]) -> Vec<f32>,
    max_len: usize,
    config: &BeamConfig,
) -> Vec<Hypothesis> {
    let mut open = vec![(vec![FIRST], 0.0f64)];
    let mut ended: Vec<Hypothesis> = Vec::new();
    while !open.is_empty() {
        let mut next = Vec::new();
        for (read, log_prob) in &open {
            let last = read.len() > max_len;
            for (token, score) in scores(read).into_iter().enumerate() {
                if !last || token == END as usize {
                    next.push((read, token as u32, log_prob + f64::from(score)));
                }
            }
        }
        next.sort_by(|a, b| b.2.total_cmp(&a.2));
        next.truncate(if config.beam == 1 { 1 } else { 2 * config.beam });
        let mut longer = Vec::new();
        for (rank, (read, token, log_prob)) in next.into_iter().enumerate() {
            if token == END && rank < config.beam {
                ended.push(Hypothesis {
                    tokens: read[1..].to_vec(),
                    log_prob,
                    score: log_prob / config.length_penalty.divisor(read.len()),
                });
            } else if token != END && longer.len() < config.beam {
                let mut read = read.clone();
                read.push(token);
                longer.push((read, log_prob));
            }
        }
        open = longer;
    }
    ended.sort_by(|a, b| b.score.total_cmp(&a.score));
    ended.truncate(config.n_best);
    ended
}

#[test]
fn ending_early_changes_no_result_and_saves_steps() {
    let mut saved = 0;
    for seed in 0..60 {
        let model = random(seed, 12, 4.0);
        for penalty in penalties() {
            for (beam, n_best) in [(1, 1), (3, 1), (4, 4), (7, 3)] {
                let config = config(beam, n_best, penalty);
                let mut counted = Model::new(1, &model);
                let found = search(&mut counted, &[sentence(25)], &rules(), &config).unwrap();
                assert_eq!(found[0], to_the_end(&model, 25, &config), "seed {seed}");
                saved += usize::from(counted.calls.len() < 26);
            }
        }
    }
    assert!(saved > 700, "{saved}");
    // If a text almost surely ends at once, the search stops long before the length limit.
    let mut model = Model::new(1, |_: &[u32]| log(&[0.99, 0.005, 0.005]));
    search(
        &mut model,
        &[sentence(100_000)],
        &rules(),
        &BeamConfig::default(),
    )
    .unwrap();
    assert!(model.calls.len() < 10, "{:?}", model.calls.len());
}

#[test]
fn sources_side_by_side_are_as_one_by_one_and_leave_when_they_are_done() {
    // The first token identifies the source.
    let source = |number: u32| SearchStart {
        prompt: vec![100 + number],
        max_len: 4 + 3 * (number as usize % 5),
    };
    let sources: Vec<SearchStart> = (0..11).map(source).collect();
    let model = random(5, 15, 5.0);
    for penalty in penalties() {
        let config = config(4, 3, penalty);
        let mut together = Model::new(11, &model);
        let found = search(&mut together, &sources, &rules(), &config).unwrap();
        for (source, found) in sources.iter().zip(found) {
            let mut alone = Model::new(1, &model);
            let one = search(&mut alone, std::slice::from_ref(source), &rules(), &config).unwrap();
            assert_eq!(one[0], found);
        }
        assert_eq!(together.calls[0], 11);
        assert!(together.calls[1..].iter().all(|rows| *rows <= 44));
        assert!(together.calls.last() < together.calls.iter().max());
    }
    let mut none = Model::new(0, &model);
    assert!(
        search(&mut none, &[], &rules(), &BeamConfig::default())
            .unwrap()
            .is_empty()
    );
}
