//! Profile of a step: how often each kernel ran and for how long.
//!
//! Kernels run to completion on the calling thread, one after another, so their times add up. Unless [`start`] was
//! called, nothing is recorded and the cost is one relaxed load per kernel. Only flex kernels are timed: on other
//! devices a call returns before its work is done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Name of the whole backward pass; its time includes that of the kernels it runs.
pub const BACKWARD: &str = "backward";

static ENABLED: AtomicBool = AtomicBool::new(false);
static STATS: Mutex<BTreeMap<&'static str, CallStats>> = Mutex::new(BTreeMap::new());

/// Calls and time of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Number of calls.
    pub calls: u64,
    /// Total time of all calls.
    pub time: Duration,
}

fn lock_stats() -> MutexGuard<'static, BTreeMap<&'static str, CallStats>> {
    STATS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Discards earlier records and starts recording, for the whole process.
pub fn start() {
    lock_stats().clear();
    ENABLED.store(true, Ordering::Relaxed);
}

/// Stops recording and returns the records by name.
pub fn stop() -> BTreeMap<&'static str, CallStats> {
    ENABLED.store(false, Ordering::Relaxed);
    std::mem::take(&mut *lock_stats())
}

/// Runs `work` and counts its time under this name.
pub fn timed<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    if !ENABLED.load(Ordering::Relaxed) {
        return work();
    }
    let began = Instant::now();
    let done = work();
    let time = began.elapsed();
    let mut spent = lock_stats();
    let entry = spent.entry(name).or_default();
    entry.calls += 1;
    entry.time += time;
    done
}
