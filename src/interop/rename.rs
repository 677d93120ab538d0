//! Tables between HF names and ours, used in both directions.
//!
//! A rule ties one HF tensor to one of our parameters, to three when HF stores queries, keys and values in one matrix,
//! or one tensor for each expert to one of ours. A family writes its table once; import and export read the same one.

use super::exported::Exported;
use super::rule::Form;
pub use super::rule::{Fused, Rule, Stored};
use super::weights::Array;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// All rules of a model.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// One for each HF tensor that the model may have; those whose parameters our model lacks (a bias) are idle.
    pub rules: Vec<Rule>,
    /// The beginning of HF's names when the whole model was saved, which they lack when its body alone was.
    pub prefix: &'static str,
    /// Endings of names that carry nothing: buffers, copies of tied weights.
    pub ignored: Vec<&'static str>,
    /// Tensors of an exported folder that are copies of others: the copy and its original.
    pub copies: Vec<(String, String)>,
    /// Whole numbers of an exported folder, all 0: counts of batches.
    pub counts: Vec<String>,
    /// Tensors that follow from the shape and are no parameters of ours.
    pub constants: Vec<Constant>,
    /// Beginnings of our paths of parameters that a folder may lack: they keep the values that they were drawn with.
    pub drawn: Vec<&'static str>,
}

/// Endings of the names of tensors that are copies of the table of tokens where embeddings are tied.
pub(super) const TIED: [&str; 7] = [
    "head.weight",
    "embed_out.weight",
    "decoder.weight",
    "embed_tokens.weight",
    "vocab_projector.weight",
    "proj_out.weight",
    "lm_loss.weight",
];

/// A tensor of HF's that follows from the shape: sinusoids.
#[derive(Clone)]
pub struct Constant {
    /// HF's name.
    pub name: String,
    /// Length of each dimension.
    pub shape: Vec<usize>,
    /// Whether an exported folder has it.
    pub written: bool,
    values: Rc<dyn Fn() -> Vec<f32>>,
}

