//! Detects which process holds a cell, and whether it is still alive.
//!
//! On the same machine the system knows: the holder keeps its claim file locked, and the system releases the lock when
//! the process ends, in whatever namespaces it and the reader are. If files cannot be locked, a process is identified
//! by its number, its start time, and the boot and PID namespace that they belong to; this needs a `/proc` of that
//! namespace that shows all processes. From another machine, and if neither works, there is only the heartbeat: the
//! holder rewrites a file, and a reader that sees it unchanged for a lease, by the reader's own clock, takes the holder
//! for dead. Clocks of different machines are never compared.

use crate::files;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, TryLockError};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A process that holds a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Name of the machine, for messages.
    pub host: String,
    /// The boot and the PID namespace that `pid` belongs to; empty if the system names none.
    pub system: String,
    /// Process number.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot.
    pub started: u64,
    /// Number that distinguishes several claims of one process.
    pub serial: u64,
    /// Whether the process keeps its claim file locked.
    #[serde(default)]
    pub locks: bool,
}

impl Holder {
    /// Describes this process, with a new serial number for one more claim.
    pub fn this_process() -> Self {
        static CLAIMS: AtomicU64 = AtomicU64::new(0);
        let pid = std::process::id();
        let word = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().to_string()
        };
        let boot = word("/proc/sys/kernel/random/boot_id");
        let namespace = fs::read_link("/proc/self/ns/pid")
            .map_or_else(|_| String::new(), |link| link.display().to_string());
        let known = !boot.is_empty() && !namespace.is_empty();
        Self {
            host: word("/proc/sys/kernel/hostname"),
            system: match known {
                true => format!("{boot} {namespace}"),
                false => String::new(),
            },
            pid,
            started: process_start(pid).unwrap_or_default(),
            serial: CLAIMS.fetch_add(1, Ordering::Relaxed),
            locks: false,
        }
    }

    /// Returns the holder of a claim that has not been written yet, or never will be.
    pub fn unknown() -> Self {
        Self {
            host: "an unknown machine".into(),
            system: String::new(),
            pid: 0,
            started: 0,
            serial: 0,
            locks: false,
        }
    }

    /// Returns whether the process was started on the same machine since its last boot, in any namespace.
    pub fn is_local_to(&self, me: &Self) -> bool {
        let boot = |holder: &Self| holder.system.split(' ').next().map(str::to_owned);
        !me.system.is_empty() && boot(self) == boot(me)
    }

    /// Returns whether `/proc` shows if the process is alive: both are in the same namespace, and `/proc` shows it with
    /// the processes of others.
    fn is_visible_to(&self, me: &Self) -> bool {
        let shown = process_start(me.pid) == Some(me.started)
            && me.started > 0
            && process_start(1).is_some();
        shown && !me.system.is_empty() && self.system == me.system
    }
}

/// Returns whether no process holds the lock of a claim; `None` if locks cannot be queried.
fn is_unlocked(claim: &Path) -> Option<bool> {
    let file = files::open_existing_lock(claim).ok()?;
    match file.try_lock() {
        // Closing the file releases the lock.
        Ok(()) => Some(true),
        Err(TryLockError::WouldBlock) => Some(false),
        Err(TryLockError::Error(_)) => None,
    }
}

/// Returns the start time of a process; `None` if there is no such process.
fn process_start(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in brackets and may hold anything; field 22 is the 20th after it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // A zombie no longer holds anything.
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// The heartbeats of other machines, as last seen.
#[derive(Debug, Default)]
pub struct HeartbeatWatch(HashMap<String, (String, Instant)>);

impl HeartbeatWatch {
    /// Returns whether the holder of the claim in a file is gone: its lock was released, its process no longer exists,
    /// or its heartbeat did not change for a lease.
    pub fn is_gone(
        &mut self,
        holder: &Holder,
        me: &Holder,
        file: &Path,
        beat: &str,
        lease: Duration,
    ) -> bool {
        if holder.locks
            && holder.is_local_to(me)
            && let Some(unlocked) = is_unlocked(file)
        {
            return unlocked;
        }
        if !holder.locks && holder.is_visible_to(me) {
            return process_start(holder.pid) != Some(holder.started);
        }
        let claim = file.to_string_lossy();
        let claim = claim.as_ref();
        let seen = self.0.get(claim).filter(|(last, _)| last == beat);
        match seen {
            Some((_, since)) => since.elapsed() >= lease,
            None => {
                let now = (beat.to_string(), Instant::now());
                self.0.insert(claim.to_string(), now);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_one_that_began_at_another_time_does_not() {
        let me = Holder::this_process();
        let mut watch = HeartbeatWatch::default();
        let gone = |watch: &mut HeartbeatWatch, holder: &Holder| {
            watch.is_gone(holder, &me, Path::new("a"), "", Duration::from_secs(60))
        };
        assert!(!gone(&mut watch, &me));
        let earlier = Holder {
            started: me.started.wrapping_sub(1),
            ..me.clone()
        };
        assert!(gone(&mut watch, &earlier));
        let elsewhere = Holder {
            system: "another".into(),
            ..me.clone()
        };
        assert!(!gone(&mut watch, &elsewhere));
    }

    #[test]
    fn a_heartbeat_that_stands_still_for_a_lease_is_a_death() {
        let me = Holder::this_process();
        let other = Holder {
            system: "another".into(),
            ..me.clone()
        };
        let (lease, claim) = (Duration::from_millis(30), Path::new("a"));
        let mut watch = HeartbeatWatch::default();
        assert!(!watch.is_gone(&other, &me, claim, "1", lease));
        std::thread::sleep(lease);
        assert!(!watch.is_gone(&other, &me, claim, "2", lease));
        std::thread::sleep(lease);
        assert!(watch.is_gone(&other, &me, claim, "2", lease));
    }

    /// `/proc` belongs to another namespace or hides the processes of others, so that the process number means nothing
    /// there.
    #[test]
    fn a_holder_that_locks_its_claim_lives_whatever_proc_shows() {
        let folder = tempfile::tempdir().unwrap();
        let claim = folder.path().join("a.claim.1");
        let locked = fs::File::create(&claim).unwrap();
        locked.lock().unwrap();
        let me = Holder::this_process();
        let mut watch = HeartbeatWatch::default();
        let mut gone =
            |holder: &Holder| watch.is_gone(holder, &me, &claim, "", Duration::from_secs(60));
        let boot = me.system.split(' ').next().unwrap_or_default();
        let elsewhere = Holder {
            system: format!("{boot} pid:[1]"),
            pid: u32::MAX,
            locks: true,
            ..me.clone()
        };
        let hidden = Holder {
            started: me.started + 1,
            locks: true,
            ..me.clone()
        };
        assert!(!gone(&elsewhere) && !gone(&hidden));
        drop(locked);
        assert!(gone(&elsewhere) && gone(&hidden));
        // In another namespace and without a lock, there is only the heartbeat.
        let unlocked = Holder {
            locks: false,
            ..elsewhere
        };
        assert!(!gone(&unlocked));
    }
}
