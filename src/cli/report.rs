//! `formwork report SWEEP|RUN…`: the tables, figures and the page of a paper, in one folder.

use std::path::PathBuf;

use clap::Args;

use super::compare::{Wanted, headline};
use super::output;
use crate::error::{Error, Result};
use crate::files;
use crate::report::read::find::{locate, locate_sweep};
use crate::report::render::figure::Look;
use crate::report::render::paper;
use crate::train::links;

/// Write what a paper takes from a sweep or from runs: tables, figures, a page.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    wanted: Wanted,
    /// The folder to write; `report/` in the sweep, or in the one run, when absent.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Steps on a logarithmic axis in the figures.
    #[arg(long)]
    pub log_x: bool,
    /// Values on a logarithmic axis in the figures.
    #[arg(long)]
    pub log_y: bool,
}

/// Writes the report and names its files on standard output.
///
/// # Errors
/// Runs that cannot be read or compared, several runs without a folder, files that cannot be written.
pub fn run(args: ReportArgs) -> Result<()> {
    let out = folder(&args)?;
    let look = Look {
        log_x: args.log_x,
        log_y: args.log_y,
    };
    let comparison = args.wanted.compared()?;
    let documents = paper::documents(&comparison, look, &out)?;
    std::fs::create_dir_all(&out).map_err(Error::io("make", &out))?;
    for name in paper::superseded(&documents) {
        let old = out.join(name);
        match std::fs::remove_file(&old) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("remove", &old)(error));
            }
            _ => {}
        }
    }
    output::line(headline(&comparison))?;
    for document in &documents {
        let path = out.join(&document.name);
        files::write_result(&path, &document.bytes)?;
        output::line(path.display().to_string())?;
    }
    for note in &comparison.notes {
        output::note(format!(
            "note: {}",
            crate::report::render::terminal::plain(note)
        ));
    }
    Ok(())
}

/// Where the report goes.
fn folder(args: &ReportArgs) -> Result<PathBuf> {
    let out = match (&args.out, args.wanted.runs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [one]) => {
            let out = locate_sweep(one)
                .unwrap_or_else(|| locate(one))
                .join("report");
            // A folder from elsewhere must not lead what is written out of it.
            links::refuse_all(&out)?;
            out
        }
        (None, _) => {
            return Err(Error::usage(
                "--out: name the folder for the report of several runs",
            ));
        }
    };
    output::folder(out)
}
