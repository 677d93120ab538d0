//! Ranks that are threads of one process: they behave like several processes, without a library that starts them.

use super::{Engine, ExchangeStatus, Ranks};
use crate::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Runs `work` on `count` ranks, each in its own thread that ends with [`Ranks::finish`]; returns the results by rank.
pub fn run_on_ranks<T: Send>(
    count: usize,
    work: impl Fn(&Ranks) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    thread::scope(|scope| {
        let each = Local::ranks(count).into_iter().map(|engine| {
            let work = &work;
            scope.spawn(move || {
                let ranks = Ranks::with_engine(Box::new(engine));
                let done = work(&ranks);
                ranks.finish(done)
            })
        });
        let threads: Vec<_> = each.collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended
            .map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// One of several ranks in this process.
pub struct Local {
    rank: usize,
    count: usize,
    table: Arc<SharedMemory>,
}

/// The memory in which ranks leave bytes for each other.
struct SharedMemory {
    round: Mutex<Round>,
    changed: Condvar,
}

struct Round {
    /// For each rank, its bytes for each other rank.
    sent: Vec<Option<Vec<Vec<u8>>>>,
    /// Number of ranks that have taken their bytes.
    received_count: usize,
    /// A rank that has ended, if any.
    gone: Option<usize>,
}

impl Local {
    /// Creates `count` ranks, ordered by rank.
    pub fn ranks(count: usize) -> Vec<Self> {
        let table = Arc::new(SharedMemory {
            round: Mutex::new(Round {
                sent: vec![None; count],
                received_count: 0,
                gone: None,
            }),
            changed: Condvar::new(),
        });
        let one = |rank| Self {
            rank,
            count,
            table: table.clone(),
        };
        (0..count).map(one).collect()
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        let round = self.table.round.lock();
        round.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` holds, or fails once a rank is gone.
    fn wait<'a>(
        &self,
        mut round: MutexGuard<'a, Round>,
        ready: impl Fn(&Round) -> bool,
    ) -> Result<MutexGuard<'a, Round>> {
        while !ready(&round) {
            if let Some(rank) = round.gone {
                return Err(Error::run(format!("rank {rank} has exited")));
            }
            let changed = self.table.changed.wait(round);
            round = changed.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(round)
    }

    /// Leaves this rank's bytes for each rank, and returns each rank's bytes for this one.
    fn exchange(&self, own: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let round = self.round();
        let mut round = self.wait(round, |round| round.sent[self.rank].is_none())?;
        round.sent[self.rank] = Some(own);
        self.table.changed.notify_all();
        let mut round = self.wait(round, |round| round.sent.iter().all(Option::is_some))?;
        let mine = round.sent.iter_mut().flatten();
        let mine: Vec<Vec<u8>> = mine
            .map(|parts| std::mem::take(&mut parts[self.rank]))
            .collect();
        round.received_count += 1;
        if round.received_count == self.count {
            round.received_count = 0;
            round.sent.fill(None);
            self.table.changed.notify_all();
        }
        Ok(mine)
    }
}

impl Engine for Local {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    fn exchange_status(&self, own: ExchangeStatus) -> Result<Vec<ExchangeStatus>> {
        let bytes: Vec<u8> = own.iter().flat_map(|word| word.to_le_bytes()).collect();
        let all = self.exchange(vec![bytes; self.count])?;
        let read = |bytes: &Vec<u8>| {
            let mut words = ExchangeStatus::default();
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            words
        };
        Ok(all.iter().map(read).collect())
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<u8>> {
        let all = self.exchange(vec![own.to_vec(); self.count])?;
        assert!(
            all.iter().map(Vec::len).eq(lengths.iter().copied()),
            "each rank sends as many bytes as it announced"
        );
        Ok(all.concat())
    }

    fn all_to_all(&self, parts: &[u8], sent: &[usize], received: &[usize]) -> Result<Vec<u8>> {
        let own = super::split_by_lengths(parts, sent)
            .map(<[u8]>::to_vec)
            .collect();
        let all = self.exchange(own)?;
        assert!(
            all.iter().map(Vec::len).eq(received.iter().copied()),
            "each rank sends as many bytes as it announced"
        );
        Ok(all.concat())
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.round().gone = Some(self.rank);
        self.table.changed.notify_all();
    }
}
