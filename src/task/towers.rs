//! Two texts of one row, read separately and compared: `[task] towers = true`.
//!
//! A network computes a vector of each text, u and v, and the classes are predicted from \[u; v; u ∘ v; u − v\] (Tay et
//! al., "Long Range Arena", arXiv:2011.04006, section 2.2, after Mou et al., arXiv:1512.08422). Neither text attends to
//! the other, so attention over two texts of n tokens costs 2 n² instead of 4 n², and each vector must hold all that
//! the comparison needs.

use burn::tensor::Tensor;

use crate::data::Shape;
use crate::data::batch::{PairBatch, TextBatch};
use crate::model::{Demand, ModelConfig};

/// Width of the compared vectors as a multiple of a single vector's width.
pub(super) const WIDTHS: usize = 4;

/// Concatenates u, v, u ∘ v and u − v, `[rows, 4 · d]`.
pub(super) fn concat_features(u: Tensor<2>, v: Tensor<2>) -> Tensor<2> {
    let product = u.clone() * v.clone();
    let difference = u.clone() - v.clone();
    Tensor::cat(vec![u, v, product, difference], 1)
}

/// Returns the number of multiplications of a forward pass over one pair whose comparison predicts `outputs` numbers.
/// Each text has half of the tokens; the count of one reading includes a head over one vector.
pub(super) fn products(model: &ModelConfig, demand: &Demand, shape: &Shape, outputs: usize) -> f64 {
    let half = Shape {
        context: shape.context.div_ceil(2),
        ..shape.clone()
    };
    let model = model.restricted_to(demand);
    let further = (WIDTHS - 2) * model.d_output() * outputs;
    2.0 * model.products(demand, &half) + further as f64
}

/// Splits rows into their first texts and their second ones, without segments; each second text gets the row's first
/// token in front. Texts are padded to the longest of the whole step, so that cutting it into micro-batches changes
/// nothing.
pub(super) fn split_with_first_token(texts: &TextBatch) -> [TextBatch; 2] {
    let cols = texts.cols;
    let mut halves = [Vec::new(), Vec::new()];
    for (number, row) in texts.inputs.chunks(cols.max(1)).enumerate() {
        let length = texts
            .lengths
            .as_ref()
            .map_or(cols, |lengths| lengths[number]);
        let segments = texts.segments.as_ref();
        let segments = segments.map_or(&[][..], |all| &all[number * cols..][..length]);
        let first = segments.iter().take_while(|segment| **segment == 0).count();
        let (first, second) = row[..length].split_at(first);
        // If two separators stand between the texts, the second one belongs to neither.
        let doubled = first.len() > 1 && second.first() == first.last();
        let begin = first.first().or(second.first());
        let second = begin.into_iter().chain(&second[usize::from(doubled)..]);
        halves[1].push(second.copied().collect());
        halves[0].push(first.to_vec());
    }
    let [first, second] = texts.segment_lengths;
    let [begins, ends] = halves;
    [
        TextBatch::padded(&begins, first),
        TextBatch::padded(&ends, second + 1),
    ]
}

/// Splits rows of two texts, segments 0 and 1, into both texts with their tokens unchanged, each padded to the longest
/// of the whole step.
pub(super) fn split_unchanged(texts: &TextBatch) -> [TextBatch; 2] {
    let cols = texts.cols;
    let mut halves = [Vec::new(), Vec::new()];
    for (number, row) in texts.inputs.chunks(cols.max(1)).enumerate() {
        let lengths = texts.lengths.as_ref();
        let length = lengths.map_or(cols, |lengths| lengths[number]);
        let segments = texts.segments.as_ref();
        let segments = segments.map_or(&[][..], |all| &all[number * cols..][..length]);
        let first = segments.iter().take_while(|segment| **segment == 0).count();
        let (first, second) = row[..length].split_at(first);
        halves[0].push(first.to_vec());
        halves[1].push(second.to_vec());
    }
    let ([first, second], [begins, ends]) = (texts.segment_lengths, halves);
    [
        TextBatch::padded(&begins, first),
        TextBatch::padded(&ends, second),
    ]
}

/// Returns the source and the target text of each pair.
pub(super) fn source_and_target(pairs: &PairBatch) -> [TextBatch; 2] {
    let rows = |ids: &[i32], cols: usize, lengths: &[usize]| -> TextBatch {
        let rows = ids.chunks(cols.max(1)).zip(lengths);
        let rows: Vec<Vec<i32>> = rows.map(|(row, n)| row[..*n].to_vec()).collect();
        TextBatch::padded(&rows, cols)
    };
    [
        rows(&pairs.source, pairs.source_cols, &pairs.source_lengths),
        rows(&pairs.targets, pairs.target_cols, &pairs.target_lengths),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_whole() {
        // The second text of the second row is a single token.
        let pairs = PairBatch {
            source: vec![1, 5, 2, 1, 2, 0],
            source_lengths: vec![3, 2],
            source_cols: 3,
            inputs: vec![0, 1, 7, 0, 0, 0],
            targets: vec![1, 7, 2, 7, -100, -100],
            target_lengths: vec![3, 1],
            target_cols: 3,
        };
        let [first, second] = source_and_target(&pairs);
        assert_eq!(first.inputs, [1, 5, 2, 1, 2, 0]);
        assert_eq!((first.cols, first.lengths), (3, Some(vec![3, 2])));
        assert_eq!(second.inputs, [1, 7, 2, 7, 0, 0]);
        assert_eq!((second.cols, second.lengths), (3, Some(vec![3, 1])));
    }

    #[test]
    fn each_text_has_its_own_beginning_and_end() {
        // [CLS] = 1, [SEP] = 2; the second row is shorter and has two separators between its texts.
        let texts = TextBatch {
            inputs: vec![1, 5, 6, 2, 7, 2, 1, 5, 2, 2, 2, 0],
            segments: Some(vec![0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0]),
            lengths: Some(vec![6, 5]),
            cols: 6,
            segment_lengths: [5, 2],
            ..TextBatch::default()
        };
        let [first, second] = split_with_first_token(&texts);
        assert_eq!(first.inputs, [1, 5, 6, 2, 0, 1, 5, 2, 0, 0]);
        assert_eq!((first.cols, first.lengths), (5, Some(vec![4, 3])));
        assert_eq!(second.inputs, [1, 7, 2, 1, 2, 0]);
        assert_eq!((second.cols, second.lengths), (3, Some(vec![3, 2])));
        assert!(first.segments.is_none() && second.segments.is_none());
        let [first, second] = split_unchanged(&texts);
        assert_eq!(first.inputs, [1, 5, 6, 2, 0, 1, 5, 2, 0, 0]);
        assert_eq!(second.inputs, [7, 2, 2, 2]);
        assert_eq!((second.cols, second.lengths), (2, None));
    }
}
