//! The keys that say which files, and which of their examples, belong to which split, for kinds of data whose
//! files are tables of examples.

use super::files::discovery;
use super::{Data, Paths, PerSplit, Request, Shape, Source, Split, Tokenizers, split};
use crate::error::{Error, Result};
use crate::tokenizer::Tokenizer;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Returns the key that names the files of a split.
pub(super) fn path_key(split: Split) -> &'static str {
    match split {
        Split::Train => "path",
        Split::Valid => "valid_path",
        Split::Test => "test_path",
    }
}

/// The values of these keys in one kind of data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'a> {
    /// Training files.
    pub path: &'a Paths,
    /// Validation and test files.
    pub held_out: [Option<&'a Paths>; 2],
    /// Shares of `path` held out for validation and for testing.
    pub fractions: [Option<f64>; 2],
    /// Number of training examples to keep.
    pub train_items: Option<usize>,
}

/// A kind of data that has these keys.
pub(super) trait Parted: Sized {
    /// Returns the values of these keys.
    fn parts(&self) -> Parts<'_>;

    /// Returns the same configuration with every path of these keys replaced by `place(path)`.
    fn placed(&self, place: impl Fn(&Path) -> PathBuf) -> Self;
}

/// [`Parted`] for a kind of data whose fields have the names of these keys.
macro_rules! parted {
    ($config:ident) => {
        impl $crate::data::parts::Parted for $config {
            fn parts(&self) -> $crate::data::parts::Parts<'_> {
                $crate::data::parts::Parts {
                    path: &self.path,
                    held_out: [self.valid_path.as_ref(), self.test_path.as_ref()],
                    fractions: [self.valid_fraction, self.test_fraction],
                    train_items: self.train_items,
                }
            }

            fn placed(&self, place: impl Fn(&std::path::Path) -> std::path::PathBuf) -> Self {
                Self {
                    path: self.path.placed(&place),
                    valid_path: self.valid_path.as_ref().map(|p| p.placed(&place)),
                    test_path: self.test_path.as_ref().map(|p| p.placed(&place)),
                    ..self.clone()
                }
            }
        }
    };
}
pub(super) use parted;

impl<'a> Parts<'a> {
    /// Returns the shares of `path` held out for validation (by default 0.1 without `valid_path`) and for
    /// testing (by default 0).
    pub fn fractions(&self) -> (f64, f64) {
        let [valid, test] = self.fractions;
        let usual = if self.held_out[0].is_some() { 0.0 } else { 0.1 };
        (valid.unwrap_or(usual), test.unwrap_or(0.0))
    }

    /// Whether the data has this split.
    pub fn has(&self, split: Split) -> bool {
        let (valid, test) = self.fractions();
        match split {
            Split::Train => true,
            Split::Valid => self.held_out[0].is_some() || valid > 0.0,
            Split::Test => self.held_out[1].is_some() || test > 0.0,
        }
    }

    /// Returns all paths with the keys that name them.
    pub fn paths(&self) -> Vec<(&'static str, &'a Path)> {
        let all = self.by_split();
        all.map(|(split, path)| (path_key(split), path)).collect()
    }

