//! `formwork completions` and `formwork man`: shell completions and manual pages of the command line.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

use super::output;
use crate::error::{Error, Result};

/// `formwork completions`.
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell to write completions for.
    pub shell: Shell,
}

/// `formwork man`.
#[derive(Args, Debug)]
pub struct ManArgs {
    /// Folder to write the pages to, such as ~/.local/share/man/man1.
    pub folder: PathBuf,
}

/// Prints the completions for a shell.
///
/// # Errors
/// If standard output cannot be written.
pub fn completions(args: &CompletionsArgs, mut command: clap::Command) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "formwork", &mut script);
    output::line_part(String::from_utf8_lossy(&script))
}

/// Writes a page for the program and one for each command.
///
/// # Errors
/// If the folder or a file cannot be written.
pub fn man(args: ManArgs, command: clap::Command) -> Result<()> {
    let folder = output::output_folder(args.folder)?;
    std::fs::create_dir_all(&folder).map_err(Error::io("create", &folder))?;
    clap_mangen::generate_to(command, &folder).map_err(Error::io("write", &folder))?;
    output::note(format!("manual pages in {}", folder.display()));
    Ok(())
}
