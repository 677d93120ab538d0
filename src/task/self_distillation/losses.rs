//! The loss of a student against its teacher's scores of other views of the same images, and measures that reveal a
//! collapse.

use crate::data::batch::Views;
use crate::kernel;
use burn::tensor::{Tensor, activation};

/// Lower bound of a probability before its logarithm.
const LEAST: f64 = 1e-30;

/// Scores of the views of some images, image by image.
#[derive(Clone, Debug)]
pub struct Scores {
    /// The student's scores of global views, `[images·globals, d_out]`.
    pub global: Tensor<2>,
    /// The student's scores of local views, `[images·locals, d_out]`.
    pub local: Option<Tensor<2>>,
    /// The teacher's scores of global views, `[images·globals, d_out]`, not tracked.
    pub teacher: Tensor<2>,
}

/// Results of comparing a student's scores with a teacher's.
#[derive(Clone, Debug)]
pub struct ComparisonResult {
    /// Sum of the losses of the images, `[1]`.
    pub loss: Tensor<1>,
    /// Entropy of the mean of the teacher's distributions, `[1]`, not tracked.
    pub usage: Tensor<1>,
    /// Sum over images of the mean entropy of the teacher's distributions, `[1]`, not tracked.
    pub targets: Tensor<1>,
    /// Sum of the teacher's scores over its views, `[d_out]`, not tracked.
    pub told: Tensor<1>,
}

/// Computes the loss of scores, with two global views of each image. `centre` `[d_out]` is not tracked; the
/// temperatures are those of the student and the teacher.
pub fn compare_scores(
    scores: Scores,
    centre: Tensor<1>,
    [student, teacher]: [f64; 2],
) -> ComparisonResult {
    let Scores {
        global,
        local,
        teacher: theirs,
    } = scores;
    let [views, d_out] = theirs.dims();
    let images = views / Views::GLOBAL;
    let told = theirs.clone().sum_dim(0).reshape([d_out]);
    let centred = (theirs - centre.unsqueeze_dim::<2>(0)) / teacher;
    let logarithms = activation::log_softmax(centred, 1);
    let shares = logarithms.clone().exp();
    let targets = (shares.clone() * logarithms).sum() / -(Views::GLOBAL as f64);
    let usage = entropy(shares.clone().mean_dim(0));

    let shares = shares.reshape([images, Views::GLOBAL, d_out]);
    let [first, second] = [0_usize, 1].map(|view| shares.clone().narrow(1, view, 1));
    // A global view is compared with the teacher's distribution of the other one, a local view with those of both.
    let crossed = Tensor::cat(vec![second.clone(), first.clone()], 1);
    let mut loss = cross_entropy(global, crossed.reshape([views, d_out]), student);
    let mut all = Views::GLOBAL;
    if let Some(local) = local {
        let count = local.dims()[0] / images.max(1);
        let both = (first + second).expand([images, count, d_out]);
        loss = loss + cross_entropy(local, both.reshape([images * count, d_out]), student);
        all += count;
    }
    ComparisonResult {
        loss: loss / (Views::GLOBAL * (all - 1)) as f64,
        usage,
        targets,
        told,
    }
}

/// Returns the sum of −p·log softmax(s/τ) over rows; the probabilities p are not tracked.
fn cross_entropy(scores: Tensor<2>, shares: Tensor<2>, temperature: f64) -> Tensor<1> {
    let shares = match scores.device().is_autodiff() {
        true => Tensor::from_inner(shares),
        false => shares,
    };
    kernel::soft_cross_entropy_sum(scores / temperature, shares)
}

/// Returns the entropy −Σ p log p of one row.
fn entropy(shares: Tensor<2>) -> Tensor<1> {
    let logarithms = shares.clone().clamp_min(LEAST).log();
    (shares * logarithms).sum().neg()
}
