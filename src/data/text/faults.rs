//! Faults that involve several keys of `kind = "text"`.

use super::{TextConfig, Windows};

impl TextConfig {
    pub(super) fn weight_faults(&self) -> Vec<String> {
        let (weights, paths) = (self.weights.len(), self.path.0.len());
        let mut faults = Vec::new();
        if weights == 0 {
            return faults;
        }
        if weights != paths {
            faults.push(format!(
                "[data] weights has {weights} number(s), but path has {paths} entries; give one weight for each entry"
            ));
        }
        if self.weights.iter().any(|w| !w.is_finite() || *w <= 0.0) {
            faults.push(
                "[data] weights must be positive numbers; to exclude a corpus, remove it from path"
                    .into(),
            );
        }
        if self.windows != Windows::Random {
            faults.push(
                "[data] weights need windows = \"random\": other windows read every token once per epoch".into(),
            );
        }
        faults
    }

    pub(super) fn retrieval_faults(&self) -> Vec<String> {
        let Some(database) = &self.retrieval else {
            return Vec::new();
        };
        let mut faults = database.faults();
        if self.windows == Windows::Random {
            faults.push("[data] windows = \"random\" begin anywhere, but neighbours are found for consecutive chunks; set windows = \"contiguous\" \
                         or \"documents\"".into());
        }
        if self.isolates_documents() {
            faults.push("[data] across_documents = false hides documents from each other, but a chunk may contain the end of one and the beginning \
                         of the next; remove it or [data.retrieval]".into());
        }
        faults
    }
}
