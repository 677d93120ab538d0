//! Tables between HF names and ours, used in both directions.
//!
//! A rule ties one HF tensor to one of our parameters, or to three when HF stores queries, keys and values
//! in one matrix. A family writes its table once; import selects rows with it, export puts them back.

use super::weights::Array;
use std::collections::BTreeMap;

/// How queries, keys and values lie in one fused matrix: `groups` times (`query` heads, `key_value` heads of
/// keys, as many of values), each head `d_head` wide.
///
/// All queries before all keys (GPT-2, MPT) is one group; one head of each in turn (GPT-NeoX, BLOOM) is a
/// group for each head; Falcon has a group for each key-value head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fused {
    /// Repetitions.
    pub groups: usize,
    /// Query heads in a group.
    pub query: usize,
    /// Key heads in a group, and value heads.
    pub key_value: usize,
    /// Width of a head.
    pub d_head: usize,
}

impl Fused {
    /// The rows of the fused matrix `[out, in]` that are queries (part 0), keys (1) or values (2), in our order.
    fn rows(self, part: usize) -> Vec<usize> {
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

/// One HF tensor and what it is with us.
#[derive(Clone, Debug)]
pub struct Rule {
    /// HF's name.
    pub theirs: String,
    /// Our dotted paths: one, or query, key and value of a fused matrix.
    pub ours: Vec<String>,
    /// Whether HF stores matrices as `[in, out]`; ours are `[out, in]`.
    transposed: bool,
    fused: Option<Fused>,
}

impl Rule {
    /// The shape that HF's tensor must have for our parameters of these shapes.
    pub fn their_shape(&self, ours: &[&[usize]]) -> Vec<usize> {
        let mut shape = ours[0].to_vec();
        if let Some(rows) = shape.first_mut() {
            *rows = ours.iter().filter_map(|s| s.first()).sum();
        }
        if self.transposed {
            shape.reverse();
        }
        shape
    }

    /// Our parameter number `part` from HF's tensor.
    pub fn import(&self, theirs: &Array, part: usize) -> Array {
        let whole = self.turn(theirs);
        let Some(fused) = self.fused else {
            return whole;
        };
        let (mut shape, rows) = (whole.shape, fused.rows(part));
        let width: usize = shape.iter().skip(1).product();
        let row = |row: &usize| &whole.values[row * width..(row + 1) * width];
        let values = rows.iter().flat_map(row).copied().collect();
        if let Some(first) = shape.first_mut() {
            *first = rows.len();
        }
        Array { shape, values }
    }

    /// HF's tensor from our parameters.
    pub fn export(&self, ours: &[&Array]) -> Array {
        let Some(fused) = self.fused else {
            return self.turn(ours[0]);
        };
        let mut shape = ours[0].shape.clone();
        let width: usize = shape.iter().skip(1).product();
        let mut values = vec![0.0; ours.iter().map(|array| array.values.len()).sum()];
        for (part, array) in ours.iter().enumerate() {
            let rows = fused.rows(part).into_iter();
            for (row, from) in rows.zip(array.values.chunks(width.max(1))) {
                values[row * width..(row + 1) * width].copy_from_slice(from);
            }
        }
        if let Some(first) = shape.first_mut() {
            *first = ours.iter().filter_map(|array| array.shape.first()).sum();
        }
        self.turn(&Array { shape, values })
    }

    /// The transpose of a matrix when HF stores it the other way round; vectors stay.
    fn turn(&self, x: &Array) -> Array {
        let &[rows, columns] = x.shape.as_slice() else {
            return x.clone();
        };
        if !self.transposed {
            return x.clone();
        }
        let values = (0..columns)
            .flat_map(|c| (0..rows).map(move |r| x.values[r * columns + c]))
            .collect();
        Array {
            shape: vec![columns, rows],
            values,
        }
    }
}

/// Which way round HF stores the matrices of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// `torch.nn.Linear`: `[out, in]`, as ours.
    OutIn,
    /// GPT-2's `Conv1D`: `[in, out]`.
    InOut,
}

/// All rules of a model.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// One for each HF tensor that the model may have; those whose parameters our model lacks (a bias) are idle.
    pub rules: Vec<Rule>,
    /// What HF's names begin with when the whole model was saved, and lack when its body alone was.
    pub prefix: &'static str,
    /// Endings of names that carry nothing: buffers, copies of tied weights.
    pub ignored: Vec<&'static str>,
}

