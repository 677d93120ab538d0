//! `formwork watch`: serves a local web page with all runs of a folder.

use std::path::PathBuf;

use clap::Args;

use super::output;
use crate::error::Result;
use crate::stop::StopFlag;
use crate::watch::{Options, Server};

/// `formwork watch`.
#[derive(Args, Debug)]
pub struct WatchArgs {
    /// Folder of runs and sweeps, at any depth.
    #[arg(default_value = "checkpoints", value_name = "FOLDER", value_parser = super::flags::run_folder())]
    pub folder: PathBuf,
    /// Port of the page; 0 takes any free port.
    #[arg(long, default_value_t = 8265, value_name = "N")]
    pub port: u16,
    /// Address to listen on; any except a loopback address requires a token.
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub host: String,
    /// Require a token on a loopback address, too: others are logged in to this machine.
    #[arg(long)]
    pub token: bool,
}

/// Prints the page's address and serves it until Ctrl-C, its regular end.
///
/// # Errors
/// If there is no such folder, or the port or address is not available.
pub fn run(args: WatchArgs) -> Result<()> {
    let shown = args.folder.display().to_string();
    let server = Server::bind(Options {
        folder: args.folder,
        host: args.host,
        port: args.port,
        token: args.token,
    })?;
    let stop = StopFlag::on_signals()?;
    output::line(server.url())?;
    output::note(format!(
        "watching {shown}; nothing is written there; Ctrl-C ends"
    ));
    if server.is_open() {
        output::note(
            "the connection is not encrypted: for a machine over a network you do not trust, use ssh -L instead",
        );
    }
    server.run(&stop)
}
