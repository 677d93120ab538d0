//! Detects a sweep file without a name: it takes the name of the file that it extends, and with it the folder of that
//! file's run.

use crate::experiment::{LoadedExperiment, Origin};

/// Returns the message about a name that comes from another file.
pub fn note(sweep: &LoadedExperiment) -> Option<String> {
    let Origin::File { path, .. } = sweep.origin("name") else {
        return None;
    };
    (*path != sweep.path).then(|| {
        format!(
            "the sweep takes its name, `{}`, from {}; set `name` in {}",
            sweep.experiment.name,
            path.display(),
            sweep.path.display()
        )
    })
}
