//! `formwork report SWEEP|RUN…`: writes tables, figures and a web page for a paper to one folder.

use std::path::PathBuf;

use clap::Args;

use super::compare::{ComparisonArgs, headline};
use super::output;
use crate::error::{Error, Result};
use crate::files;
use crate::report::read::find::{locate, locate_sweep};
use crate::report::render::figure::FigureOptions;
use crate::report::render::paper;
use crate::train::symlinks;

/// Write tables, figures and a web page for a paper from a sweep or from runs.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    #[command(flatten)]
    wanted: ComparisonArgs,
    /// The output folder; `report/` in the sweep, or in the single run, when absent.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Use a logarithmic axis for the steps in figures.
    #[arg(long)]
    pub log_x: bool,
    /// Use a logarithmic axis for the values in figures.
    #[arg(long)]
    pub log_y: bool,
}

/// Writes the report and prints the paths of its files to standard output.
///
/// # Errors
/// If runs cannot be read or compared; if several runs are given without a folder; if files cannot be written.
pub fn run(args: ReportArgs) -> Result<()> {
    let out = folder(&args)?;
    let look = FigureOptions {
        log_x: args.log_x,
        log_y: args.log_y,
    };
    let comparison = args.wanted.comparison()?;
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

/// The output folder of the report.
fn folder(args: &ReportArgs) -> Result<PathBuf> {
    let out = match (&args.out, args.wanted.runs.as_slice()) {
        (Some(out), _) => out.clone(),
        (None, [one]) => {
            let out = locate_sweep(one)
                .unwrap_or_else(|| locate(one))
                .join("report");
            // A folder from elsewhere could contain links that lead outside of it.
            symlinks::refuse_symlinks_in(&out)?;
            out
        }
        (None, _) => {
            return Err(Error::usage(
                "give the folder for the report of several runs with --out",
            ));
        }
    };
    output::output_folder(out)
}
