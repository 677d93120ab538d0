//! One row of a table of names: HF tensors, our parameters, and how the layouts of their values correspond.

use super::weights::Array;

/// The layout of queries, keys and values in one fused matrix: `groups` times (`query` heads of queries, `key_value` heads
/// of keys, `key_value` heads of values), each head `d_head` wide.
///
/// All queries before all keys (GPT-2, MPT) is one group. One head of each in turn (GPT-NeoX, BLOOM) is one group per head.
/// Falcon has one group per key-value head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fused {
    /// Number of groups.
    pub groups: usize,
    /// Query heads in a group.
    pub query: usize,
    /// Key heads in a group, and also value heads.
    pub key_value: usize,
    /// Width of a head.
    pub d_head: usize,
}

impl Fused {
    /// The rows of the fused matrix `[out, in]` that hold queries (part 0), keys (1) or values (2), in our order.
    pub(super) fn rows(self, part: usize) -> Vec<usize> {
        let (first, heads) = match part {
            0 => (0, self.query),
            1 => (self.query, self.key_value),
            _ => (self.query + self.key_value, self.key_value),
        };
        let per_group = self.query + 2 * self.key_value;
        let mut rows = Vec::with_capacity(self.groups * heads * self.d_head);
        for group in 0..self.groups {
            let from = (group * per_group + first) * self.d_head;
            rows.extend(from..from + heads * self.d_head);
        }
        rows
    }
}

/// HF tensors, and the parameters of ours that they hold.
#[derive(Clone, Debug)]
pub struct Rule {
    /// HF's names: one, or one per expert.
    pub theirs: Vec<String>,
    /// Our dotted paths: one, or those of query, key and value of a fused matrix.
    pub ours: Vec<String>,
    pub(super) form: Form,
    /// Whether these are alternative names of tensors that another rule has: read, never written.
    pub(super) read_only: bool,
}

/// The layout of an HF tensor relative to ours.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Form {
    /// The same layout.
    Same,
    /// A matrix as `[in, out]`, ours as `[out, in]`. Vectors are the same.
    Transposed,
    /// A matrix of this shape, `[in, heads, d_head]`; ours is `[out, in]`.
    InByHeads(Vec<usize>),
    /// The same values in another shape: a patch kernel, a table with a leading dimension of 1.
    Reshaped(Vec<usize>),
    /// Queries, keys and values in one matrix, which may be transposed.
    Fused(Fused, Orientation),
    /// Our matrices stacked by rows, in each of several groups: rows of the first, then of the second, and so on.
    Stacked {
        /// Number of groups.
        groups: usize,
        /// For each of our parameters, the row counts of its sections in a group. Our parameter holds its first section of all
        /// groups first.
        rows: Vec<Vec<usize>>,
    },
    /// One HF tensor per expert; our parameter holds all of them, one after another.
    Experts,
    /// Two of our parameters in one HF tensor of all experts, the rows of the first before the rows of the second.
    FusedExperts,
    /// Matrices of all experts as `[experts, in, out]`, or their biases as `[experts, out]`, of this shape. Our matrices are
    /// `[experts, out, in]`, and our parameters are interleaved along the last dimension of HF's tensor.
    ExpertsInOut(Vec<usize>),
}

impl Rule {
    /// The rows of HF's matrix that hold our parameter number `part`; `None` if rows are not split.
    pub(super) fn rows(&self, part: usize) -> Option<Vec<usize>> {
        match &self.form {
            Form::Fused(fused, _) => Some(fused.rows(part)),
            Form::Stacked { groups, rows } => {
                let mut first = rows[..part].iter().flatten().sum::<usize>();
                let each = rows.iter().flatten().sum::<usize>();
                let mut all = Vec::new();
                for count in &rows[part] {
                    let group = |group| group * each + first..group * each + first + count;
                    all.extend((0..*groups).flat_map(group));
                    first += count;
                }
                Some(all)
            }
            Form::Same
            | Form::Transposed
            | Form::InByHeads(_)
            | Form::Reshaped(_)
            | Form::Experts
            | Form::FusedExperts
            | Form::ExpertsInOut(_) => None,
        }
    }

