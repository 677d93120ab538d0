//! Tables between HF's tensor names and our parameter paths, used in both directions.
//!
//! A rule maps one HF tensor to one of our parameters; or to three, if HF stores queries, keys and values in one matrix.
//! It may also map one HF tensor per expert to one of ours. A family writes its table once, for both import and export.

use super::exported_tensors::Exported;
use super::rule::Form;
pub use super::rule::{Fused, Orientation, Rule};
use super::weights::Array;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// All rules of a model.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// One rule for each HF tensor that the model may have; rules whose parameters our model lacks (a bias) are skipped.
    pub rules: Vec<Rule>,
    /// Prefix of HF's names in files of a whole model; files of the body by itself lack it.
    pub prefix: &'static str,
    /// Endings of HF names that are not read: buffers, copies of tied weights.
    pub ignored: Vec<&'static str>,
    /// Tensors of an exported folder that are copies of others: (copy, original).
    pub copies: Vec<(String, String)>,
    /// Names of integer tensors of an exported folder, all 0: batch counts.
    pub counts: Vec<String>,
    /// Tensors whose values follow from the shape and which are not parameters of ours.
    pub constants: Vec<Constant>,
    /// Prefixes of paths of our parameters that a folder may lack: these keep their initial values.
    pub optional: Vec<&'static str>,
}

/// Endings of the names of tensors that are copies of the embedding table if embeddings are tied.
pub(super) const TIED: [&str; 7] = [
    "head.weight",
    "embed_out.weight",
    "decoder.weight",
    "embed_tokens.weight",
    "vocab_projector.weight",
    "proj_out.weight",
    "lm_loss.weight",
];

/// An HF tensor whose values follow from the shape, such as sinusoids.
#[derive(Clone)]
pub struct Constant {
    /// HF's name.
    pub name: String,
    /// Length of each dimension.
    pub shape: Vec<usize>,
    /// Whether the tensor is written on export.
    pub written: bool,
    values: Rc<dyn Fn() -> Vec<f32>>,
}

impl Constant {
    /// Computes the values.
    pub fn array(&self) -> Array {
        Array {
            shape: self.shape.clone(),
            values: (self.values)(),
        }
    }
}

impl fmt::Debug for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.shape)
    }
}

impl Table {
    /// Makes an empty table for names that may begin with `prefix`.
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// Returns the table with our paths moved below `part`.
    #[must_use]
    pub fn within(mut self, part: &str) -> Self {
        for path in self.rules.iter_mut().flat_map(|rule| &mut rule.ours) {
            path.insert_str(0, part);
        }
        self
    }

    /// Keeps the rules of the parameters below `part`, with paths relative to it.
    #[must_use]
    pub fn below(mut self, part: &str) -> Self {
        self.rules.retain_mut(|rule| {
            let short: Option<Vec<String>> = rule
                .ours
                .iter()
                .map(|path| path.strip_prefix(part).map(String::from))
                .collect();
            short.is_some_and(|short| {
                rule.ours = short;
                true
            })
        });
        self
    }

    /// Returns the table with [`Self::prefix`] removed from HF's names.
    #[must_use]
    pub fn unprefixed(mut self) -> Self {
        let prefix = self.prefix;
        let rules = self.rules.iter_mut().flat_map(|rule| &mut rule.theirs);
        let constants = self.constants.iter_mut().map(|constant| &mut constant.name);
        for name in rules.chain(constants) {
            if let Some(short) = name.strip_prefix(prefix) {
                *name = short.to_owned();
            }
        }
        self
    }

    fn add(&mut self, theirs: impl Into<String>, ours: Vec<String>, form: Form) {
        self.rules.push(Rule {
            theirs: vec![theirs.into()],
            ours,
            form,
            read_only: false,
        });
    }

    /// A tensor that both sides store alike, such as an embedding table.
    pub fn same(&mut self, theirs: impl Into<String>, ours: impl Into<String>) {
        self.add(theirs, vec![ours.into()], Form::Same);
    }

