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

static ON: AtomicBool = AtomicBool::new(false);
static SPENT: Mutex<BTreeMap<&'static str, Spent>> = Mutex::new(BTreeMap::new());

/// Calls and time of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Number of calls.
    pub calls: u64,
    /// Total time of all calls.
    pub time: Duration,
}

fn spent() -> MutexGuard<'static, BTreeMap<&'static str, Spent>> {
    SPENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Discards earlier records and starts recording, for the whole process.
pub fn start() {
    spent().clear();
    ON.store(true, Ordering::Relaxed);
}

/// Stops recording and returns the records by name.
pub fn stop() -> BTreeMap<&'static str, Spent> {
    ON.store(false, Ordering::Relaxed);
    std::mem::take(&mut *spent())
}

/// Runs `work` and counts its time under this name.
pub fn timed<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    if !ON.load(Ordering::Relaxed) {
        return work();
    }
    let began = Instant::now();
    let done = work();
    let time = began.elapsed();
    let mut spent = spent();
    let entry = spent.entry(name).or_default();
    entry.calls += 1;
    entry.time += time;
    done
}
