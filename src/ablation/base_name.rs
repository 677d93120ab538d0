//! A sweep whose file has no name has that of the file that it is laid over, and with it the folder of that file's run.

use crate::experiment::{Loaded, Origin};

/// The message about a name that is another file's.
pub fn note(sweep: &Loaded) -> Option<String> {
    let Origin::File { path, .. } = sweep.origin("name") else {
        return None;
    };
    (*path != sweep.path).then(|| {
        format!(
            "the sweep has its name, `{}`, from {}: give {} a `name`",
            sweep.experiment.name,
            path.display(),
            sweep.path.display()
        )
    })
}
