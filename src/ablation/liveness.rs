//! Who holds a cell, and whether they still live.
//!
//! On the same machine the system knows: a process is its number, its start time, and the boot and the PID
//! namespace that these belong to. From another machine there is only the heartbeat: the holder rewrites a file, and
//! who sees it unchanged for a lease, by a clock of its own, takes the holder for dead. No two clocks are compared.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A process that holds a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The machine, for a person.
    pub host: String,
    /// The boot and the PID namespace that `pid` belongs to; empty where the system names none.
    pub system: String,
    /// Process number.
    pub pid: u32,
    /// When the process was started, in clock ticks since boot.
    pub started: u64,
    /// Tells claims of one process apart.
    pub serial: u64,
}

impl Holder {
    /// This process, for one more claim.
    pub fn me() -> Self {
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
            started: start_of(pid).unwrap_or_default(),
            serial: CLAIMS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether the system here can tell if the holder lives: it was started under the same boot and namespace.
    pub fn is_local_to(&self, me: &Self) -> bool {
        !me.system.is_empty() && self.system == me.system
    }
}

/// When a process was started; none when there is none.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name stands in brackets and may hold anything; field 22 is the 20th after it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // A zombie holds nothing any more.
    if fields.first() == Some(&"Z") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

/// The heartbeats of other machines, as they were last seen.
#[derive(Debug, Default)]
pub struct Watch(HashMap<String, (String, Instant)>);

impl Watch {
    /// Whether the holder of a claim is gone: its process is not there, or its heartbeat stood still for a lease.
    pub fn is_gone(
        &mut self,
        holder: &Holder,
        me: &Holder,
        claim: &str,
        beat: &str,
        lease: Duration,
    ) -> bool {
        if holder.is_local_to(me) {
            return start_of(holder.pid) != Some(holder.started);
        }
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
        let me = Holder::me();
        let mut watch = Watch::default();
        let gone = |watch: &mut Watch, holder: &Holder| {
            watch.is_gone(holder, &me, "a", "", Duration::from_secs(60))
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
        let me = Holder::me();
        let other = Holder {
            system: "another".into(),
            ..me.clone()
        };
        let lease = Duration::from_millis(30);
        let mut watch = Watch::default();
        assert!(!watch.is_gone(&other, &me, "a", "1", lease));
        std::thread::sleep(lease);
        assert!(!watch.is_gone(&other, &me, "a", "2", lease));
        std::thread::sleep(lease);
        assert!(watch.is_gone(&other, &me, "a", "2", lease));
    }
}