impl Table {
    /// An empty table for names that may begin with `prefix`.
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// A tensor that both sides store alike: a table of embeddings.
    pub fn same(&mut self, theirs: impl Into<String>, ours: impl Into<String>) {
        self.rules.push(Rule {
            theirs: theirs.into(),
            ours: vec![ours.into()],
            transposed: false,
            fused: None,
        });
    }

    /// A norm: `weight` is our γ, `bias` our β.
    pub fn norm(&mut self, theirs: &str, ours: &str) {
        self.same(format!("{theirs}.weight"), format!("{ours}.gamma"));
        self.same(format!("{theirs}.bias"), format!("{ours}.beta"));
    }

    /// A matrix with its bias.
    pub fn linear(&mut self, theirs: &str, ours: &str, stored: Stored) {
        for kind in ["weight", "bias"] {
            self.rules.push(Rule {
                theirs: format!("{theirs}.{kind}"),
                ours: vec![format!("{ours}.{kind}")],
                transposed: stored == Stored::InOut,
                fused: None,
            });
        }
    }

    /// Queries, keys and values in one matrix, with its bias; `ours` is the path of the attention.
    pub fn fused(&mut self, theirs: &str, ours: &str, stored: Stored, fused: Fused) {
        for kind in ["weight", "bias"] {
            self.rules.push(Rule {
                theirs: format!("{theirs}.{kind}"),
                ours: ["query", "key", "value"]
                    .map(|part| format!("{ours}.{part}.{kind}"))
                    .to_vec(),
                transposed: stored == Stored::InOut,
                fused: Some(fused),
            });
        }
    }

    /// Whether an HF name carries nothing that we need.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|ending| name.ends_with(ending))
    }

    /// HF's tensors (weights, or gradients of them) from ours; rules whose parameters are absent are idle.
    pub fn export(&self, ours: &BTreeMap<String, Array>) -> BTreeMap<String, Array> {
        let mut theirs = BTreeMap::new();
        for rule in &self.rules {
            let parts: Option<Vec<&Array>> = rule.ours.iter().map(|path| ours.get(path)).collect();
            if let Some(parts) = parts {
                theirs.insert(rule.theirs.clone(), rule.export(&parts));
            }
        }
        theirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two groups of (2 query heads, 1 key, 1 value) of width 1, over two inputs.
    #[test]
    fn fused_rows_there_and_back() {
        let mut table = Table::new("");
        let fused = Fused {
            groups: 2,
            query: 2,
            key_value: 1,
            d_head: 1,
        };
        table.fused("qkv", "attention", Stored::InOut, fused);
        let rule = &table.rules[0];
        let theirs = Array {
            shape: vec![2, 8],
            values: (0..16).map(|x| x as f32).collect(),
        };
        let parts: Vec<Array> = (0..3).map(|p| rule.import(&theirs, p)).collect();
        assert_eq!(parts[0].values, [0., 8., 1., 9., 4., 12., 5., 13.]);
        assert_eq!(parts[1].values, [2., 10., 6., 14.]);
        assert_eq!(parts[2].shape, [2, 2]);
        assert_eq!(rule.export(&parts.iter().collect::<Vec<_>>()), theirs);
        assert_eq!(rule.their_shape(&[&[4, 2], &[2, 2], &[2, 2]]), [2, 8]);
    }

    #[test]
    fn gpt2s_matrices_are_transposed() {
        let mut table = Table::new("");
        table.linear("fc", "up", Stored::InOut);
        let theirs = Array {
            shape: vec![2, 3],
            values: vec![1., 2., 3., 4., 5., 6.],
        };
        let ours = table.rules[0].import(&theirs, 0);
        assert_eq!(ours.shape, [3, 2]);
        assert_eq!(ours.values, [1., 4., 2., 5., 3., 6.]);
        assert_eq!(table.rules[0].export(&[&ours]), theirs);
    }
}
