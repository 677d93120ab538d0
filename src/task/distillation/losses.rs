//! Losses of a student against a teacher's outputs on the same batch, as sums.
//!
//! With z the student's logits at a position, v the teacher's and T the temperature,
//!
//! ```text
//! soft    Σ T²·KL(softmax(v/T) ‖ softmax(z/T))            Hinton et al. 2015, section 2; Sanh et al. 2019
//! label   Σ −log softmax(z)[argmax v]                     hard distillation, Touvron et al. 2021, equation 3
//! cosine  Σ 1 − s·t / √((s·s + ε)(t·t + ε)), ε = 1e-12    over last hidden states s and t, Sanh et al. 2019
//! ```
//!
//! No gradients flow to the teacher. All losses are computed in single precision. KL is summed as Σ p·(log p − log q)
//! and not as cross-entropy minus entropy: close to the teacher those are two large sums, whose difference is mostly
//! rounding error.

use crate::kernel;
use burn::tensor::{Tensor, activation};

/// Added to the squared norms of hidden states.
const EPSILON: f64 = 1e-12;

/// Cuts both networks' logits to the ids that both have rows for, `[n, k]`: published models have more rows than their
/// tokenizers have tokens, and a row without a token has nothing to teach. Each softmax is over these ids only.
pub fn shared_logits(student: Tensor<2>, teacher: Tensor<2>) -> [Tensor<2>; 2] {
    let ids = student.dims()[1].min(teacher.dims()[1]);
    [student, teacher].map(|scores| match scores.dims()[1] == ids {
        true => scores,
        false => scores.narrow(1, 0, ids),
    })
}

/// Returns the sum of `soft` over rows of logits `[n, k]`, shape `[1]`. `teacher` is not tracked.
pub fn soft(student: Tensor<2>, teacher: Tensor<2>, temperature: f64) -> Tensor<1> {
    let (student, teacher) = (kernel::to_f32(student), kernel::to_f32(teacher));
    let wanted = activation::log_softmax(teacher / temperature, 1);
    let shares = Tensor::from_inner(wanted.clone().exp());
    let found = activation::log_softmax(student / temperature, 1);
    let sum = (shares * (Tensor::from_inner(wanted) - found)).sum();
    sum * (temperature * temperature)
}

/// Returns the sum of `label` over rows of logits `[n, k]`, shape `[1]`. `teacher` is not tracked.
pub fn label(student: Tensor<2>, teacher: Tensor<2>) -> Tensor<1> {
    let [rows, _] = teacher.dims();
    let best = Tensor::from_inner(teacher.argmax(1).reshape([rows]));
    kernel::cross_entropy_sum(student, best, 0.0)
}

/// Returns the sum of `cosine` over the hidden states `[rows, cols, d]` at positions with a 1 in `counted`
/// `[rows·cols]`, or at all positions if `counted` is `None`; shape `[1]`. `teacher` is not tracked.
pub fn cosine(student: Tensor<3>, teacher: Tensor<3>, counted: Option<Tensor<1>>) -> Tensor<1> {
    let [rows, cols, d] = student.dims();
    let teacher = kernel::to_f32(Tensor::from_inner(teacher)).reshape([rows * cols, d]);
    let student = kernel::to_f32(student).reshape([rows * cols, d]);
    let product = |a: &Tensor<2>, b: &Tensor<2>| (a.clone() * b.clone()).sum_dim(1);
    let lengths = (product(&student, &student) + EPSILON) * (product(&teacher, &teacher) + EPSILON);
    let cosine = product(&student, &teacher) / lengths.sqrt();
    let away = (cosine.neg() + 1.0).reshape([rows * cols]);
    match counted {
        Some(counted) => (away * kernel::to_f32(counted)).sum(),
        None => away.sum(),
    }
}
