//! `formwork watch`: serves a live page and a JSON API over the runs of a folder.
//!
//! A thread scans the folder (`scanner`) and keeps the runs it finds as rows with versions (`index`). A request is answered
//! from these rows, or by reading files of one run (`viewed`, `detail`). Nothing is ever written, and no path of a request
//! reaches the file system: a run is looked up by name among those that the thread found. `guard` refuses other methods,
//! foreign hosts and requests without the token; `routes` defines the addresses, and `events` the stream of changes.
//!
//! Files of a run are opened without following links, and read up to size limits, because a folder may be untrusted.

mod connections;
mod detail;
mod events;
mod guard;
mod index;
mod journal_cache;
mod routes;
mod row;
mod scanner;
mod sweeps;

use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::stop::StopFlag;
use connections::LimitedListener;
use guard::Guard;
use index::Index;
use journal_cache::JournalCache;

/// Time between two checks of the stop flag.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// The folder to watch, and where to serve the page.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folder of runs and sweeps.
    pub folder: PathBuf,
    /// Host name or address to listen at.
    pub host: String,
    /// Port to listen at; 0 for any free one.
    pub port: u16,
    /// Whether a token is required even at a loopback address.
    pub token: bool,
}

/// A server that is bound to its port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<String>,
    options: Options,
}

/// State shared by all requests.
#[derive(Debug)]
struct ServerState {
    index: Index,
    journals: JournalCache,
    guard: Guard,
}

impl Server {
    /// Binds the port.
    ///
    /// # Errors
    /// If the folder or host does not exist, or the port is in use or not available.
    pub fn bind(options: Options) -> Result<Self> {
        if !options.folder.is_dir() {
            return Err(Error::usage(format!(
                "there is no folder {}; runs are in `checkpoints` unless --run named another folder",
                options.folder.display()
            )));
        }
        let (host, port) = (options.host.as_str(), options.port);
        let addresses = (host, port).to_socket_addrs();
        let addresses: Vec<SocketAddr> = addresses
            .map_err(|e| Error::usage(format!("--host: cannot resolve `{host}`: {e}")))?
            .collect();
        let listener = TcpListener::bind(&addresses[..]).map_err(|e| bind_error(&options, &e))?;
        let at = |e| Error::run(format!("cannot listen at {host}:{port}: {e}"));
        listener.set_nonblocking(true).map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let asks = options.token || !address.ip().is_loopback();
        Ok(Self {
            token: asks.then(guard::new_token).transpose()?,
            listener,
            address,
            options,
        })
    }

    /// Returns the address of the page, with the token if one is required.
    pub fn url(&self) -> String {
        let host = match self.options.host.parse::<IpAddr>() {
            Ok(IpAddr::V6(_)) => format!("[{}]", self.options.host),
            Ok(IpAddr::V4(_)) | Err(_) => self.options.host.clone(),
        };
        let token = self.token.as_ref();
        let token = token.map_or_else(String::new, |token| format!("?{}={token}", guard::TOKEN));
        format!("http://{host}:{}/{token}", self.address.port())
    }

    /// Whether other machines can reach the server.
    pub fn is_open(&self) -> bool {
        !self.address.ip().is_loopback()
    }

    /// Answers requests until the stop flag is raised.
    ///
    /// # Errors
    /// If the runtime or the listener cannot be set up, or if the scanning thread ends early.
    pub fn run(self, stop: &StopFlag) -> Result<()> {
        let failed = |e| Error::run(format!("cannot serve the page: {e}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let shared = Arc::new(ServerState {
            index: Index::new(&self.options.folder)?,
            journals: JournalCache::default(),
            guard: Guard::new(self.token, self.address.port()),
        });
        let (watched, until) = (Arc::clone(&shared), stop.clone());
        let folder = self.options.folder;
        let looks = thread::spawn(move || scanner::run(&folder, &watched.index, &until));
        let listener = {
            let _entered = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener).map_err(failed)?
        };
        let app = routes::routes(shared);
        runtime.spawn(async move { axum::serve(LimitedListener::new(listener), app).await });
        runtime.block_on(async {
            while !stop.is_raised() && !looks.is_finished() {
                tokio::time::sleep(STOP_INTERVAL).await;
            }
        });
        // Event streams never end by themselves.
        runtime.shutdown_background();
        match stop.is_raised() {
            true => Ok(()),
            false => Err(Error::run(
                "the folder is no longer being scanned; this is a bug in formwork",
            )),
        }
    }
}

fn bind_error(options: &Options, error: &std::io::Error) -> Error {
    let (host, port) = (&options.host, options.port);
    let remedy = "choose another port with --port N, or any free port with --port 0";
    Error::usage(match error.kind() {
        std::io::ErrorKind::AddrInUse => format!("port {port} of {host} is in use; {remedy}"),
        std::io::ErrorKind::PermissionDenied => {
            format!("this user may not open port {port} of {host}; {remedy}")
        }
        std::io::ErrorKind::AddrNotAvailable => {
            format!(
                "--host: {host} is not an address of this machine; use 127.0.0.1, or 0.0.0.0 for all of its addresses"
            )
        }
        _ => format!("cannot listen at {host}:{port}: {error}; {remedy}"),
    })
}
