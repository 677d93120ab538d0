//! The threads of a kernel: a team that stays awake between two kernels.
//!
//! A training step is hundreds of kernels of some tens of microseconds, with gaps of less between them. To put a
//! thread to sleep and wake it costs as much as such a kernel, so the members of the team look for the next one for a
//! while before they sleep, as the threads of OpenMP do. The calling thread is a member too, and never waits for one
//! that has not begun: what is late finds nothing left to do.
//!
//! Rayon decides how many there are (`RAYON_NUM_THREADS`); one thread works alone and asks nobody.

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a member looks for the next kernel before it sleeps.
const LINGER: Duration = Duration::from_micros(500);

/// How long it does so without offering its core to others.
const EAGER: Duration = Duration::from_micros(50);

/// Calls `work` for every item, on all threads; each takes the next one when it has done its last.
pub fn for_each<T: Send>(items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    for_each_with(items, || (), |(), item| work(item));
}

/// Calls `work` for every item with something that `begin` makes once for each thread.
pub fn for_each_with<T: Send, S>(
    items: impl Iterator<Item = T> + Send,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) + Sync,
) {
    let items = Mutex::new(items);
    let next = || {
        let mut items = items.lock().unwrap_or_else(PoisonError::into_inner);
        items.next()
    };
    together(&|| {
        let Some(mut item) = next() else { return };
        let mut state = begin();
        loop {
            work(&mut state, item);
            match next() {
                Some(another) => item = another,
                None => return,
            }
        }
    });
}

/// The results of `work` for every item, in their order.
pub fn map<T: Send, R: Send>(
    items: impl ExactSizeIterator<Item = T> + Send,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let mut results: Vec<Option<R>> = (0..items.len()).map(|_| None).collect();
    for_each(items.zip(&mut results), |(item, slot)| {
        *slot = Some(work(item));
    });
    let done = |result: Option<R>| result.expect("a result for every item");
    results.into_iter().map(done).collect()
}

/// Calls `work` on every thread that comes in time, this one included; returns when all of them have.
fn together(work: &(dyn Fn() + Sync)) {
    static TEAM: OnceLock<Option<&'static Team>> = OnceLock::new();
    match TEAM.get_or_init(Team::gather) {
        Some(team) => team.together(work),
        None => work(),
    }
}