    /// A tensor with the same values, which HF stores in this shape.
    pub fn reshaped(
        &mut self,
        theirs: impl Into<String>,
        ours: impl Into<String>,
        shape: Vec<usize>,
    ) {
        self.add(theirs, vec![ours.into()], Form::Reshaped(shape));
    }

    /// A projection to heads that HF stores as `[in, heads, d_head]`.
    pub fn projection_to_heads(&mut self, theirs: String, ours: String, shape: [usize; 3]) {
        self.add(theirs, vec![ours], Form::InByHeads(shape.to_vec()));
    }

    /// A norm: HF's `weight` is our `gamma`, its `bias` our `beta`.
    pub fn norm(&mut self, theirs: &str, ours: &str) {
        self.same(format!("{theirs}.weight"), format!("{ours}.gamma"));
        self.same(format!("{theirs}.bias"), format!("{ours}.beta"));
    }

    /// A linear layer: matrix and bias.
    pub fn linear(&mut self, theirs: &str, ours: &str, stored: Orientation) {
        let form = match stored {
            Orientation::OutIn => Form::Same,
            Orientation::InOut => Form::Transposed,
        };
        for kind in ["weight", "bias"] {
            let ours = vec![format!("{ours}.{kind}")];
            self.add(format!("{theirs}.{kind}"), ours, form.clone());
        }
    }

    /// Several linear layers in one HF tensor per kind (weight, bias): our paths with their row counts, stacked in order.
    pub fn stacked<const N: usize>(&mut self, theirs: &str, ours: [(&str, usize); N]) {
        self.stacked_by(1, theirs, ours);
    }

    /// Same as [`Self::stacked`], repeated in each of `groups` groups: our paths with their row counts in a group.
    pub fn stacked_by<const N: usize>(
        &mut self,
        groups: usize,
        theirs: &str,
        ours: [(&str, usize); N],
    ) {
        let ours = ours.map(|(path, rows)| (path, vec![rows]));
        self.stacked_in_sections(groups, theirs, ours);
    }

    /// Same as [`Self::stacked_by`], but a parameter may have several sections of rows in a group. Our parameter holds its first
    /// section of all groups first.
    pub fn stacked_in_sections<const N: usize>(
        &mut self,
        groups: usize,
        theirs: &str,
        ours: [(&str, Vec<usize>); N],
    ) {
        let rows = ours.clone().map(|(_, rows)| rows).to_vec();
        for kind in ["weight", "bias"] {
            let ours = ours.each_ref().map(|(path, _)| format!("{path}.{kind}"));
            let ours = ours.to_vec();
            let form = Form::Stacked {
                groups,
                rows: rows.clone(),
            };
            self.add(format!("{theirs}.{kind}"), ours, form);
        }
    }

    /// Several linear layers stored as [`Orientation::OutIn`]: (name below `theirs`, path below `ours`).
    pub fn linears(&mut self, theirs: &str, ours: &str, pairs: &[(&str, &str)]) {
        for (name, path) in pairs {
            let (name, path) = (format!("{theirs}.{name}"), format!("{ours}.{path}"));
            self.linear(&name, &path, Orientation::OutIn);
        }
    }

    /// Several norms: (name below `theirs`, path below `ours`).
    pub fn norms(&mut self, theirs: &str, ours: &str, pairs: &[(&str, &str)]) {
        for (name, path) in pairs {
            self.norm(&format!("{theirs}.{name}"), &format!("{ours}.{path}"));
        }
    }

    /// The matrices of experts, one HF tensor each; our parameter holds all of them.
    pub fn experts(&mut self, theirs: Vec<String>, ours: String) {
        self.rules.push(Rule {
            theirs,
            ours: vec![ours],
            form: Form::Experts,
            read_only: false,
        });
    }

    /// Matrices of all experts in one HF tensor of this shape, `[experts, in, out]`, or their biases; our parameters are
    /// interleaved along its last dimension.
    pub fn experts_in_out(&mut self, theirs: String, shape: Vec<usize>, ours: Vec<String>) {
        self.add(theirs, ours, Form::ExpertsInOut(shape));
    }

