//! Ranks that are processes started by `mpirun` or `srun`, on one machine or many.
//!
//! MPI only moves bytes: its reductions would add in an order of their own. If a rank dies, the launcher notices, names
//! the rank and ends the others.

use super::{Engine, ExchangeStatus};
use crate::error::{Error, Result};
use mpi::Threading;
use mpi::collective::CommunicatorCollectives;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::{self, Universe};
use mpi::request;
use mpi::topology::{Communicator, SimpleCommunicator};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a rank polls for the others before it sleeps.
const EAGER: Duration = Duration::from_micros(200);

/// How long it then sleeps between two polls.
const NAP: Duration = Duration::from_micros(100);

/// Maximum number of bytes that one call of the library moves; MPI counts have 31 bits.
const WINDOW: usize = 1 << 30;

/// Backing memory for empty slices. The address of an empty vector may be the one that stands for `MPI_IN_PLACE`.
static NOTHING: [u8; 1] = [0];

/// The MPI library, from its initialisation to [`Engine::end`]. If a process ends without `end`, the launcher ends the others.
static UNIVERSE: Mutex<Option<Universe>> = Mutex::new(None);

/// This process as a rank.
#[derive(Clone, Copy)]
pub struct Mpi {
    rank: usize,
    count: usize,
}

impl Mpi {
    /// Joins the other processes of the launcher.
    ///
    /// # Errors
    /// If the MPI library is already initialised.
    pub fn join() -> Result<Self> {
        // Only one thread at a time exchanges data.
        let begun = mpi::initialize_with_threading(Threading::Serialized);
        let Some((universe, _)) = begun else {
            return Err(Error::run("MPI was already initialised in this process"));
        };
        let world = universe.world();
        *UNIVERSE.lock().unwrap_or_else(PoisonError::into_inner) = Some(universe);
        Ok(Self {
            rank: world.rank() as usize,
            count: world.size() as usize,
        })
    }

    /// Returns the name of this machine.
    pub fn machine() -> String {
        environment::processor_name().unwrap_or_default()
    }
}

impl Engine for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    fn exchange_status(&self, own: ExchangeStatus) -> Result<Vec<ExchangeStatus>> {
        let mut all = vec![0_u64; self.count * own.len()];
        request::scope(|scope| {
            let world = SimpleCommunicator::world();
            let mut request = world.immediate_all_gather_into(scope, &own[..], &mut all[..]);
            let began = Instant::now();
            while let Err(unfinished) = request.test() {
                request = unfinished;
                match began.elapsed() < EAGER {
                    true => thread::yield_now(),
                    false => thread::sleep(NAP),
                }
            }
        });
        Ok(all.as_chunks().0.to_vec())
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<u8>> {
        let world = SimpleCommunicator::world();
        let window = WINDOW / self.count;
        let starts = starts(lengths);
        let mut all = room(lengths.iter().sum());
        let longest = lengths.iter().copied().max().unwrap_or(0);
        if longest <= window {
            let (counts, places) = (counts(lengths), counts(&starts));
            let mut parts = PartitionMut::new(&mut all[..], counts, places);
            world.all_gather_varcount_into(placed(own), &mut parts);
            return Ok(all);
        }
        for from in (0..longest).step_by(window) {
            let now: Vec<usize> = lengths
                .iter()
                .map(|length| length.saturating_sub(from).min(window))
                .collect();
            let places = self::starts(&now);
            let mut some = room(now.iter().sum());
            let mine = &own[from.min(own.len())..(from + window).min(own.len())];
            let mut parts = PartitionMut::new(&mut some[..], counts(&now), counts(&places));
            world.all_gather_varcount_into(placed(mine), &mut parts);
            for rank in 0..self.count {
                let to = starts[rank] + from;
                let part = &some[places[rank]..places[rank] + now[rank]];
                all[to.min(starts[rank] + lengths[rank])..][..now[rank]].copy_from_slice(part);
            }
        }
        Ok(all)
    }

    fn all_to_all(&self, parts: &[u8], sent: &[usize], received: &[usize]) -> Result<Vec<u8>> {
        let mut all = room(received.iter().sum());
        if parts.len().max(all.len()) > WINDOW {
            return Err(Error::run(
                "a single exchange has more bytes than MPI can count",
            ));
        }
        let own = Partition::new(placed(parts), counts(sent), counts(&starts(sent)));
        let places = counts(&starts(received));
        let mut to = PartitionMut::new(&mut all[..], counts(received), places);
        SimpleCommunicator::world().all_to_all_varcount_into(&own, &mut to);
        Ok(all)
    }

    fn end(&self) {
        // Waits for the other ranks, so that no launcher mistakes the end of one rank for a failure.
        *UNIVERSE.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Returns the bytes, at a valid address even if they are empty.
fn placed(bytes: &[u8]) -> &[u8] {
    match bytes.is_empty() {
        true => &NOTHING[..0],
        false => bytes,
    }
}

/// Allocates zeros, at a valid address even if there are none.
fn room(bytes: usize) -> Vec<u8> {
    let mut room = Vec::with_capacity(bytes.max(1));
    room.resize(bytes, 0);
    room
}

/// Returns the offset of each part.
fn starts(lengths: &[usize]) -> Vec<usize> {
    let mut next = 0;
    let each = lengths.iter().map(|length| {
        next += length;
        next - length
    });
    each.collect()
}

/// Converts byte counts, all within a window, to MPI's 32-bit counts.
fn counts(numbers: &[usize]) -> Vec<i32> {
    numbers.iter().map(|number| *number as i32).collect()
}
