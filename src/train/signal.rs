//! SIGINT and SIGTERM: the first asks the run to save and end, the second ends it at once.

use crate::error::{Error, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The status of a process that was interrupted.
pub const INTERRUPTED: i32 = 130;

/// Whether the run was asked to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// A flag that both signals raise. A signal that finds it raised ends the process with status 130,
    /// without waiting for anything.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn on_signals() -> Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal must find the flag down.
            flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&stop.0))
                .and_then(|_| flag::register(signal, Arc::clone(&stop.0)))
                .map_err(|e| Error::run(format!("cannot listen for signal {signal}: {e}")))?;
        }
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
}