impl Constant {
    /// Its numbers.
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
    /// An empty table for names that may begin with `prefix`.
    pub fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }

    /// The same with our paths below `part`.
    #[must_use]
    pub fn within(mut self, part: &str) -> Self {
        for path in self.rules.iter_mut().flat_map(|rule| &mut rule.ours) {
            path.insert_str(0, part);
        }
        self
    }

    /// The rules of the parameters below `part`, with paths that begin there.
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

    /// The same with names that do not begin with [`Self::prefix`].
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

    /// A tensor that both sides store alike: a table of embeddings.
    pub fn same(&mut self, theirs: impl Into<String>, ours: impl Into<String>) {
        self.add(theirs, vec![ours.into()], Form::Same);
    }

    /// A tensor of the same numbers that HF stores in this shape.
    pub fn reshaped(
        &mut self,
        theirs: impl Into<String>,
        ours: impl Into<String>,
        shape: Vec<usize>,
    ) {
        self.add(theirs, vec![ours.into()], Form::Reshaped(shape));
    }

    /// A matrix of heads that HF stores as `[in, heads, d_head]`.
    pub fn in_by_heads(&mut self, theirs: String, ours: String, shape: [usize; 3]) {
        self.add(theirs, vec![ours], Form::InByHeads(shape.to_vec()));
    }

    /// A norm: `weight` is our γ, `bias` our β.
    pub fn norm(&mut self, theirs: &str, ours: &str) {
        self.same(format!("{theirs}.weight"), format!("{ours}.gamma"));
        self.same(format!("{theirs}.bias"), format!("{ours}.beta"));
    }

    /// A matrix with its bias.
    pub fn linear(&mut self, theirs: &str, ours: &str, stored: Stored) {
        let form = match stored {
            Stored::OutIn => Form::Same,
            Stored::InOut => Form::Transposed,
        };
        for kind in ["weight", "bias"] {
            let ours = vec![format!("{ours}.{kind}")];
            self.add(format!("{theirs}.{kind}"), ours, form.clone());
        }
    }

    /// Some matrices with their biases in one tensor: our paths with their rows, the first one's before the second one's.
    pub fn stacked<const N: usize>(&mut self, theirs: &str, ours: [(&str, usize); N]) {
        self.stacked_by(1, theirs, ours);
    }

    /// The same in each of so many groups: our paths with their rows of a group.
    pub fn stacked_by<const N: usize>(
        &mut self,
        groups: usize,
        theirs: &str,
        ours: [(&str, usize); N],
    ) {
        let ours = ours.map(|(path, rows)| (path, vec![rows]));
        self.stacked_in_sections(groups, theirs, ours);
    }

    /// The same where one of ours has several sections of rows in a group: all groups' rows of the first come first with us.
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

    /// Some matrices with their biases, as [`Stored::OutIn`]: names below `theirs`, and our paths below `ours`.
    pub fn linears(&mut self, theirs: &str, ours: &str, pairs: &[(&str, &str)]) {
        for (name, path) in pairs {
            let (name, path) = (format!("{theirs}.{name}"), format!("{ours}.{path}"));
            self.linear(&name, &path, Stored::OutIn);
        }
    }

    /// Some norms: names below `theirs`, and our paths below `ours`.
    pub fn norms(&mut self, theirs: &str, ours: &str, pairs: &[(&str, &str)]) {
        for (name, path) in pairs {
            self.norm(&format!("{theirs}.{name}"), &format!("{ours}.{path}"));
        }
    }

    /// The matrices of experts, one HF tensor each; ours has all of them.
    pub fn experts(&mut self, theirs: Vec<String>, ours: String) {
        self.rules.push(Rule {
            theirs,
            ours: vec![ours],
            form: Form::Experts,
            read_only: false,
        });
    }

    /// Matrices of all experts in one tensor of this shape, `[experts, in, out]`, in whose last dimension ours take turns, or their biases.
    pub fn experts_in_out(&mut self, theirs: String, shape: Vec<usize>, ours: Vec<String>) {
        self.add(theirs, ours, Form::ExpertsInOut(shape));
    }

    /// Two matrices of all experts in one tensor, which files of version 5 of the library may have: read, not written.
    pub fn or_fused_experts(&mut self, theirs: String, ours: [String; 2]) {
        self.rules.push(Rule {
            theirs: vec![theirs],
            ours: ours.to_vec(),
            form: Form::FusedExperts,
            read_only: true,
        });
    }

    /// A tensor that both sides store alike, under another name of it: read, not written.
    pub fn or_same(&mut self, theirs: String, ours: String) {
        self.same(theirs, ours);
        if let Some(rule) = self.rules.last_mut() {
            rule.read_only = true;
        }
    }

    /// The rules once more with other parts of HF's names, which files of another version of the library have: read, not
    /// written.
    pub fn or_named(&mut self, renamed: &[(&str, &str)]) {
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

    /// Queries, keys and values in one matrix, with its bias; `ours` is the path of the attention.
    pub fn fused(&mut self, theirs: &str, ours: &str, stored: Stored, fused: Fused) {
        for kind in ["weight", "bias"] {
            let ours = ["query", "key", "value"].map(|part| format!("{ours}.{part}.{kind}"));
            let form = Form::Fused(fused, stored);
            self.add(format!("{theirs}.{kind}"), ours.to_vec(), form);
        }
    }

    /// Queries, keys and values of `rows` rows each in one matrix, with its bias, under the names that `torch.nn.MultiheadAttention`
    /// gives them; `ours` is the path of the attention.
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

    /// A tensor that follows from the shape.
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

    /// Whether an HF name carries nothing that we need.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|ending| name.ends_with(ending))
    }

    /// Whether a folder may lack the parameter of this path.
    pub fn may_lack(&self, ours: &str) -> bool {
        let mut drawn = self.drawn.iter();
        drawn.any(|beginning| ours.starts_with(beginning))
    }

    /// Whether HF's model has the parameter of this path in several modules: a table of tokens that is tied to the head.
    pub fn is_tied(&self, ours: &str) -> bool {
        let mut ignored = self.ignored.iter();
        ours.ends_with("embedding.weight")
            && ignored.any(|name| TIED.iter().any(|end| name.ends_with(end)))
    }

    /// HF's tensors (weights, or gradients of them) from ours; rules whose parameters are absent are idle.
    pub fn export(&self, ours: &BTreeMap<String, Array>) -> BTreeMap<String, Array> {
        let shapes = ours
            .iter()
            .map(|(path, array)| (path, array.shape.as_slice()));
        let exported = Exported::of(self, &shapes.collect());
        let mut theirs = BTreeMap::new();
        for made in &exported.made {
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