/// What a round calls; valid while the round is open or a member is in it.
type Work = *const (dyn Fn() + Sync + 'static);

/// Members are in `state`'s lowest bits.
const MEMBERS: u64 = OPEN - 1;

/// Whether members may enter the round.
const OPEN: u64 = 1 << 16;

/// The number of the round stands above this bit.
const ROUND: u32 = 32;

struct Team {
    /// Number of the round, whether it may be entered, and how many members besides the caller are in it.
    state: AtomicU64,
    work: UnsafeCell<Work>,
    /// Held by the caller for its round; who does not get it works alone.
    turn: Mutex<()>,
    panicked: AtomicBool,
    members: OnceLock<Vec<Thread>>,
    asleep: Vec<AtomicBool>,
}

// SAFETY: `work` is written by the holder of `turn` while no member is in a round and none may enter; members read it
// after they have entered. Everything else is atomic or locked.
unsafe impl Sync for Team {}
// SAFETY: as above; the pointer is to a closure that may be called from any thread.
unsafe impl Send for Team {}

impl Team {
    /// Starts the members; none when this machine, or the user, has one thread.
    fn gather() -> Option<&'static Self> {
        let count = rayon::current_num_threads().saturating_sub(1);
        if count == 0 {
            return None;
        }
        let nothing: &'static (dyn Fn() + Sync) = &|| ();
        let team: &'static Self = Box::leak(Box::new(Self {
            state: AtomicU64::new(0),
            work: UnsafeCell::new(nothing),
            turn: Mutex::new(()),
            panicked: AtomicBool::new(false),
            members: OnceLock::new(),
            asleep: (0..count).map(|_| AtomicBool::new(false)).collect(),
        }));
        let member = |index: usize| {
            let name = format!("kernel-{}", index + 1);
            let thread = thread::Builder::new().name(name);
            // Where the system gives no thread, the others do the work.
            let handle = thread.spawn(move || team.serve(index)).ok()?;
            Some(handle.thread().clone())
        };
        let members: Vec<Thread> = (0..count).map_while(member).collect();
        let some = !members.is_empty();
        team.members.get_or_init(|| members);
        some.then_some(team)
    }

    fn together(&self, work: &(dyn Fn() + Sync)) {
        let turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A kernel inside a kernel, or of another thread.
            Err(TryLockError::WouldBlock) => return work(),
        };
        // SAFETY: only the lifetime is erased; `Round` keeps this call from ending before the last member has left.
        let work: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(work) };
        // SAFETY: this call has the turn, the last round is closed, and nobody is in it.
        unsafe { *self.work.get() = work };
        let round = (self.state.load(Ordering::Relaxed) >> ROUND).wrapping_add(1);
        self.state.store(round << ROUND | OPEN, Ordering::SeqCst);
        let open = Round(self);
        self.wake();
        work();
        drop(open);
        drop(turn);
        assert!(
            !self.panicked.swap(false, Ordering::AcqRel),
            "a thread of a kernel panicked"
        );
    }

    fn wake(&self) {
        let members = self.members.get().into_iter().flatten();
        for (member, asleep) in members.zip(&self.asleep) {
            if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
                member.unpark();
            }
        }
    }

    /// The life of a member.
    fn serve(&self, index: usize) {
        let mut seen = 0;
        let mut since = Instant::now();
        loop {
            let state = self.state.load(Ordering::SeqCst);
            if state & OPEN != 0 && state >> ROUND != seen {
                let entered = self.state.compare_exchange(
                    state,
                    state + 1,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                if entered.is_ok() {
                    seen = state >> ROUND;
                    self.take_part();
                    since = Instant::now();
                }
                continue;
            }
            match since.elapsed() {
                idle if idle < EAGER => spin(),
                idle if idle < LINGER => thread::yield_now(),
                _ => {
                    self.sleep(index, state);
                    since = Instant::now();
                }
            }
        }
    }

    /// In a round that this member has entered.
    fn take_part(&self) {
        // SAFETY: the round does not end while a member is in it, and until then the closure lives.
        let work = unsafe { &**self.work.get() };
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.panicked.store(true, Ordering::Release);
        }
        self.state.fetch_sub(1, Ordering::AcqRel);
    }

    /// Until a round begins after the one that `state` was read in.
    fn sleep(&self, index: usize, state: u64) {
        let asleep = &self.asleep[index];
        asleep.store(true, Ordering::SeqCst);
        // A caller that opened a round before it could see the mark is seen here.
        while self.state.load(Ordering::SeqCst) >> ROUND == state >> ROUND
            && asleep.load(Ordering::SeqCst)
        {
            thread::park();
        }
        asleep.store(false, Ordering::SeqCst);
    }
}

/// An open round; closed, and waited for, at its end, a panic's included.
struct Round<'a>(&'a Team);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.fetch_and(!OPEN, Ordering::AcqRel);
        let since = Instant::now();
        while state.load(Ordering::Acquire) & MEMBERS != 0 {
            if since.elapsed() < EAGER {
                spin();
            } else {
                thread::yield_now();
            }
        }
    }
}

fn spin() {
    for _ in 0..4 {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_item_is_worked_on_once_in_thousands_of_rounds() {
        for round in 0..4000 {
            let mut items = vec![0_u32; round % 50];
            for_each(items.iter_mut().enumerate(), |(i, item)| {
                *item += i as u32 + 1;
            });
            assert!(items.iter().enumerate().all(|(i, x)| *x == i as u32 + 1));
            if round % 997 == 0 {
                // Members fall asleep and are woken.
                thread::sleep(2 * LINGER);
            }
        }
    }

    #[test]
    fn rounds_of_several_threads_and_rounds_within_rounds_are_whole() {
        let sums = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        for_each(0..10_usize, |i| {
                            for_each(0..i, |_| {
                                sums.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(sums.into_inner(), 4 * 200 * 45);
    }

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let squares = map(0..1000_usize, |i| i * i);
        assert!(squares.iter().enumerate().all(|(i, x)| *x == i * i));
        let begun = AtomicUsize::new(0);
        let begin = || begun.fetch_add(1, Ordering::Relaxed);
        for_each_with(0..100, begin, |_, _| ());
        assert!((1..=rayon::current_num_threads()).contains(&begun.into_inner()));
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_next_round_is_whole() {
        for _ in 0..20 {
            let round = || for_each(0..64, |i| assert!(i != 40, "the fortieth"));
            assert!(catch_unwind(round).is_err());
            assert_eq!(map(0..10, |i| i + 1).iter().sum::<i32>(), 55);
        }
    }
}