    /// Two matrices of all experts in one tensor, as files of version 5 of transformers may have them: read, never written.
    pub fn or_fused_experts(&mut self, theirs: String, ours: [String; 2]) {
        self.rules.push(Rule {
            theirs: vec![theirs],
            ours: ours.to_vec(),
            form: Form::FusedExperts,
            read_only: true,
        });
    }

    /// An alternative name of a tensor that both sides store alike: read, never written.
    pub fn alias(&mut self, theirs: String, ours: String) {
        self.same(theirs, ours);
        if let Some(rule) = self.rules.last_mut() {
            rule.read_only = true;
        }
    }

    /// Repeats all rules with parts of HF's names replaced, for files of another version of the library: read, never
    /// written.
    pub fn aliases(&mut self, renamed: &[(&str, &str)]) {
        let renamed = |name: &String| {
            let parts = renamed.iter();
            parts.fold(name.clone(), |name, (old, new)| name.replace(old, new))
        };
        let others: Vec<Rule> = self
            .rules
            .iter()
            .map(|rule| Rule {
                theirs: rule.theirs.iter().map(renamed).collect(),
                read_only: true,
                ..rule.clone()
            })
            .filter(|other| self.rules.iter().all(|rule| rule.theirs != other.theirs))
            .collect();
        self.rules.extend(others);
    }

    /// Queries, keys and values in one matrix, and its bias; `ours` is the path of the attention.
    pub fn fused(&mut self, theirs: &str, ours: &str, stored: Orientation, fused: Fused) {
        for kind in ["weight", "bias"] {
            let ours = ["query", "key", "value"].map(|part| format!("{ours}.{part}.{kind}"));
            let form = Form::Fused(fused, stored);
            self.add(format!("{theirs}.{kind}"), ours.to_vec(), form);
        }
    }

    /// Queries, keys and values of `rows` rows each in one matrix, and its bias, named as in `torch.nn.MultiheadAttention`;
    /// `ours` is the path of the attention.
    pub fn in_proj(&mut self, theirs: &str, ours: &str, rows: usize) {
        for kind in ["weight", "bias"] {
            let ours = ["query", "key", "value"].map(|part| format!("{ours}.{part}.{kind}"));
            let form = Form::Stacked {
                groups: 1,
                rows: vec![vec![rows]; 3],
            };
            self.add(format!("{theirs}.in_proj_{kind}"), ours.to_vec(), form);
        }
    }

    /// A tensor whose values follow from the shape.
    pub fn constant(
        &mut self,
        name: String,
        shape: Vec<usize>,
        written: bool,
        values: impl Fn() -> Vec<f32> + 'static,
    ) {
        self.constants.push(Constant {
            name,
            shape,
            written,
            values: Rc::new(values),
        });
    }

    /// Whether an HF tensor of this name need not be read.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|ending| name.ends_with(ending))
    }

    /// Whether a folder may lack the parameter with this path.
    pub fn may_lack(&self, ours: &str) -> bool {
        let mut drawn = self.optional.iter();
        drawn.any(|beginning| ours.starts_with(beginning))
    }

    /// Whether several of HF's modules share the parameter with this path: an embedding table tied to the head.
    pub fn is_tied(&self, ours: &str) -> bool {
        let mut ignored = self.ignored.iter();
        ours.ends_with("embedding.weight")
            && ignored.any(|name| TIED.iter().any(|end| name.ends_with(end)))
    }

    /// Converts our tensors (weights or gradients) to HF's; rules whose parameters are absent are skipped.
    pub fn export(&self, ours: &BTreeMap<String, Array>) -> BTreeMap<String, Array> {
        let shapes = ours
            .iter()
            .map(|(path, array)| (path, array.shape.as_slice()));
        let exported = Exported::of(self, &shapes.collect());
        let mut theirs = BTreeMap::new();
        for made in &exported.tensors {
            let arrays = made.arrays(|path| ours.get(path).cloned());
            let named = made.names.iter();
            theirs.extend(named.map(|(name, part)| (name.to_string(), arrays[*part].clone())));
        }
        let constants = exported.constants.into_iter();
        theirs.extend(constants.map(|(name, array)| (name.to_string(), array)));
        theirs
    }
}

#[cfg(test)]
mod tests;
