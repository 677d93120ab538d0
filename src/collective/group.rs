//! The exchange of words with which every exchange of a run's ranks starts and ends, and the state the ranks agree on.

use super::{Engine, ExchangeStatus, Traffic, split_by_lengths};
use crate::error::{Error, Result};
use crate::stop::StopFlag;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An engine and the state that the ranks have agreed on.
pub(super) struct Group {
    pub engine: Box<dyn Engine>,
    /// This rank's stop flag, once the run listens to it.
    stop: OnceLock<StopFlag>,
    /// Whether some rank was asked to stop, as of the last exchange.
    stop_requested: AtomicBool,
    /// Whether the exchanges are over.
    is_ended: AtomicBool,
    /// Number of exchanges started so far.
    begun: AtomicU64,
    waited_ns: AtomicU64,
    transfer_ns: AtomicU64,
    bytes: AtomicU64,
}

/// The kind of exchange that a rank is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Exchange {
    AllGather = 1,
    AllToAll,
    End,
    Gather,
}

const STOP: u64 = 1;
const FAILED: u64 = 2;

impl Group {
    pub fn new(engine: Box<dyn Engine>) -> Self {
        Self {
            engine,
            stop: OnceLock::new(),
            stop_requested: AtomicBool::new(false),
            is_ended: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            transfer_ns: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    pub fn listen(&self, stop: &StopFlag) {
        // Only one run per process listens, and only once.
        let _ = self.stop.set(stop.clone());
    }

    /// Whether some rank was asked to stop, as of the last exchange; if `own`, this rank asks in the next exchange.
    pub fn asked_to_stop(&self, own: bool) -> bool {
        if let (true, Some(stop)) = (own, self.stop.get()) {
            stop.raise();
        }
        self.stop_requested.load(Ordering::SeqCst)
    }

    pub fn is_over(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }

    pub fn traffic(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            wait_time: Duration::from_nanos(read(&self.waited_ns)),
            transfer_time: Duration::from_nanos(read(&self.transfer_ns)),
            bytes: read(&self.bytes),
        }
    }

    /// Waits for all ranks and checks that they are in the same exchange; returns the lengths of their bytes.
    pub fn begin(&self, exchange: Exchange, length: usize) -> Result<Vec<usize>> {
        let all = self.exchange_status(exchange, length, self.flags())?;
        if all.iter().any(|words| words[2] & FAILED != 0) {
            return Err(self.failure(&all, None)?);
        }
        let own = all[self.engine.rank()];
        let elsewhere = |words: &ExchangeStatus| [words[0], words[3]] != [own[0], own[3]];
        if let Some(other) = all.iter().position(elsewhere) {
            return Err(Error::run(format!(
                "rank {other} is at a different point of the run than rank {}: the ranks are out of sync",
                self.engine.rank()
            )));
        }
        Ok(all.iter().map(|words| words[1] as usize).collect())
    }

    /// Runs the last exchange. Fails if the run fails and another rank reports the reason.
    pub fn end(&self, failed: Option<&Error>) -> Result<()> {
        let flags = self.flags() | failed.map_or(0, |_| FAILED);
        let told = failed.map(|error| encode_error(error, self.engine.rank()));
        let length = told.as_ref().map_or(0, Vec::len);
        let all = self.exchange_status(Exchange::End, length, flags)?;
        self.is_ended.store(true, Ordering::SeqCst);
        if all.iter().all(|words| words[2] & FAILED == 0) {
            return match all.iter().all(|words| words[0] == Exchange::End as u64) {
                true => Ok(()),
                false => Err(Error::run(
                    "the ranks are out of sync at the end of the run",
                )),
            };
        }
        match self.failure(&all, told)? {
            Error::OtherRank { rank, .. } if rank == self.engine.rank() => Ok(()),
            other => Err(other),
        }
    }

    /// Returns the error of the first rank that failed.
    fn failure(&self, all: &[ExchangeStatus], own: Option<Vec<u8>>) -> Result<Error> {
        self.is_ended.store(true, Ordering::SeqCst);
        let fails = |words: &ExchangeStatus| words[2] & FAILED != 0;
        let lengths = all.iter().map(|words| match fails(words) {
            true => words[1] as usize,
            false => 0,
        });
        let lengths: Vec<usize> = lengths.collect();
        let texts = self.engine.all_gather(&own.unwrap_or_default(), &lengths)?;
        let rank = all.iter().position(fails).unwrap_or_default();
        let text = split_by_lengths(&texts, &lengths)
            .nth(rank)
            .unwrap_or_default();
        let (status, message) = text.split_first().unwrap_or((&1, &[]));
        Ok(Error::OtherRank {
            rank,
            status: *status,
            message: String::from_utf8_lossy(message).into_owned(),
        })
    }

    fn exchange_status(
        &self,
        exchange: Exchange,
        length: usize,
        flags: u64,
    ) -> Result<Vec<ExchangeStatus>> {
        let began = Instant::now();
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let own = [exchange as u64, length as u64, flags, number];
        let all = self.engine.exchange_status(own)?;
        add(&self.waited_ns, began.elapsed());
        if all.iter().any(|words| words[2] & STOP != 0) {
            self.stop_requested.store(true, Ordering::SeqCst);
        }
        Ok(all)
    }

    fn flags(&self) -> u64 {
        match self.stop.get().is_some_and(StopFlag::is_raised) {
            true => STOP,
            false => 0,
        }
    }

    pub fn timed<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        add(&self.transfer_ns, began.elapsed());
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        done
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    counter.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// Encodes an error's exit status and message for the other ranks.
fn encode_error(error: &Error, rank: usize) -> Vec<u8> {
    let mut bytes = vec![error.exit_status()];
    bytes.extend(text_with_rank(error, rank).into_bytes());
    bytes
}

/// Adds the rank's number to an error's message. An error of rank 0 counts as the run's and stays unchanged.
pub(super) fn with_rank(error: Error, rank: usize) -> Error {
    match (rank, &error) {
        (0, _) | (_, Error::OtherRank { .. }) => error,
        (_, Error::Invalid(_)) => Error::usage(text_with_rank(&error, rank)),
        (_, Error::Run(_) | Error::Io { .. }) => Error::run(text_with_rank(&error, rank)),
        (_, Error::Interrupted { .. } | Error::Stopped(_)) => error,
    }
}

fn text_with_rank(error: &Error, rank: usize) -> String {
    match rank {
        0 => error.to_string(),
        _ => format!("rank {rank}: {error}"),
    }
}