    /// Returns all paths with the splits that they are for.
    pub fn by_split(&self) -> impl Iterator<Item = (Split, &'a Path)> + use<'a> {
        let [valid, test] = self.held_out;
        let all = [
            (Split::Train, Some(self.path)),
            (Split::Valid, valid),
            (Split::Test, test),
        ];
        all.into_iter().flat_map(|(split, paths)| {
            let paths = paths.into_iter().flat_map(|paths| &paths.0);
            paths.map(move |path| (split, path.as_path()))
        })
    }

    /// Returns the faults of these keys. `what` tells what `path` should name, for the message that it is
    /// missing.
    pub fn faults(&self, what: &str) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |wrong: bool, message: &str| {
            if wrong {
                faults.push(format!("[data] {message}"));
            }
        };
        let empty = |p: &Paths| p.0.is_empty() || p.0.iter().any(|p| p.as_os_str().is_empty());
        fault(
            empty(self.path),
            &format!("`path` is missing; name {what}, or a list of them"),
        );
        for ((name, path), fraction) in ["valid", "test"]
            .iter()
            .zip(self.held_out)
            .zip(self.fractions)
        {
            fault(
                path.is_some_and(empty),
                &format!("`{name}_path` is empty; remove it or name a file"),
            );
            fault(
                fraction.is_some_and(|f| !(0.0..1.0).contains(&f)),
                &format!("{name}_fraction must be at least 0 and below 1"),
            );
            fault(
                path.is_some() && fraction.is_some(),
                &format!("{name}_fraction has no effect beside {name}_path; remove one of them"),
            );
        }
        let (valid, test) = self.fractions();
        fault(
            self.train_items == Some(0),
            "train_items = 0 leaves nothing to train on",
        );
        fault(
            valid + test >= 1.0,
            "valid_fraction and test_fraction leave nothing to train on",
        );
        faults
    }

    /// Reads the examples (or the units that are drawn from) of each split: `read` returns those of one file
    /// of a split. `what` gives their name in the plural and in the singular.
    ///
    /// # Errors
    /// If files are missing, `read` fails, or a split has no examples.
    pub fn read<T>(
        &self,
        request: &Request,
        what: [&str; 2],
        mut read: impl FnMut(Split, &Path) -> Result<Vec<T>>,
    ) -> Result<PerSplit<Vec<T>>> {
        let mut of = |split: Split, paths: Option<&Paths>| -> Result<Vec<T>> {
            let paths = paths.map(|p| p.0.as_slice()).unwrap_or_default();
            let places = paths.iter().map(|p| request.places.resolve(p));
            let mut all = Vec::new();
            for place in places {
                let place = place?;
                let files =
                    request.files(path_key(split), std::slice::from_ref(&place), |_| true)?;
                for path in discovery::table_files(&place, files) {
                    all.extend(read(split, &path)?);
                }
            }
            Ok(all)
        };
        let all = of(Split::Train, Some(self.path))?;
        let [valid, test] = self.held_out;
        let (valid, test) = (of(Split::Valid, valid)?, of(Split::Test, test)?);
        let total = all.len();
        let mut parts = split::random_split(all, self.fractions());
        parts.valid.extend(valid);
        parts.test.extend(test);
        let [many, one] = what;
        for split in Split::ALL {
            if self.has(split) && parts.get(split).is_empty() {
                return Err(Error::usage(format!(
                    "[data] the {} split has no {many}: {total} {one}(s) are too few for its fraction",
                    split.name()
                )));
            }
        }
        Ok(parts)
    }

    /// Builds the data from sources that hold their examples in memory.
    ///
    /// # Errors
    /// As for `source`.
    pub fn data(
        &self,
        shape: Shape,
        tokenizer: Tokenizer,
        source: impl Fn(Split) -> Result<Arc<dyn Source>>,
    ) -> Result<Data> {
        let size = |source: &Arc<dyn Source>| -> u64 {
            let sizes = (0..source.len()).map(|i| source.size(i as u64) as u64);
            sizes.sum()
        };
        let train = source(Split::Train)?;
        let mut tokens = PerSplit {
            train: size(&train),
            ..PerSplit::default()
        };
        let mut held_out = PerSplit::<Option<Arc<dyn Source>>>::default();
        for split in [Split::Valid, Split::Test] {
            if self.has(split) {
                let source = source(split)?;
                *tokens.get_mut(split) = size(&source);
                *held_out.get_mut(split) = Some(source);
            }
        }
        Ok(Data {
            valid: held_out.valid,
            test: held_out.test,
            tokenizers: Tokenizers::single(tokenizer),
            tokens,
            ..Data::new(train, shape)
        })
    }
}
