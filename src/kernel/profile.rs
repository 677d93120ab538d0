//! Where the time of a step goes: how often each kernel ran and for how long.
//!
//! Kernels run to their end on the calling thread, one after another, so their times add up. Nothing is recorded
//! and next to nothing is spent (one relaxed load a kernel) unless [`start`] was called. Kernels of flex alone are
//! timed: on other devices a call returns before its work is done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The name of the whole backward pass, which the kernels that it runs count in too.
pub const BACKWARD: &str = "backward";

static ON: AtomicBool = AtomicBool::new(false);
static SPENT: Mutex<BTreeMap<&'static str, Spent>> = Mutex::new(BTreeMap::new());

/// The time of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// How often it was done.
    pub calls: u64,
    /// How long all of it took.
    pub time: Duration,
}

fn spent() -> MutexGuard<'static, BTreeMap<&'static str, Spent>> {
    SPENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets what was recorded and records from now on, for the whole process.
pub fn start() {
    spent().clear();
    ON.store(true, Ordering::Relaxed);
}

/// Stops and gives what was recorded, by name.
pub fn stop() -> BTreeMap<&'static str, Spent> {
    ON.store(false, Ordering::Relaxed);
    std::mem::take(&mut *spent())
}

/// Runs `work`, whose time counts under this name.
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
