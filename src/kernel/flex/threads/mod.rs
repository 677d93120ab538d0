//! The threads of the CPU kernels: a team that stays awake between two kernels.
//!
//! A training step is hundreds of kernels of some tens of microseconds, with shorter gaps between them. Putting a
//! thread to sleep and waking it costs as much as such a kernel. So the team's members spin for a while, looking for
//! the next kernel, before they sleep, as OpenMP's threads do. The calling thread is a member too. It waits for
//! members that have started, never for one that has not, and a round is closed as soon as one member finds nothing
//! left to do.
//!
//! Rayon determines the number of threads (`RAYON_NUM_THREADS`); a single thread works without the team. After a
//! panic the other members finish the remaining work, and the panic resumes in the caller.

use std::any::Any;
use std::cell::UnsafeCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a member looks for the next kernel before it sleeps.
const LINGER: Duration = Duration::from_micros(500);

/// How long of this it spins without yielding its core to other threads.
const EAGER: Duration = Duration::from_micros(50);

/// Number of looks at the state per look at the clock, which takes longer.
const LOOKS: u32 = 16;

/// Calls `work` for every item, on all threads; each thread takes the next item when it has finished one.
pub fn for_each<T: Send>(items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    for_each_with(items, || (), |(), item| work(item));
}

/// Calls `work` for every item, with a state that `begin` creates once for each thread that gets an item.
pub fn for_each_with<T: Send, S>(
    items: impl Iterator<Item = T> + Send,
    begin: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) + Sync,
) {
    let most = items.size_hint().1.unwrap_or(usize::MAX);
    let items = Mutex::new(items);
    let next = || {
        let mut items = items.lock().unwrap_or_else(PoisonError::into_inner);
        items.next()
    };
    run_round(most, &|| {
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

/// Returns the results of `work` for every item, in order.
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

/// Calls `work`, which returns when nothing is left to do, on every thread that arrives in time, including this one.
/// Wakes at most `most` others; returns when all of them have finished.
fn run_round(most: usize, work: &(dyn Fn() + Sync)) {
    static TEAM: OnceLock<Option<&'static Team>> = OnceLock::new();
    if most < 2 {
        return work();
    }
    match TEAM.get_or_init(Team::start) {
        Some(team) => team.together(most - 1, work),
        None => work(),
    }
}

/// The function that a round calls; valid while the round is open or a member is in it.
type Work = *const (dyn Fn() + Sync + 'static);

/// The lowest bits of `state` count members.
const MEMBERS: u64 = OPEN - 1;

/// The bit of `state` that says whether members may enter the round.
const OPEN: u64 = 1 << 16;

/// The round's number starts at this bit of `state`.
const ROUND: u32 = 32;

struct Team {
    /// Number of the round, whether it is open, and how many members besides the caller are in it.
    state: AtomicU64,
    work: UnsafeCell<Work>,
    /// Held by the caller for its round; a caller that does not get it works alone.
    turn: Mutex<()>,
    /// The first panic of a member in this round.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    members: OnceLock<Vec<Thread>>,
    asleep: Vec<AtomicBool>,
    /// How long a member looks for work, and how long of this it spins; shorter if members outnumber the cores.
    patience: [Duration; 2],
}

// SAFETY: `work` is written by the holder of `turn` while no member is in a round and none may enter. Members read it
// after they have entered, by a compare-and-exchange that acquires the store which opened the round. Everything else
// is atomic or locked.
unsafe impl Sync for Team {}
// SAFETY: as above; the pointer is to a closure that may be called from any thread.
unsafe impl Send for Team {}

impl Team {
    /// Starts the members; returns `None` if this machine, or the user's setting, has only one thread.
    fn start() -> Option<&'static Self> {
        // If the system gives rayon no threads, it gives none to this team either.
        let threads = catch_unwind(rayon::current_num_threads).unwrap_or(1);
        let count = threads.saturating_sub(1);
        if count == 0 {
            return None;
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let patience = match threads <= cores {
            true => [LINGER, EAGER],
            false => [EAGER, Duration::ZERO],
        };
        let nothing: &'static (dyn Fn() + Sync) = &|| ();
        let team: &'static Self = Box::leak(Box::new(Self {
            state: AtomicU64::new(0),
            work: UnsafeCell::new(nothing),
            turn: Mutex::new(()),
            panic: Mutex::new(None),
            members: OnceLock::new(),
            asleep: (0..count).map(|_| AtomicBool::new(false)).collect(),
            patience,
        }));
        let member = |index: usize| {
            let name = format!("kernel-{}", index + 1);
            let thread = thread::Builder::new().name(name);
            // If the system cannot start a thread, the others do the work.
            let handle = thread.spawn(move || team.serve(index)).ok()?;
            Some(handle.thread().clone())
        };
        let members: Vec<Thread> = (0..count).map_while(member).collect();
        let some = !members.is_empty();
        team.members.get_or_init(|| members);
        some.then_some(team)
    }

    fn together(&self, most: usize, work: &(dyn Fn() + Sync)) {
        let turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // A kernel inside a kernel, or another thread's kernel.
            Err(TryLockError::WouldBlock) => return work(),
        };
        // Left over from a round whose caller itself panicked.
        mem::forget(self.panic().take());
        // SAFETY: only the lifetime is erased; `Round` keeps this call from ending before the last member has left.
        let work: &'static (dyn Fn() + Sync) = unsafe { mem::transmute(work) };
        // SAFETY: this call has the turn, the last round is closed, and no member is in it.
        unsafe { *self.work.get() = work };
        let round = (self.state.load(Ordering::Relaxed) >> ROUND).wrapping_add(1);
        self.state.store(round << ROUND | OPEN, Ordering::SeqCst);
        let open = Round(self);
        self.wake(most);
        work();
        drop(open);
        let panic = self.panic().take();
        drop(turn);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn panic(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those of the first `most` members that are asleep. The order of the two accesses here and of the two in
    /// `sleep` prevents a member from sleeping through a round, so all four must stay sequentially consistent.
    fn wake(&self, most: usize) {
        let members = self.members.get().into_iter().flatten();
        for (member, asleep) in members.zip(&self.asleep).take(most) {
            if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
                member.unpark();
            }
        }
    }

    /// The main loop of a member.
    fn serve(&self, index: usize) {
        let [linger, eager] = self.patience;
        let (mut seen, mut looks) = (0, 0_u32);
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
            looks = looks.wrapping_add(1);
            if !looks.is_multiple_of(LOOKS) && !eager.is_zero() {
                spin();
                continue;
            }
            match since.elapsed() {
                idle if idle < eager => spin(),
                idle if idle < linger => thread::yield_now(),
                _ => {
                    self.sleep(index, state);
                    since = Instant::now();
                }
            }
        }
    }

    /// Works in a round that this member has entered.
    fn take_part(&self) {
        // SAFETY: the round does not end while a member is in it, and until then the closure lives.
        let work = unsafe { &**self.work.get() };
        match catch_unwind(AssertUnwindSafe(work)) {
            // Nothing is left to do: late members stay out. The round is still this one, since a member is in it.
            Ok(()) => drop(self.state.fetch_and(!OPEN, Ordering::AcqRel)),
            Err(panic) => {
                let mut first = self.panic();
                match &*first {
                    None => *first = Some(panic),
                    // The panic's payload may itself panic when it is dropped.
                    Some(_) => mem::forget(panic),
                }
            }
        }
        self.state.fetch_sub(1, Ordering::AcqRel);
    }

    /// Sleeps until a round begins after the one in which `state` was read.
    fn sleep(&self, index: usize, state: u64) {
        let asleep = &self.asleep[index];
        asleep.store(true, Ordering::SeqCst);
        // If a caller opened a round before it could see the mark, that round is seen here.
        while self.state.load(Ordering::SeqCst) >> ROUND == state >> ROUND
            && asleep.load(Ordering::SeqCst)
        {
            thread::park();
        }
        asleep.store(false, Ordering::SeqCst);
    }
}

/// An open round. When dropped, also by a panic, it is closed and its members are waited for.
struct Round<'a>(&'a Team);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.fetch_and(!OPEN, Ordering::AcqRel);
        let eager = if self.0.patience[1].is_zero() {
            0
        } else {
            64 * LOOKS
        };
        let mut looks = 0;
        while state.load(Ordering::Acquire) & MEMBERS != 0 {
            if looks < eager {
                looks += 1;
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
mod tests;
