//! Batches made by hand.

use formwork::data::Split;
use formwork::data::batch::{
    Batch, CaptionedBatch, Content, ImageBatch, PairBatch, SpeechBatch, SpokenBatch, TextBatch,
};
use formwork::nn::neighbours::Neighbours;
use std::ops::Range;

/// Builds a batch that is a whole step.
pub fn of(content: Content, rows: usize) -> Batch {
    let (scored, tokens) = (content.scored(), content.tokens());
    let second = content.second();
    Batch {
        content,
        samples: (0..rows as u64).collect(),
        rows,
        first_row: 0,
        scored,
        class_weights: None,
        weight: 0.0,
        second,
        tokens,
        step_scored: scored,
        step_weight: 0.0,
        step_second: second,
        step_tokens: tokens,
        step_rows: rows,
        step: 0,
        steps: 0,
        begins: None,
        split: Split::Train,
        watch: None,
        recompute: false,
        keeps_sums_on_device: false,
    }
}

/// Builds a batch of texts of one length with a target for each token.
pub fn of_texts(inputs: &[i32], targets: &[i32], rows: usize) -> Batch {
    let texts = TextBatch {
        inputs: inputs.to_vec(),
        targets: targets.to_vec(),
        cols: inputs.len() / rows,
        ..TextBatch::default()
    };
    of(Content::Text(texts), rows)
}

/// Marks these micro-batches as parts of one step.
pub fn in_one_step(mut micros: Vec<Batch>, step: usize) -> Vec<Batch> {
    let scored = micros.iter().map(|batch| batch.scored).sum();
    let weight = micros.iter().map(|batch| batch.weight).sum();
    let tokens = micros.iter().map(|batch| batch.tokens).sum();
    let second = micros.iter().map(|batch| batch.second).sum();
    let rows = micros.iter().map(|batch| batch.rows).sum();
    let mut first_row = 0;
    for batch in &mut micros {
        (batch.step_scored, batch.step_rows) = (scored, rows);
        (batch.step_tokens, batch.step_second) = (tokens, second);
        batch.step_weight = weight;
        (batch.first_row, batch.step) = (first_row, step as u64);
        first_row += batch.rows;
    }
    micros
}

/// Returns some rows of a batch; with `tight`, cut to the length of the longest of them.
pub fn cut(batch: &Batch, rows: Range<usize>, tight: bool) -> Batch {
    let longest = |lengths: &[usize], cols: usize| match tight {
        true => lengths.iter().copied().max().unwrap_or(cols),
        false => cols,
    };
    let columns = |values: &[i32], from: usize, to: usize| -> Vec<i32> {
        let rows = values.chunks(from).skip(rows.start).take(rows.len());
        rows.flat_map(|row| row[..to].to_vec()).collect()
    };
    let of_rows = |texts: &TextBatch| {
        let lengths = texts.lengths.as_ref().map(|l| l[rows.clone()].to_vec());
        let cols = longest(lengths.as_deref().unwrap_or_default(), texts.cols);
        let part = |values: &Vec<i32>| columns(values, texts.cols, cols);
        TextBatch {
            inputs: part(&texts.inputs),
            targets: part(&texts.targets),
            documents: texts.documents.as_ref().map(part),
            second: texts.second.as_ref().map(part),
            segments: texts.segments.as_ref().map(part),
            labels: texts.labels.as_ref().map(|l| l[rows.clone()].to_vec()),
            neighbours: texts
                .neighbours
                .as_ref()
                .map(|found| of_chunks(found, texts.inputs.len() / texts.cols.max(1), &rows)),
            classes: texts.classes.as_ref().map(|c| c[rows.clone()].to_vec()),
            numbers: texts.numbers.as_ref().map(|n| n[rows.clone()].to_vec()),
            asked: texts.asked.as_ref().map(|a| a[rows.clone()].to_vec()),
            lengths: lengths.filter(|lengths| lengths.iter().any(|n| *n < cols)),
            cols,
            segment_lengths: if tight { [0; 2] } else { texts.segment_lengths },
        }
    };
    let content = match &batch.content {
        Content::Text(texts) => Content::Text(of_rows(texts)),
        Content::Captioned(captioned) => {
            let images = &captioned.images;
            let each: usize = images.shape.iter().product();
            Content::Captioned(CaptionedBatch {
                images: ImageBatch {
                    pixels: images.pixels[rows.start * each..rows.end * each].to_vec(),
                    labels: images.labels[rows.clone()].to_vec(),
                    ..images.clone()
                },
                captions: of_rows(&captioned.captions),
                texts: captioned.texts[rows.clone()].to_vec(),
            })
        }
        Content::Spoken(spoken) => {
            let speech = &spoken.speech;
            let each = match speech.width {
                0 => speech.n_mels * speech.n_frames,
                width => width,
            };
            let lengths = speech.lengths.get(rows.clone()).unwrap_or_default();
            Content::Spoken(SpokenBatch {
                speech: SpeechBatch {
                    features: speech.features[rows.start * each..rows.end * each].to_vec(),
                    rows: rows.len(),
                    lengths: lengths.to_vec(),
                    ..*speech
                },
                transcripts: of_rows(&spoken.transcripts),
            })
        }
        Content::Pairs(pairs) => {
            let source_lengths = pairs.source_lengths[rows.clone()].to_vec();
            let target_lengths = pairs.target_lengths[rows.clone()].to_vec();
            let source_cols = longest(&source_lengths, pairs.source_cols);
            let target_cols = longest(&target_lengths, pairs.target_cols);
            Content::Pairs(PairBatch {
                source: columns(&pairs.source, pairs.source_cols, source_cols),
                inputs: columns(&pairs.inputs, pairs.target_cols, target_cols),
                targets: columns(&pairs.targets, pairs.target_cols, target_cols),
                source_lengths,
                target_lengths,
                source_cols,
                target_cols,
            })
        }
        Content::Images(_) => panic!("images are all of one size"),
    };
    of(content, rows.len())
}

/// Returns the retrieved neighbours of `rows`, out of `count` rows.
fn of_chunks(found: &Neighbours, count: usize, rows: &Range<usize>) -> Neighbours {
    let each = found.lengths.len() / count.max(1);
    let lengths = rows.start * each..rows.end * each;
    Neighbours {
        ids: found.ids[lengths.start * found.width..lengths.end * found.width].to_vec(),
        lengths: found.lengths[lengths].to_vec(),
        ..found.clone()
    }
}
