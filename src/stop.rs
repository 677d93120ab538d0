//! Requests to save and end: SIGINT, SIGTERM, SIGUSR1, SIGHUP, and the end of the input that a sweep holds open.
//!
//! The first SIGINT or SIGTERM asks, the second ends the process at once. SIGUSR1, which `mpirun` hands on to all processes of
//! a run without ending them or itself, SIGHUP, which comes when a terminal or a connection closes, and the end of the input
//! ask too, but no signal counts as the second after them: who stops a sweep with SIGTERM to all of its processes, as SLURM
//! does, closes a run's input and signals it, in any order, and the run saves. Under `nohup`, which has SIGHUP ignored, it
//! stays so; where a system other than Linux does not say whether it is, SIGHUP ends a run as it always did.

use crate::error::{Error, Result};
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGXFSZ};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The status of a process that was interrupted.
pub const INTERRUPTED: i32 = 130;

/// Whether the run was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

/// The flag of this process, once a run listens.
static LISTENING: Mutex<Option<Stop>> = Mutex::new(None);

impl Stop {
    /// The flag that the signals raise, one for the process. A signal after another one ends the process with status
    /// 130, without waiting for anything.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn on_signals() -> Result<Self> {
        let mut listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stop) = &*listening {
            return Ok(stop.clone());
        }
        let stop = Self::default();
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal must find its flag down.
            flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&signalled))
                .and_then(|_| flag::register(signal, Arc::clone(&signalled)))
                .and_then(|_| flag::register(signal, Arc::clone(&stop.0)))
                .map_err(|e| Error::run(format!("cannot listen for signal {signal}: {e}")))?;
        }
        #[cfg(unix)]
        {
            let closes = is_ignored(SIGHUP) == Some(false);
            let asks = [(SIGUSR1, "SIGUSR1")].into_iter();
            for (signal, name) in asks.chain(closes.then_some((SIGHUP, "SIGHUP"))) {
                flag::register(signal, Arc::clone(&stop.0))
                    .map_err(|e| Error::run(format!("cannot listen for {name}: {e}")))?;
            }
        }
        *listening = Some(stop.clone());
        Ok(stop)
    }

    /// Raises the flag: another part of the program asks the run to end.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the flag is up.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// An error when the flag is up: the work that it interrupts is left and made again.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    pub fn check(&self) -> Result<()> {
        match self.is_raised() {
            true => Err(Error::Stopped("interrupted".into())),
            false => Ok(()),
        }
    }
}

/// Whether whatever began this process has a signal ignored, where the system says so (Linux).
#[cfg(unix)]
fn is_ignored(signal: i32) -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// Has a write beyond the limit of a file's size (`ulimit -f`) fail with the system's error, in place of the signal that ends
/// the process without a word. Where the system refuses the handler, the signal stays.
pub fn file_size_limit_as_error() {
    #[cfg(unix)]
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Asks this process to save and end when standard input comes to its end. Before a run listens nothing is to be saved,
/// and the process ends.
pub fn with_input() {
    std::thread::spawn(|| {
        let mut block = [0; 4096];
        loop {
            match io::stdin().read(&mut block) {
                Ok(0) => break,
                Err(e) if e.kind() != io::ErrorKind::Interrupted => break,
                Ok(_) | Err(_) => {}
            }
        }
        let listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listening {
            Some(stop) => stop.raise(),
            None => std::process::exit(INTERRUPTED),
        }
    });
}
