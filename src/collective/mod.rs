//! The processes that train one run together, its ranks, and their exchanges: bytes, never sums.
//!
//! An [`Engine`] moves bytes: [`local`] between threads of one process, `mpi` between processes (feature `mpi`), `nccl` between
//! GPUs (feature `nccl`). Sums are computed by the layers above, in a fixed order, so that no engine affects a run's results.
//!
//! Every exchange starts with a few words from each rank: which exchange it is, how many came before, whether the rank was asked
//! to stop, and whether it has failed. So a rank that fails anywhere ends all others at their next exchange, with its own error,
//! and all ranks see a request to stop at the same place ([`Ranks::asked_to_stop`]), whichever rank was asked.

mod group;
pub mod local;
#[cfg(feature = "mpi")]
pub mod mpi;
#[cfg(feature = "nccl")]
pub mod nccl;
mod threads;

use crate::error::{Error, Result};
use crate::stop::StopFlag;
use group::{Exchange, Group};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
pub use threads::share_cores;

/// Maximum number of bytes that all ranks together send to the first one at once; any engine can count them, for any number of
/// ranks.
const MAX_GATHER_BYTES: usize = 1 << 28;

/// A rank's words before an exchange: the kind of exchange, the length of its bytes, its flags, the number of earlier exchanges.
pub type ExchangeStatus = [u64; 4];

/// A transport that moves bytes between the ranks of a run. All ranks call the same functions in the same order.
pub trait Engine: Send + Sync {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Number of ranks.
    fn count(&self) -> usize;

    /// Exchanges words; returns those of all ranks, by rank. The wait may be long and does not keep a core busy.
    ///
    /// # Errors
    /// If a rank is gone.
    fn exchange_status(&self, own: ExchangeStatus) -> Result<Vec<ExchangeStatus>>;

    /// Concatenates the bytes of all ranks; `lengths` are their lengths by rank.
    ///
    /// # Errors
    /// If a rank is gone.
    fn all_gather(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<u8>>;

    /// Sends every rank its part of `parts`, which holds `sent[r]` bytes for rank r, one after the other. Returns the bytes
    /// of all ranks for this one, `received[r]` bytes from rank r.
    ///
    /// # Errors
    /// If a rank is gone.
    fn all_to_all(&self, parts: &[u8], sent: &[usize], received: &[usize]) -> Result<Vec<u8>>;

    /// The index of the GPU that this rank computes on, if the engine assigns one.
    fn gpu(&self) -> Option<usize> {
        None
    }

    /// Ends the exchanges.
    fn end(&self) {}
}

/// The ranks of a run. A run of one process has no engine and never waits.
#[derive(Clone, Default)]
pub struct Ranks(Option<Arc<Group>>);

/// The time and bytes that a rank has spent on exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    /// Time spent waiting for the slowest rank.
    pub wait_time: Duration,
    /// Time spent moving bytes.
    pub transfer_time: Duration,
    /// Number of bytes that this rank has sent to others.
    pub bytes: u64,
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {}", self.rank(), self.count())
    }
}

impl Ranks {
    /// A run of one process.
    pub fn solo() -> Self {
        Self(None)
    }

    /// The ranks that an engine connects.
    pub fn with_engine(engine: Box<dyn Engine>) -> Self {
        if engine.count() == 1 {
            return Self::solo();
        }
        Self(Some(Arc::new(Group::new(engine))))
    }

