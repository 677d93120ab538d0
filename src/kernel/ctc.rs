//! Connectionist temporal classification (CTC): the loss of label sequences that occur in order somewhere along
//! longer sequences of frames (Graves et al. 2006). On flex it is a kernel with its own derivative (`flex/ctc.rs`);
//! elsewhere it is Burn's operation, which has kernels on CubeCL.

#[cfg(feature = "flex")]
use super::custom_op::{CustomGradients, Leaves, custom_op};
#[cfg(feature = "flex")]
use super::flex::{ctc::Row, threads};
use super::replay;
#[cfg(feature = "flex")]
use super::{is_on_host, untracked};
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};

/// The label sequences of a batch of frame sequences.
#[derive(Clone, Debug)]
pub struct CtcTargets {
    /// Labels of each row.
    pub labels: Vec<Vec<i32>>,
    /// Number of frames of each row.
    pub frames: Vec<usize>,
    /// The blank class, which stands for no label.
    pub blank: usize,
}

/// Returns −log p(labels | logits) of each row, `[batch]`, from logits `[batch, frames, vocab]`. The loss of a row
/// whose labels need more frames than it has is infinite, or 0 if `zero_infinity` is set; it has no gradient in
/// either case.
pub fn losses(scores: Tensor<3>, targets: &CtcTargets, zero_infinity: bool) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if is_on_host(&scores) {
        return on_host(scores, targets, zero_infinity);
    }
    composed(scores, targets, zero_infinity)
}

/// Computes [`losses`] with Burn's operation. On a device without a kernel for it, the gradients of a row of infinite
/// loss are NaN.
pub fn composed(scores: Tensor<3>, targets: &CtcTargets, zero_infinity: bool) -> Tensor<1> {
    let [batch, _, _] = scores.dims();
    let device = scores.device();
    let longest = targets.labels.iter().map(Vec::len);
    let longest = longest.max().unwrap_or(0).max(1);
    let mut labels = Vec::with_capacity(batch * longest);
    for row in &targets.labels {
        labels.extend(row);
        labels.resize(labels.len() + longest - row.len(), 0);
    }
    let numbers = |numbers: Vec<i32>| -> Tensor<1, Int> {
        let count = numbers.len();
        replay::integers(TensorData::new(numbers, [count]), &device)
    };
    let losses = burn::tensor::module::ctc_loss(
        log_softmax(scores, 2).swap_dims(0, 1),
        numbers(labels).reshape([batch, longest]),
        numbers(targets.frames.iter().map(|n| *n as i32).collect()),
        numbers(targets.labels.iter().map(|row| row.len() as i32).collect()),
        targets.blank,
    );
    match zero_infinity {
        true => {
            let infinite = losses.clone().is_inf();
            losses.mask_fill(infinite, 0.0)
        }
        false => losses,
    }
}

/// Computes the losses in host memory, with their derivative if the scores are tracked.
#[cfg(feature = "flex")]
fn on_host(scores: Tensor<3>, targets: &CtcTargets, zero_infinity: bool) -> Tensor<1> {
    let [batch, frames, vocab] = scores.dims();
    let plain = untracked(scores.clone());
    let tracked = scores.device().is_autodiff();
    let device = plain.device();
    let values: Vec<f32> = plain.into_data().iter::<f32>().collect();
    let mut gradient = vec![0.0; if tracked { values.len() } else { 0 }];
    let each = (frames * vocab).max(1);
    let mut slopes = gradient.chunks_mut(each);
    let rows = values
        .chunks(each)
        .zip(targets.labels.iter().zip(&targets.frames));
    let rows: Vec<_> = rows.map(|row| (row, slopes.next())).collect();
    let losses = threads::map(rows.into_iter(), |((scores, (labels, frames)), slopes)| {
        let row = Row {
            scores,
            vocab,
            frames: *frames,
            labels,
            blank: targets.blank,
        };
        row.loss(slopes) as f32
    });
    let told = |loss: f32| match zero_infinity && loss.is_infinite() {
        true => 0.0,
        false => loss,
    };
    let losses: Vec<f32> = losses.into_iter().map(told).collect();
    let losses = Tensor::<3>::from_data(TensorData::new(losses, [batch, 1, 1]), &device);
    if !tracked {
        return losses.reshape([batch]);
    }
    let gradient = TensorData::new(gradient, [batch, frames, vocab]);
    let gradient = Tensor::<3>::from_data(gradient, &device);
    let losses = custom_op(vec![scores], &Leaves::default(), losses, |outer, _| {
        CustomGradients {
            inputs: vec![Some(gradient * outer)],
            parameters: Vec::new(),
        }
    });
    losses.reshape([batch])
}
