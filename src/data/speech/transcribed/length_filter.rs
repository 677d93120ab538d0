//! Handles recordings that are longer than `seconds`: they are left out of training and cut in evaluations.

use super::TranscribedSpeechConfig;
use crate::data::described::Example;
use crate::data::speech::decode;
use crate::data::{PerSplit, Request, Split};
use crate::error::{Error, Result};
use rayon::prelude::*;
use std::collections::HashSet;
use std::path::PathBuf;

impl TranscribedSpeechConfig {
    /// Leaves out training recordings that are longer than `seconds`; returns notes about them, and about
    /// recordings of other splits that will be cut.
    ///
    /// # Errors
    /// If a recording is damaged, or a new run has nothing left to train on.
    pub(super) fn fitted(
        &self,
        examples: &mut PerSplit<Vec<Example>>,
        request: &Request,
    ) -> Result<Vec<String>> {
        let longer = self.longer(examples)?;
        // Files given for an evaluation are not trained on.
        let evaluated = request.run_shape.is_some() && self.valid_path.as_ref() == Some(&self.path);
        let longer_than = format!("longer than [data] seconds = {:?}", self.seconds);
        let mut notes = Vec::new();
        for split in Split::ALL {
            let of_split = examples.get_mut(split);
            let is_longer = |example: &Example| longer.contains(&example.file);
            let all = of_split.len();
            let count = of_split.iter().filter(|one| is_longer(one)).count();
            if count == 0 {
                continue;
            }
            let name = match split {
                Split::Train => "training",
                Split::Valid | Split::Test => split.name(),
            };
            let many = format!("{count} of {all} {name} recordings are {longer_than}, and are");
            match split {
                Split::Valid | Split::Test => notes.push(format!("{many} cut")),
                Split::Train if count < all => {
                    of_split.retain(|one| !is_longer(one));
                    if !evaluated {
                        notes.push(format!("{many} left out"));
                    }
                }
                Split::Train if evaluated => {}
                Split::Train => {
                    return Err(Error::usage(format!(
                        "[data] all {all} training recordings are {longer_than}, which leaves nothing to train on"
                    )));
                }
            }
        }
        Ok(notes)
    }

    /// Returns the recordings that are longer than `seconds`. Each file is measured once, even if several
    /// splits have it; a file that does not state its length is read.
    fn longer(&self, examples: &PerSplit<Vec<Example>>) -> Result<HashSet<PathBuf>> {
        let mut seen = HashSet::new();
        let all = Split::ALL.into_iter().flat_map(|split| examples.get(split));
        let each: Vec<&Example> = all.filter(|one| seen.insert(&one.file)).collect();
        let measure = |example: &&Example| -> Result<bool> {
            let longer = decode::is_longer(&example.file, self.seconds);
            longer.map_err(|e| Error::run(format!("{}: {e}", example.place)))
        };
        let measured: Vec<Result<bool>> = each.par_iter().map(measure).collect();
        let mut longer = HashSet::new();
        for (is_longer, example) in measured.into_iter().zip(each) {
            if is_longer? {
                longer.insert(example.file.clone());
            }
        }
        Ok(longer)
    }
}
