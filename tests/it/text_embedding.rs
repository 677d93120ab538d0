//! Text embeddings: losses and their gradients against sentence-transformers (`tests/goldens/make_text_embedding.py`), ranks
//! against its evaluator, micro-batches, and runs from training to `encode`.

mod runs;
mod told;

use crate::batches::{cut, in_one_step};
use crate::case_tasks::embedding;
use crate::cases::base;
use crate::oracle::{Oracle, difference, values};
use crate::transfer::gradients_of;
use burn::tensor::{Device, Gradients, Tensor, TensorData};
use formwork::data::loader::{BatchSize, Order, SampleRef};
use formwork::data::{Item, Source};
use formwork::error::Result;
use formwork::evaluate::retrieval::{MRR, RECALL_1, RECALL_10, Retrieval};
use formwork::task::text_embedding::EmbeddingLoss;
use formwork::task::text_embedding::losses::{Groups, in_batch, normalize_rows};
use formwork::task::whole_text::Pooling;
use formwork::train::gradients::accumulate;

/// Scale of the golden file's first losses, and of the symmetric one.
const TEMPERATURES: [f64; 2] = [1.0 / 20.0, 0.07];

fn tensor(oracle: &Oracle, name: &str, device: &Device) -> Tensor<2> {
    let array = oracle.array(name);
    Tensor::from_data(TensorData::new(array.values, array.shape), device)
}

/// Checks a gradient row by row, each relative to its own size: a short embedding has a large gradient.
fn check_rows(oracle: &Oracle, name: &str, x: &Tensor<2>, gradients: &Gradients) {
    let [_, width] = x.dims();
    let ours: Vec<f32> = x.grad(gradients).unwrap().into_data().iter().collect();
    let theirs = oracle.array(name).values;
    let rows = ours.chunks(width).zip(theirs.chunks(width));
    for (row, (ours, theirs)) in rows.enumerate() {
        let size = theirs.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        for (a, b) in ours.iter().zip(theirs) {
            assert!(
                (a - b).abs() <= 2e-5 * size + 2e-6,
                "{name}, row {row}: {a} and {b}"
            );
        }
    }
}

/// Checks a loss of normalised embeddings, and both gradients.
fn check(name: &str, loss: impl Fn(Tensor<2>, Tensor<2>) -> Tensor<1>) {
    let oracle = Oracle::open("text_embedding");
    let device = Device::flex().autodiff();
    let [u, v] = ["u", "v"].map(|name| tensor(&oracle, name, &device).require_grad());
    let loss = loss(normalize_rows(u.clone()), normalize_rows(v.clone()));
    let gradients = loss.backward();
    let (ours, theirs) = (
        loss.into_scalar::<f32>(),
        oracle.array(&format!("{name}.loss")).values[0],
    );
    assert!(
        (ours / theirs - 1.0).abs() < 1e-5,
        "{name}: {ours} and {theirs}"
    );
    for (x, by) in [(u, "u"), (v, "v")] {
        check_rows(&oracle, &format!("{name}.grad_{by}"), &x, &gradients);
    }
}

#[test]
fn losses_and_their_gradients_are_those_of_sentence_transformers() {
    let [twenty, seven] = TEMPERATURES;
    check("in_batch", |u, v| {
        in_batch(&u, &v, twenty, Groups::of(7)).loss / 7.0
    });
    check("grouped", |u, v| {
        in_batch(&u, &v, twenty, Groups::of(4)).loss / 7.0
    });
    check("symmetric", |u, v| {
        (in_batch(&u, &v, seven, Groups::of(7)).loss + in_batch(&v, &u, seven, Groups::of(7)).loss)
            / 14.0
    });
    let scores = Oracle::open("text_embedding").array("scores").values;
    check("cosine", |u, v| {
        let shares: Vec<f32> = scores.iter().map(|score| score / 5.0).collect();
        let truth = Tensor::<1>::from_floats(shares.as_slice(), &u.device()).unsqueeze_dim(1);
        let distance = (u * v).sum_dim(1) - truth;
        (distance.clone() * distance).mean()
    });
}

