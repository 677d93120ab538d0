//! Requests to save and end: SIGINT, SIGTERM, SIGUSR1, SIGHUP, and the end of the input pipe that a sweep holds open.
//!
//! The first SIGINT or SIGTERM asks the run to save and end; the second ends the process at once. SIGUSR1, SIGHUP and the end of
//! the input ask too. SIGUSR1 is passed on by `mpirun` to all processes of a run without ending them or itself; SIGHUP comes when
//! a terminal or a connection closes. After these three, no signal counts as the second. So a sweep can be stopped with SIGTERM
//! to all of its processes, as SLURM does: a run then gets both the signal and the end of its input, in any order, and still
//! saves. Under `nohup`, SIGHUP stays ignored. On systems other than Linux, which do not tell whether it is ignored, SIGHUP ends
//! a run as usual.

use crate::error::{Error, Result};
#[cfg(unix)]
use signal_hook::consts::{SIGHUP, SIGUSR1, SIGXFSZ};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The exit status of a process that was interrupted.
pub const INTERRUPTED: i32 = 130;

/// A flag that says whether the run was asked to end.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

/// The flag of this process, once a run listens to it.
static PROCESS_FLAG: Mutex<Option<StopFlag>> = Mutex::new(None);

impl StopFlag {
    /// Returns the process's flag, which the signals raise. A SIGINT or SIGTERM after another one ends the process with status
    /// 130, without waiting for anything.
    ///
    /// # Errors
    /// If the system refuses a handler.
    pub fn on_signals() -> Result<Self> {
        let mut listening = PROCESS_FLAG.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stop) = &*listening {
            return Ok(stop.clone());
        }
        let stop = Self::default();
        let signalled = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: the first signal must find its flag down.
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

    /// Raises the flag, for another part of the program that asks the run to end.
    pub fn raise(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the flag is up.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Fails if the flag is up; the interrupted work is dropped and repeated later.
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

/// Whether the parent process left a signal ignored; `None` unless the system tells (Linux does).
#[cfg(unix)]
pub fn is_ignored(signal: i32) -> Option<bool> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with the system's error instead of a signal that ends
/// the process without a message. If the system refuses the handler, the signal stays.
pub fn file_size_limit_as_error() {
    #[cfg(unix)]
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Asks this process to save and end when standard input ends. Before a run listens, there is nothing to save,
/// and the process ends at once.
pub fn stop_at_end_of_input() {
    std::thread::spawn(|| {
        let mut block = [0; 4096];
        loop {
            match io::stdin().read(&mut block) {
                Ok(0) => break,
                Err(e) if e.kind() != io::ErrorKind::Interrupted => break,
                Ok(_) | Err(_) => {}
            }
        }
        let listening = PROCESS_FLAG.lock().unwrap_or_else(PoisonError::into_inner);
        match &*listening {
            Some(stop) => stop.raise(),
            None => std::process::exit(INTERRUPTED),
        }
    });
}