    /// Number of ranks.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, |group| group.engine.count())
    }

    /// The number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |group| group.engine.rank())
    }

    /// The index of the GPU that this rank computes on, if its engine assigns one.
    pub fn gpu(&self) -> Option<usize> {
        self.0.as_ref().and_then(|group| group.engine.gpu())
    }

    /// Whether this is the rank that writes and prints.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Whether there are other ranks.
    pub fn is_distributed(&self) -> bool {
        self.0.is_some()
    }

    /// Registers a stop flag: once raised, it asks all ranks to stop.
    pub fn listen(&self, stop: &StopFlag) {
        if let Some(group) = &self.0 {
            group.listen(stop);
        }
    }

    /// Whether the run is asked to stop. With one process, that is `own`; with many, it is whether any rank was asked as of the
    /// last exchange, so that all ranks get the same answer.
    pub fn asked_to_stop(&self, own: bool) -> bool {
        match &self.0 {
            None => own,
            Some(group) => group.asked_to_stop(own),
        }
    }

    /// Returns the bytes of every rank, by rank.
    ///
    /// # Errors
    /// If another rank has failed or is gone.
    pub fn all_gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Some(group) = &self.0 else {
            return Ok(vec![own.to_vec()]);
        };
        let lengths = group.begin(Exchange::AllGather, own.len())?;
        let all = group.timed(own.len() * (self.count() - 1), || {
            group.engine.all_gather(own, &lengths)
        })?;
        Ok(split_by_lengths(&all, &lengths)
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Returns the bytes of the first rank; `own` is called only there.
    ///
    /// # Errors
    /// If `own` fails, or as in [`Self::all_gather`].
    pub fn broadcast(&self, own: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
        let own = match self.is_first() {
            true => own()?,
            false => Vec::new(),
        };
        Ok(self.all_gather(&own)?.swap_remove(0))
    }

    /// Returns the bytes of every rank, by rank, on the first rank; nothing on the others.
    ///
    /// # Errors
    /// If another rank has failed or is gone.
    pub fn gather(&self, own: &[u8]) -> Result<Vec<Vec<u8>>> {
        let Some(group) = &self.0 else {
            return Ok(vec![own.to_vec()]);
        };
        let lengths = group.begin(Exchange::Gather, own.len())?;
        let mut all: Vec<Vec<u8>> = match self.is_first() {
            true => lengths.iter().map(|n| Vec::with_capacity(*n)).collect(),
            false => Vec::new(),
        };
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let window = (MAX_GATHER_BYTES / self.count()).max(1);
        for from in (0..longest).step_by(window) {
            let now = |length: usize| length.saturating_sub(from).min(window);
            let (mut sent, mut received) = (vec![0; self.count()], vec![0; self.count()]);
            sent[0] = now(own.len());
            if self.is_first() {
                received = lengths.iter().map(|length| now(*length)).collect();
            }
            let own = &own[from.min(own.len())..][..sent[0]];
            let away = sent[0] * usize::from(!self.is_first());
            let bytes = group.timed(away, || group.engine.all_to_all(own, &sent, &received))?;
            for (all, part) in all.iter_mut().zip(split_by_lengths(&bytes, &received)) {
                all.extend_from_slice(part);
            }
        }
        Ok(all)
    }

    /// Waits until every rank has called this.
    ///
    /// # Errors
    /// If another rank has failed or is gone.
    pub fn wait(&self) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(_) => self.all_gather(&[]).map(drop),
        }
    }

    /// Sends each rank its chunk of `parts`, `lengths[r]` bytes for rank r; returns the chunks of all ranks for this one, each
    /// as long as its own.
    ///
    /// # Errors
    /// If another rank has failed or is gone, or the ranks' parts differ in size.
    pub fn all_to_all(&self, parts: &[u8], lengths: &[usize]) -> Result<Vec<Vec<u8>>> {
        let Some(group) = &self.0 else {
            return Ok(vec![parts.to_vec()]);
        };
        let sizes = group.begin(Exchange::AllToAll, parts.len())?;
        if sizes.iter().any(|size| *size != parts.len()) {
            return Err(Error::run(
                "the ranks exchange gradients of different sizes",
            ));
        }
        let own = lengths[self.rank()];
        let received = vec![own; self.count()];
        let all = group.timed(parts.len() - own, || {
            group.engine.all_to_all(parts, lengths, &received)
        })?;
        Ok(split_by_lengths(&all, &received)
            .map(<[u8]>::to_vec)
            .collect())
    }

    /// Concatenates the chunks of all ranks, of known lengths. It must follow [`Self::all_to_all`], after which no rank is late.
    ///
    /// # Errors
    /// If a rank is gone.
    pub fn all_gather_sized(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<u8>> {
        match &self.0 {
            None => Ok(own.to_vec()),
            Some(group) => group.timed(own.len() * (self.count() - 1), || {
                group.engine.all_gather(own, lengths)
            }),
        }
    }

    /// Ends the run on all ranks: waits until each has finished, successfully or not. If one has failed, all fail with the
    /// status of the first rank that failed, and only its error is reported.
    ///
    /// # Errors
    /// The rank's own error, or [`Error::OtherRank`].
    pub fn finish<T>(&self, result: Result<T>) -> Result<T> {
        let Some(group) = &self.0 else { return result };
        let result = match group.is_over() {
            true => result,
            false => match (group.end(result.as_ref().err()), result) {
                (Ok(()), result) => result.map_err(|error| group::with_rank(error, self.rank())),
                (Err(error @ Error::OtherRank { .. }), _) | (Err(error), Ok(_)) => Err(error),
                // The exchange itself failed: the rank's own error takes precedence.
                (Err(_), Err(error)) => Err(group::with_rank(error, self.rank())),
            },
        };
        group.engine.end();
        result
    }

    /// Returns the time and bytes that this rank has spent on exchanges so far.
    pub fn traffic(&self) -> Traffic {
        self.0
            .as_ref()
            .map_or_else(Traffic::default, |group| group.traffic())
    }
}

/// Cuts bytes into consecutive parts.
fn split_by_lengths<'a>(all: &'a [u8], lengths: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let mut from = 0;
    lengths.iter().map(move |length| {
        let part = &all[from..from + length];
        from += length;
        part
    })
}

#[cfg(test)]
mod tests;