    /// The shape that each of HF's tensors must have, given the shapes of our parameters.
    pub fn their_shape(&self, ours: &[&[usize]]) -> Vec<usize> {
        let mut shape = ours[0].to_vec();
        match &self.form {
            Form::Same => {}
            Form::Transposed => shape.reverse(),
            Form::Reshaped(theirs) | Form::InByHeads(theirs) | Form::ExpertsInOut(theirs) => {
                shape.clone_from(theirs);
            }
            Form::Fused(_, stored) => {
                if let Some(rows) = shape.first_mut() {
                    *rows = ours.iter().filter_map(|s| s.first()).sum();
                }
                if *stored == Orientation::InOut {
                    shape.reverse();
                }
            }
            Form::Stacked { groups, rows } => {
                if let Some(first) = shape.first_mut() {
                    *first = groups * rows.iter().flatten().sum::<usize>();
                }
            }
            Form::Experts => {
                shape.remove(0);
            }
            Form::FusedExperts => shape[1] = ours.iter().map(|shape| shape[1]).sum(),
        }
        shape
    }

    /// Whether HF's tensors can hold a parameter of ours of this shape: same number of values, same number of experts.
    pub fn fits(&self, ours: &[usize]) -> bool {
        match &self.form {
            Form::Reshaped(theirs) | Form::InByHeads(theirs) => {
                theirs.iter().product::<usize>() == ours.iter().product::<usize>()
            }
            Form::ExpertsInOut(theirs) => {
                let each = theirs.iter().product::<usize>();
                each == self.ours.len() * ours.iter().product::<usize>()
            }
            Form::Experts => ours.first() == Some(&self.theirs.len()),
            Form::FusedExperts => ours.len() == 3,
            Form::Same | Form::Transposed | Form::Fused(..) | Form::Stacked { .. } => true,
        }
    }

    /// Computes our parameter number `part`, of this shape, from HF's tensors.
    pub fn import(&self, theirs: &[Array], part: usize, shape: &[usize]) -> Array {
        match &self.form {
            Form::Same => theirs[0].clone(),
            Form::Transposed => transposed(&theirs[0]),
            Form::InByHeads(by_heads) => transposed(&Array {
                shape: vec![by_heads[0], by_heads[1..].iter().product()],
                values: theirs[0].values.clone(),
            }),
            Form::Reshaped(_) | Form::Experts => Array {
                shape: shape.to_vec(),
                values: theirs.iter().flat_map(|x| &x.values).copied().collect(),
            },
            Form::Stacked { .. } => selected(&theirs[0], self.rows(part).unwrap_or_default()),
            Form::Fused(fused, stored) => {
                selected(&reoriented(&theirs[0], *stored), fused.rows(part))
            }
            Form::ExpertsInOut(_) => {
                let values = self
                    .interleaved_indices(shape)
                    .map(|at| theirs[0].values[at + part]);
                Array {
                    shape: shape.to_vec(),
                    values: values.collect(),
                }
            }
            Form::FusedExperts => {
                let each: usize = shape[1..].iter().product();
                let experts = theirs[0].values.chunks(2 * each.max(1));
                let rows = experts.flat_map(|expert| &expert[part * each..(part + 1) * each]);
                Array {
                    shape: shape.to_vec(),
                    values: rows.copied().collect(),
                }
            }
        }
    }

