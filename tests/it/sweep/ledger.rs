//! Claims: one winner, nothing lost.

use formwork::ablation::ledger::{Ledger, Standing};
use formwork::report::read::sweep::{EndState, Ending};
use std::sync::{Arc, Barrier};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(60);

fn ledger(folder: &std::path::Path) -> Ledger {
    Ledger::open(folder, LEASE).unwrap()
}

#[test]
fn of_many_that_claim_a_cell_at_once_one_gets_it() {
    let temp = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let cell = format!("arm.seed-{round}");
        let start = Arc::new(Barrier::new(8));
        let claims = (0..8).map(|_| {
            let (cell, start) = (cell.clone(), Arc::clone(&start));
            let mut ledger = ledger(temp.path());
            std::thread::spawn(move || {
                start.wait();
                // Held until all have tried: what is dropped is free again.
                ledger.claim(&cell).unwrap()
            })
        });
        let claims: Vec<_> = claims.collect();
        let won: Vec<_> = claims.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(won.iter().flatten().count(), 1);
    }
}

#[test]
fn a_cell_that_was_given_back_is_the_next_ones_next_attempt() {
    let temp = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (ledger(temp.path()), ledger(temp.path()));
    let cell = "arm.seed-1".to_string();
    let first = one.claim(&cell).unwrap().unwrap();
    assert_eq!(first.attempt, 1);
    assert!(two.claim(&cell).unwrap().is_none());
    let held = &two.standings(std::slice::from_ref(&cell)).unwrap()[0];
    assert!(matches!(held, Standing::Held(holder) if holder.pid == std::process::id()));
    one.free(first).unwrap();
    let second = two.claim(&cell).unwrap().unwrap();
    assert_eq!(second.attempt, 2);
    let ending = Ending {
        state: EndState::Done,
        reason: String::new(),
        attempts: 2,
    };
    two.end(second, &ending).unwrap();
    assert_eq!(
        one.standings(std::slice::from_ref(&cell)).unwrap(),
        [Standing::Ended]
    );
    assert!(one.claim(&cell).unwrap().is_none());
    one.reopen(&cell).unwrap();
    assert_eq!(one.claim(&cell).unwrap().map(|c| c.attempt), Some(3));
}

#[test]
fn a_holder_learns_that_it_was_taken_for_dead() {
    let temp = tempfile::tempdir().unwrap();
    let mut one = ledger(temp.path());
    let mut claim = one.claim("arm.seed-1").unwrap().unwrap();
    assert!(one.beat(&mut claim).unwrap());
    std::fs::write(temp.path().join("ledger/arm.seed-1.claim.2"), "{}").unwrap();
    assert!(!one.beat(&mut claim).unwrap());
}