/// An example that occurs twice in a step, at the end of one epoch and the start of the next, is no negative for itself.
#[test]
fn an_example_that_stands_twice_is_not_compared_with_itself() {
    let device = Device::flex();
    let rows = |of: [[f32; 2]; 3]| normalize_rows(Tensor::<2>::from_floats(of, &device));
    let (u, v) = (
        rows([[1.0, 0.2], [0.3, 1.0], [0.9, 0.4]]),
        rows([[0.8, 0.1], [-0.2, 0.7], [0.5, 0.5]]),
    );
    let loss = |samples: &[u64]| {
        let groups = Groups { size: 3, samples };
        in_batch(&u, &v, 0.5, groups)
    };
    let scores = values(u.clone().matmul(v.clone().transpose()) / 0.5);
    let share = |row: usize, others: &[usize]| {
        let sum: f64 = others
            .iter()
            .map(|j| f64::from(scores[3 * row + j]).exp())
            .sum();
        sum.ln() - f64::from(scores[3 * row + row])
    };
    let near = |found: Tensor<1>, wanted: f64| {
        let found = f64::from(found.into_scalar::<f32>());
        assert!((found - wanted).abs() < 1e-5, "{found} {wanted}");
    };
    let all = [0, 1, 2];
    let whole = share(0, &all) + share(1, &all) + share(2, &all);
    near(loss(&[7, 8, 9]).loss, whole);
    let bits = |groups: Groups| {
        in_batch(&u, &v, 0.5, groups)
            .loss
            .into_scalar::<f32>()
            .to_bits()
    };
    assert_eq!(
        bits(Groups::of(3)),
        bits(Groups {
            size: 3,
            samples: &[7, 8, 9]
        })
    );
    let twice = share(0, &[0, 1]) + share(1, &all) + share(2, &[1, 2]);
    near(loss(&[7, 8, 7]).loss, twice);
    near(loss(&[7, 7, 7]).loss, 0.0);
}

/// A source of ten examples, whose content is never read.
struct Ten;

impl Source for Ten {
    fn len(&self) -> usize {
        10
    }

    fn get(&self, sample: u64, _draw: u64) -> Result<Item> {
        unreachable!("example {sample} is not read")
    }
}

/// Steps across the end of an epoch contain examples of two permutations, and so may contain an example twice.
#[test]
fn a_step_over_the_end_of_an_epoch_may_hold_an_example_twice() {
    let source = Ten;
    let mut order = Order::new(1, BatchSize::Items(4));
    let twice = |taken: &[SampleRef]| {
        let mut samples: Vec<u64> = taken.iter().map(|one| one.sample).collect();
        samples.sort_unstable();
        samples.windows(2).any(|pair| pair[0] == pair[1])
    };
    let steps: Vec<u64> = (0..100)
        .filter(|step| twice(&order.step(&source, *step)))
        .collect();
    assert!(!steps.is_empty());
    // Steps that begin in one epoch of ten and end in the next.
    assert!(
        steps
            .iter()
            .all(|step| step * 4 / 10 != (step * 4 + 3) / 10),
        "{steps:?}"
    );
}

#[test]
fn a_vector_of_zeros_has_no_direction_and_harms_nothing() {
    let device = Device::flex().autodiff();
    let x = Tensor::<2>::from_floats([[0.0, 0.0], [3.0, 4.0]], &device).require_grad();
    let found = normalize_rows(x.clone());
    assert_eq!(values(found.clone()), [0.0, 0.0, 0.6, 0.8]);
    let gradients = found.sum().backward();
    let gradient: Vec<f32> = x.grad(&gradients).unwrap().into_data().iter().collect();
    assert!(gradient.iter().all(|x| x.is_finite()), "{gradient:?}");
}