    /// Computes HF's tensors from our parameters.
    pub fn export(&self, ours: &[&Array]) -> Vec<Array> {
        match &self.form {
            Form::Same => vec![ours[0].clone()],
            Form::Transposed => vec![transposed(ours[0])],
            Form::InByHeads(shape) => vec![Array {
                shape: shape.clone(),
                values: transposed(ours[0]).values,
            }],
            Form::Reshaped(shape) => vec![Array {
                shape: shape.clone(),
                values: ours[0].values.clone(),
            }],
            Form::Fused(_, stored) => vec![reoriented(&self.merged(ours), *stored)],
            Form::Stacked { .. } => vec![self.merged(ours)],
            Form::ExpertsInOut(shape) => {
                let mut values = vec![0.0; shape.iter().product()];
                for (part, array) in ours.iter().enumerate() {
                    let places = self.interleaved_indices(&array.shape);
                    for (at, x) in places.zip(&array.values) {
                        values[at + part] = *x;
                    }
                }
                let shape = shape.clone();
                vec![Array { shape, values }]
            }
            // Only read-only rules have this form.
            Form::FusedExperts => Vec::new(),
            Form::Experts => {
                let shape = ours[0].shape[1..].to_vec();
                let each = shape.iter().product::<usize>().max(1);
                let experts = ours[0].values.chunks(each);
                experts
                    .map(|values| Array {
                        shape: shape.clone(),
                        values: values.to_vec(),
                    })
                    .collect()
            }
        }
    }
}

impl Rule {
    /// The indices in a tensor of [`Form::ExpertsInOut`] of the values of our first parameter, which has this shape.
    fn interleaved_indices(&self, ours: &[usize]) -> impl Iterator<Item = usize> {
        let (d_out, d_in) = match *ours {
            [_, d_out, d_in] => (d_out, d_in),
            _ => (ours.iter().product(), 1),
        };
        let (each, parts) = ((d_out * d_in).max(1), self.ours.len());
        (0..ours.iter().product()).map(move |number| {
            let (expert, within) = (number / each, number % each);
            let (row, column) = (within / d_in, within % d_in);
            (expert * each + column * d_out + row) * parts
        })
    }

    /// Merges our matrices into HF's single matrix.
    fn merged(&self, ours: &[&Array]) -> Array {
        let mut shape = ours[0].shape.clone();
        let width: usize = shape.iter().skip(1).product();
        let mut values = vec![0.0; ours.iter().map(|array| array.values.len()).sum()];
        for (part, array) in ours.iter().enumerate() {
            let rows = self.rows(part).unwrap_or_default().into_iter();
            for (row, from) in rows.zip(array.values.chunks(width.max(1))) {
                values[row * width..(row + 1) * width].copy_from_slice(from);
            }
        }
        if let Some(first) = shape.first_mut() {
            *first = ours.iter().filter_map(|array| array.shape.first()).sum();
        }
        Array { shape, values }
    }
}

/// Selects rows of a matrix, or elements of a vector.
fn selected(whole: &Array, rows: Vec<usize>) -> Array {
    let mut shape = whole.shape.clone();
    let width: usize = shape.iter().skip(1).product();
    let row = |row: &usize| &whole.values[row * width..(row + 1) * width];
    let values = rows.iter().flat_map(row).copied().collect();
    if let Some(first) = shape.first_mut() {
        *first = rows.len();
    }
    Array { shape, values }
}

fn reoriented(x: &Array, stored: Orientation) -> Array {
    match stored {
        Orientation::OutIn => x.clone(),
        Orientation::InOut => transposed(x),
    }
}

/// The transpose of a matrix; vectors are returned as they are.
fn transposed(x: &Array) -> Array {
    let &[rows, columns] = x.shape.as_slice() else {
        return x.clone();
    };
    let values = (0..columns)
        .flat_map(|c| (0..rows).map(move |r| x.values[r * columns + c]))
        .collect();
    Array {
        shape: vec![columns, rows],
        values,
    }
}

/// Orientation in which HF stores the matrix of a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orientation {
    /// `[out, in]`, as in `torch.nn.Linear` and here.
    OutIn,
    /// `[in, out]`, as in GPT-2's `Conv1D`.
    InOut,
}
