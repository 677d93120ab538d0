//! `formwork completions` and `formwork man`: what a shell and its manual know of the command line.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::output;
use crate::error::{Error, Result};

/// `formwork completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell that reads them.
    pub shell: Shell,
}

/// `formwork man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Folder of the pages, such as ~/.local/share/man/man1.
    pub folder: PathBuf,
}

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output's.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "formwork", &mut script);
    output::part(String::from_utf8_lossy(&script))
}

/// Writes a page for the program and one for each command.
///
/// # Errors
/// A folder or file that cannot be written.
pub fn man(args: ManArgs, command: clap::Command) -> Result<()> {
    let folder = output::folder(args.folder)?;
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    clap_mangen::generate_to(command, &folder).map_err(Error::io("write", &folder))?;
    output::note(format!("manual pages in {}", folder.display()));
    Ok(())
}