/// If two documents score equal, the evaluator ranks the lower number first; here, half of the other counts as before it.
#[test]
fn ranks_are_those_of_the_evaluator_but_for_ties() {
    let oracle = Oracle::open("text_embedding");
    let device = Device::flex();
    let [queries, documents] =
        ["queries", "documents"].map(|name| values(normalize_rows(tensor(&oracle, name, &device))));
    let found = Retrieval::new(16, &queries, &documents, (0..40).collect());
    let (_, theirs) = oracle.integers("evaluator_ranks");
    let ranks = found.ranks();
    for (query, (ours, theirs)) in ranks.iter().zip(&theirs).enumerate() {
        let tied = match query {
            8 => 0.5,
            23 => -0.5,
            _ => 0.0,
        };
        assert_eq!(*ours, f64::from(*theirs) + tied, "query {query}");
    }
    let scores = found.metrics();
    let score = |metric| scores.iter().find(|(m, _)| *m == metric).unwrap().1;
    let gained: f64 = [8, 23]
        .map(|n| 1.0 / ranks[n] - 1.0 / f64::from(theirs[n]))
        .iter()
        .sum();
    let expected = |name: &str| f64::from(oracle.array(name).values[0]);
    assert!((score(RECALL_1) + 1.0 / 40.0 - expected("recall_1")).abs() < 1e-6);
    assert!((score(RECALL_10) - expected("recall_10")).abs() < 1e-6);
    assert!((score(MRR) - gained / 40.0 - expected("mrr")).abs() < 1e-6);
}

#[test]
fn micro_batches_of_whole_groups_equal_one_batch() {
    let [_, case, ..] = base(16);
    let task = embedding(EmbeddingLoss::InBatch, Pooling::Mean, Some(2), None);
    let case = case.learning(task).dropping(0.2, 0.3);
    let task = case.build();
    let whole = case.batch();
    let parts = vec![cut(&whole, 0..2, false), cut(&whole, 2..4, false)];
    let one = accumulate(&task, in_one_step(vec![whole.clone()], 3));
    let two = accumulate(&task, in_one_step(parts, 3));
    let near = |a: f64, b: f64| (a - b).abs() < 1e-5 * b.abs().max(1.0);
    assert!(near(one.output.loss.sum, two.output.loss.sum));
    assert_eq!(
        one.output.metrics["accuracy"],
        two.output.metrics["accuracy"]
    );
    let theirs = gradients_of(&task, &two.gradients);
    for (path, ours) in gradients_of(&task, &one.gradients) {
        let off = difference(&ours.values, &theirs[&path].values);
        assert!(off < 1e-4, "{path} is off by {off:e}");
    }
    // Another cut into micro-batches changes the loss, which is why a check refuses it.
    let other = vec![cut(&whole, 0..1, false), cut(&whole, 1..4, false)];
    let other = accumulate(&task, in_one_step(other, 3));
    assert!(!near(one.output.loss.sum, other.output.loss.sum));
}

/// Two encodings of one text differ only in their dropout (Gao et al. 2021).
#[test]
fn a_text_beside_itself_is_read_under_two_draws() {
    use burn::module::Module;
    use burn::train::{InferenceStep, TrainStep};
    use formwork::data::batch::{Content, PairBatch};
    let same = PairBatch {
        source: vec![1, 5, 2, 1, 7, 2],
        source_lengths: vec![3, 3],
        source_cols: 3,
        inputs: vec![0, 1, 5, 0, 1, 7],
        targets: vec![1, 5, 2, 1, 7, 2],
        target_lengths: vec![3, 3],
        target_cols: 3,
    };
    let batch = crate::batches::of(Content::Pairs(same), 2);
    let [_, case, ..] = base(16);
    let task = embedding(EmbeddingLoss::InBatch, Pooling::Mean, None, None);
    let task = case.learning(task).dropping(0.3, 0.0).build();
    let evaluated = InferenceStep::step(&task.valid(), batch.clone().into());
    let trained = TrainStep::step(&task, batch.into()).item;
    assert_eq!(evaluated.metrics["accuracy"].sum, 2.0);
    assert!((trained.loss.sum - evaluated.loss.sum).abs() > 1e-3);
}
