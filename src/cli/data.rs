//! `formwork data list | show NAME | pull NAME [--from DIR]`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::output;
use crate::data::SearchPath;
use crate::data::catalog::manifest::{FileEntry, Manifest};
use crate::data::catalog::pull::{self, Event, FileStatus};
use crate::data::catalog::search_path::DOWNLOAD_FOLDER;
use crate::error::{Error, Result};

/// Public data sets: list them, and fetch them.
#[derive(Args, Debug)]
pub struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Subcommand, Debug)]
enum DataCommand {
    /// Every data set, its size, licence and whether it has been fetched
    List,
    /// A data set's files, addresses, licence and how to use it
    Show {
        /// Name of the data set, as in `data list`
        name: String,
    },
    /// Fetch a data set into datasets/data, checking every file
    Pull {
        /// Name of the data set, as in `data list`
        name: String,
        /// Take the files from this folder instead of the network
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
    },
}

/// Runs the command.
///
/// # Errors
/// If the data set is unknown; the errors of `pull`.
pub fn run(args: DataArgs) -> Result<()> {
    match args.command {
        DataCommand::List => output::line_part(list(&SearchPath::new(None))?),
        DataCommand::Show { name } => {
            output::line_part(show(&Manifest::find(&name)?, &SearchPath::new(None)))
        }
        DataCommand::Pull { name, from } => {
            let manifest = Manifest::find(&name)?;
            if let Some(from) = from.as_deref().filter(|f| !f.is_dir()) {
                return Err(Error::usage(format!(
                    "--from {}: there is no such folder",
                    from.display()
                )));
            }
            fetch(
                &manifest,
                from.as_deref(),
                &Path::new(DOWNLOAD_FOLDER).join(&name),
            )
        }
    }
}

fn list(places: &SearchPath) -> Result<String> {
    let mut text = String::new();
    let all = Manifest::all()?;
    let width = all.iter().map(|m| m.name.len()).max().unwrap_or(0);
    for manifest in &all {
        let here = manifest
            .files
            .iter()
            .filter(|f| manifest.locate(f, places.roots()).is_some())
            .count();
        let state = match here {
            0 => "-".to_owned(),
            n if n == manifest.files.len() => "here".to_owned(),
            n => format!("{n} of {} files here", manifest.files.len()),
        };
        let bytes: u64 = manifest.files.iter().map(FileEntry::size).sum();
        text.push_str(&format!(
            "{:width$}  {:>9}  {:<22}  {}\n{:width$}  {:>9}  {:<22}  licence: {}\n",
            manifest.name,
            size(bytes),
            state,
            manifest.title,
            "",
            "",
            "",
            manifest.licence
        ));
    }
    Ok(text)
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=999_999 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

fn show(manifest: &Manifest, places: &SearchPath) -> String {
    let mut text = format!("{}: {}\n", manifest.name, manifest.title);
    for (name, value) in [
        ("format", &manifest.format),
        ("rows", &manifest.rows),
        ("licence", &manifest.licence),
        ("use", &manifest.r#use),
        ("citation", &manifest.citation),
        ("note", &manifest.note),
    ] {
        if !value.is_empty() {
            text.push_str(&format!("{name:<9} {value}\n"));
        }
    }
    for file in &manifest.files {
        let sum = file
            .sha256
            .as_deref()
            .or(file.unpacked_sha256.as_deref())
            .unwrap_or_default();
        let unpacked = if file.sha256.is_none() {
            " (unpacked)"
        } else {
            ""
        };
        text.push_str(&format!(
            "\n{}  {}\n",
            file.path.display(),
            size(file.size())
        ));
        text.push_str(&format!("  sha256  {sum}{unpacked}\n"));
        match (&file.url, &file.made) {
            (Some(url), _) => text.push_str(&format!("  from    {url}\n")),
            (None, made) => text.push_str(&format!(
                "  made    {}\n",
                made.as_deref().unwrap_or_default()
            )),
        }
        let here = manifest.locate(file, places.roots());
        let here = here.map_or("no".to_owned(), |path| path.display().to_string());
        text.push_str(&format!("  here    {here}\n"));
    }
    text.push_str(&format!("\n{}\n", manifest.example.trim()));
    text
}

fn fetch(manifest: &Manifest, from: Option<&Path>, folder: &Path) -> Result<()> {
    let live = std::io::stderr().is_terminal();
    let mut shown = 0;
    let outcomes = pull::pull(manifest, from, folder, &mut |file, event| match event {
        // Overwrites the progress line after each further MB.
        Event::Progress(bytes) if live && bytes / 1_000_000 != shown => {
            shown = bytes / 1_000_000;
            output::note_part(format!(
                "\r{}  {} of {}",
                file.path.display(),
                size(bytes),
                size(file.size())
            ));
        }
        Event::Progress(_) => {}
        Event::Done(outcome) => {
            let clear = if live { "\r\x1b[K" } else { "" };
            let what = match outcome {
                FileStatus::Present => "already present, checked".to_owned(),
                FileStatus::Fetched => "fetched, checked".to_owned(),
                FileStatus::NotOffered(made) => {
                    format!(
                        "skipped: this file cannot be downloaded ({made}); use --from with a folder that contains it"
                    )
                }
            };
            output::note(format!("{clear}{}  {what}", file.path.display()));
        }
    })?;
    let done = outcomes
        .iter()
        .filter(|o| !matches!(o, FileStatus::NotOffered(_)))
        .count();
    output::line(format!(
        "{}: {done} of {} files in {}",
        manifest.name,
        outcomes.len(),
        folder.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_and_every_page_of_it() {
        let places = SearchPath::with_folders(None, Vec::new(), "none".into());
        let text = list(&places).unwrap();
        for manifest in Manifest::all().unwrap() {
            assert!(text.contains(&manifest.name) && text.contains(&manifest.licence));
            let page = show(&manifest, &places);
            assert!(
                page.contains("sha256") && page.contains("here    no"),
                "{page}"
            );
        }
    }
}
