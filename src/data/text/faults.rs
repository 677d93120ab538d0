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
                "[data] weights has {weights} number(s) and path {paths} entries; give one weight for each entry"
            ));
        }
        if self.weights.iter().any(|w| !w.is_finite() || *w <= 0.0) {
            faults.push(
                "[data] weights must be positive numbers; leave a corpus out of path instead"
                    .into(),
            );
        }
        if self.windows != Windows::Random {
            faults.push(
                "[data] weights need windows = \"random\": other windows read every token once an epoch".into(),
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
            faults.push("[data] windows = \"random\" begin anywhere, and neighbours are found for chunks side by side; set windows = \"contiguous\" or \"documents\"".into());
        }
        if self.isolates_documents() {
            faults.push("[data] across_documents = false hides documents from each other, and a chunk may hold the end of one and the beginning of the next; leave it or [data.retrieval] out".into());
        }
        faults
    }
}
