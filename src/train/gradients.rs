//! Gradients of a whole model: summed over micro-batches, measured, clipped.
//!
//! The micro-batches of a step are summed as a binary tree: the sum of n of them is the sum of the first ⌈n/2⌉ plus the
//! sum of the last ⌊n/2⌋. The tree's shape depends only on n, so that 2, 4 or 8 processes which each take an equal
//! share of the micro-batches hold whole subtrees and together give the same bits. No more than log₂ n + 1 gradients
//! are in memory at once, and rounding errors grow with log₂ n instead of n (Higham 1993, section 4). The exchange of
//! gradients between processes is in `exchange`.

use super::norms::{global_norm, gradient_squares};
use crate::data::loader::Batch;
use crate::kernel;
use crate::stack::state::ModelState;
use crate::task::{StepInput, StepOutput, TrainableModel};
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use std::ops::Range;

/// The gradient of one optimizer step and the outputs it was computed from.
pub struct Gradient {
    /// Gradients by parameter.
    pub gradients: GradientsParams,
    /// Outputs summed over the step.
    pub output: StepOutput,
    /// Global norm before clipping; NaN if it was not read.
    pub norm: f64,
    /// Square of the norm while it is on the device, `[1]`.
    pub squares: Option<Tensor<1>>,
}

/// Runs all micro-batches of a step and adds their gradients. Each loss is divided by the number of scored positions of
/// the whole step, so the sum is the gradient of the one big batch.
pub fn accumulate<M: TrainableModel>(model: &M, batches: Vec<Batch>) -> Gradient {
    accumulate_from(model, batches, None)
}

/// [`accumulate`] for rows that continue from step to step: each micro-batch begins with the state of its rows, and
/// `output.state` is the state that all rows pass on.
pub fn accumulate_from<M: TrainableModel>(
    model: &M,
    batches: Vec<Batch>,
    state: Option<&ModelState>,
) -> Gradient {
    match accumulate_until(model, batches, state, &|| false) {
        Ok(gradient) => gradient,
        Err(_) => unreachable!("the accumulation is never interrupted"),
    }
}

/// Number of micro-batches done in a step that was abandoned before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned(pub usize);

/// [`accumulate_from`] that abandons the step when `leaves`, called before each micro-batch, returns true.
///
/// # Errors
/// If the step was abandoned: the number of micro-batches done.
pub fn accumulate_until<M: TrainableModel>(
    model: &M,
    batches: Vec<Batch>,
    state: Option<&ModelState>,
    leaves: &dyn Fn() -> bool,
) -> Result<Gradient, Abandoned> {
    let (gradients, output) = accumulate_subtree(model, batches, state, leaves)?;
    let gradients = gradients.unwrap_or_else(GradientsParams::new);
    Ok(match output.unread.is_empty() {
        true => Gradient {
            norm: global_norm(model, &gradients),
            squares: None,
            gradients,
            output,
        },
        false => Gradient {
            norm: f64::NAN,
            squares: gradient_squares(model, &gradients),
            gradients,
            output,
        },
    })
}

/// Sums some consecutive micro-batches of a step; `None` for no gradients if there are none. `state` is the state of their rows.
pub(super) fn accumulate_subtree<M: TrainableModel>(
    model: &M,
    batches: Vec<Batch>,
    state: Option<&ModelState>,
    leaves: &dyn Fn() -> bool,
) -> Result<(Option<GradientsParams>, StepOutput), Abandoned> {
    let count = batches.len();
    let first_row = batches.first().map_or(0, |batch| batch.first_row);
    let (mut passed_on, mut made) = (Vec::new(), 0);
    let mut parts = batches.into_iter().map_while(|batch| {
        if leaves() {
            return None;
        }
        made += 1;
        let begins = batch.first_row - first_row;
        let state = state.map(|state| state.rows(begins..begins + batch.rows));
        let mut step = TrainStep::step(model, StepInput { batch, state });
        passed_on.extend(step.item.state.take());
        Some((step.grads, step.item))
    });
    let both = |(mut gradients, mut output): (_, StepOutput), (more, item)| {
        output.add(&item);
        add(model, &mut gradients, more);
        (gradients, output)
    };
    let sums = tree_sum(&mut parts, count, &both);
    drop(parts);
    if made < count {
        return Err(Abandoned(made));
    }
    let (gradients, mut output) = sums.map_or_else(Default::default, |(gradients, output)| {
        (Some(gradients), output)
    });
    output.state = ModelState::concat(passed_on);
    Ok((gradients, output))
}

