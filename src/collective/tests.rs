//! Exchanges between ranks that are threads: order, failures, requests to stop.

use super::local::{Local, run_on_ranks};
use super::{MAX_GATHER_BYTES, Ranks};
use crate::error::{Error, Result};
use crate::stop::StopFlag;

fn message<T: std::fmt::Debug>(result: &Result<T>) -> String {
    result.as_ref().unwrap_err().to_string()
}

#[test]
fn all_ranks_get_the_same_bytes_in_the_order_of_ranks() {
    for count in [1, 2, 4] {
        let found = run_on_ranks(count, |ranks| {
            ranks.all_gather(&vec![ranks.rank() as u8; ranks.rank()])
        });
        let wanted: Vec<Vec<u8>> = (0..count).map(|rank| vec![rank as u8; rank]).collect();
        for found in found {
            assert_eq!(found.unwrap(), wanted);
        }
    }
}

#[test]
fn each_rank_gets_its_chunk_of_every_rank() {
    let lengths = [2, 1, 3];
    let found = run_on_ranks(3, |ranks| {
        let own = ranks.rank() as u8 * 10;
        ranks.all_to_all(
            &[own, own + 1, own + 2, own + 3, own + 4, own + 5],
            &lengths,
        )
    });
    let found: Vec<Vec<Vec<u8>>> = found.into_iter().map(Result::unwrap).collect();
    assert_eq!(found[0], [[0, 1], [10, 11], [20, 21]]);
    assert_eq!(found[1], [[2], [12], [22]]);
    assert_eq!(found[2], [[3, 4, 5], [13, 14, 15], [23, 24, 25]]);
}

#[test]
fn the_first_rank_gets_what_all_have() {
    for count in [1, 2, 4] {
        let own =
            |rank: usize| vec![rank as u8; MAX_GATHER_BYTES / 2 * usize::from(rank == 1) + rank];
        let found = run_on_ranks(count, |ranks| ranks.gather(&own(ranks.rank())));
        let mut found = found.into_iter().map(Result::unwrap);
        let wanted: Vec<Vec<u8>> = (0..count).map(own).collect();
        assert!(found.next() == Some(wanted), "{count}");
        assert!(found.all(|others| others.is_empty()));
    }
}

#[test]
fn a_rank_that_fails_ends_all_with_its_status_and_is_named() {
    let found = run_on_ranks(4, |ranks| {
        ranks.wait()?;
        if ranks.rank() == 2 {
            return Err(Error::usage("the disk is full"));
        }
        ranks.wait()?;
        ranks.wait()
    });
    for (rank, result) in found.iter().enumerate() {
        let error = result.as_ref().unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert_eq!(error.to_string(), "rank 2: the disk is full");
        let elsewhere = matches!(error, Error::OtherRank { .. });
        assert_eq!(elsewhere, rank != 2, "rank {rank}");
    }
}

#[test]
fn of_an_error_that_all_ranks_have_the_first_tells() {
    let found = run_on_ranks::<()>(2, |_| Err(Error::run("it diverged")));
    assert!(matches!(found[0], Err(Error::Run(_))));
    assert!(matches!(found[1], Err(Error::OtherRank { rank: 0, .. })));
    assert_eq!(message(&found[1]), "it diverged");
}

#[test]
fn a_rank_that_is_late_with_its_failure_ends_those_that_are_done() {
    let found = run_on_ranks(2, |ranks| match ranks.rank() {
        0 => Ok(()),
        _ => Err(Error::run("no scores")),
    });
    assert_eq!(message(&found[0]), "rank 1: no scores");
}

#[test]
fn a_rank_that_is_gone_is_named() {
    let mut engines = Local::ranks(2);
    drop(engines.pop());
    let ranks = Ranks::with_engine(Box::new(engines.remove(0)));
    let found = ranks.wait();
    assert_eq!(message(&ranks.finish(found)), "rank 1 has exited");
}

#[test]
fn ranks_that_come_apart_are_told_so() {
    let found = run_on_ranks(2, |ranks| match ranks.rank() {
        0 => ranks.wait(),
        _ => ranks.all_to_all(&[1, 2], &[1, 1]).map(drop),
    });
    assert!(message(&found[0]).contains("out of sync"));
    assert!(found[1].is_err());
}

#[test]
fn all_ranks_find_a_request_to_stop_at_the_same_place() {
    let found = run_on_ranks(4, |ranks| {
        let stop = StopFlag::default();
        ranks.listen(&stop);
        let mut asked = Vec::new();
        for step in 0..6 {
            if ranks.rank() == 3 && step == 3 {
                stop.raise();
            }
            asked.push(ranks.asked_to_stop(stop.is_raised()));
            ranks.wait()?;
        }
        Ok(asked)
    });
    for asked in found {
        assert_eq!(asked.unwrap(), [false, false, false, false, true, true]);
    }
}