/// Divides micro-batches among `processes` processes, a power of two: the subtrees of the step's tree at the depth that
/// has this many. A process may have none if there are fewer micro-batches than processes.
pub fn subtree_ranges(micro_batches: usize, processes: usize) -> Vec<Range<usize>> {
    let mut shares: Vec<Range<usize>> = std::iter::once(0..micro_batches).collect();
    while shares.len() < processes {
        let halves = shares.into_iter().flat_map(|share| {
            let middle = share.start + share.len().div_ceil(2);
            [share.start..middle, middle..share.end]
        });
        shares = halves.collect();
    }
    shares
}

/// Sums the next `count` parts as a binary tree, taking them in order. `None` if there are none.
pub fn tree_sum<T>(
    parts: &mut impl Iterator<Item = T>,
    count: usize,
    add: &impl Fn(T, T) -> T,
) -> Option<T> {
    if count <= 1 {
        return parts.next().filter(|_| count == 1);
    }
    let first = tree_sum(parts, count.div_ceil(2), add);
    let last = tree_sum(parts, count / 2, add);
    match (first, last) {
        (Some(first), Some(last)) => Some(add(first, last)),
        (first, last) => first.or(last),
    }
}

/// Adds the gradients `more` to `gradients`.
fn add<M: Module>(model: &M, gradients: &mut GradientsParams, more: GradientsParams) {
    model.visit(&mut Add { gradients, more });
}

impl Gradient {
    /// Reads the loss and norm of the gradient, in one transfer if they are on the device.
    #[must_use]
    pub fn read(mut self) -> Self {
        if let Some(squares) = self.squares.take() {
            let mut tensors = self.output.unread.tensors();
            tensors.push(squares);
            let numbers = kernel::read_scalars(tensors);
            self.output.take(&numbers);
            self.norm = numbers
                .last()
                .map_or(0.0, |squares| f64::from(*squares).sqrt());
            return self;
        }
        if !self.output.unread.is_empty() {
            self.output = self.output.read();
            self.norm = 0.0;
        }
        self
    }

    /// Scales the gradient down to a global norm of `limit`; 0 switches clipping off.
    pub fn clip<M: Module>(&mut self, model: &M, limit: f64) {
        if limit > 0.0 && self.norm > limit {
            // PyTorch's clip_grad_norm_ adds the same 1e-6.
            scale(model, &mut self.gradients, limit / (self.norm + 1e-6));
        }
    }
}

/// Multiplies every gradient by `factor`.
pub fn scale<M: Module>(model: &M, gradients: &mut GradientsParams, factor: f64) {
    model.visit(&mut Scale { gradients, factor });
}

struct Add<'a> {
    gradients: &'a mut GradientsParams,
    more: GradientsParams,
}

impl ModuleVisitor for Add<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(more) = self.more.remove::<D>(param.id) else {
            return;
        };
        let sum = match self.gradients.remove::<D>(param.id) {
            Some(gradient) => gradient + more,
            None => more,
        };
        self.gradients.register::<D>(param.id, sum);
    }
}

struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients
                .register::<D>(param.id, kernel::scale(gradient, self.factor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{subtree_ranges, tree_sum};

    fn shape(names: &str) -> String {
        let mut parts = names.chars().map(String::from);
        let sum = tree_sum(&mut parts, names.len(), &|a, b| format!("({a}{b})"));
        sum.unwrap_or_default()
    }

    #[test]
    fn sums_are_binary_trees_over_the_parts_in_their_order() {
        for (names, wanted) in [
            ("", ""),
            ("a", "a"),
            ("ab", "(ab)"),
            ("abc", "((ab)c)"),
            ("abcd", "((ab)(cd))"),
            ("abcdef", "(((ab)c)((de)f))"),
            ("abcdefgh", "(((ab)(cd))((ef)(gh)))"),
        ] {
            assert_eq!(shape(names), wanted);
        }
    }

    #[test]
    fn shares_are_whole_subtrees() {
        let names = "abcdefghijklmnopqrstuvwx";
        for count in 0..names.len() {
            for processes in [1, 2, 4, 8] {
                let shares = subtree_ranges(count, processes);
                assert_eq!(shares.len(), processes);
                let mut sums = shares.into_iter().map(|share| shape(&names[share]));
                let joined = tree_sum(&mut sums, processes, &|a, b| match (&*a, &*b) {
                    ("", one) | (one, "") => one.into(),
                    _ => format!("({a}{b})"),
                });
                assert_eq!(
                    joined,
                    Some(shape(&names[..count])),
                    "{count} in {processes}"
                );
            }
        }
    }
}
