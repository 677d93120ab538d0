//! Claims on cells: one process wins, and no result is lost.

use super::{Place, begun};
use formwork::ablation::ledger::{CellState, Ledger};
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
                // Claims are held until all have tried, since a dropped claim is free again.
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
    let held = &two.states(std::slice::from_ref(&cell)).unwrap()[0];
    assert!(matches!(held, CellState::Held(holder) if holder.pid == std::process::id()));
    one.release(first).unwrap();
    let second = two.claim(&cell).unwrap().unwrap();
    assert_eq!(second.attempt, 2);
    let ending = Ending {
        state: EndState::Done,
        reason: String::new(),
        attempts: 2,
    };
    two.end(second, &ending).unwrap();
    assert_eq!(
        one.states(std::slice::from_ref(&cell)).unwrap(),
        [CellState::Ended]
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
    assert!(one.write_heartbeat(&mut claim).unwrap());
    std::fs::write(temp.path().join("ledger/arm.seed-1.claim.2"), "{}").unwrap();
    assert!(!one.write_heartbeat(&mut claim).unwrap());
}

#[test]
fn a_cell_whose_run_was_deleted_is_trained_again() {
    let place = Place::new();
    let arms = "seeds = 1\naxes = { \"model.n_layers\" = [1, 2] }\n";
    let file = place.file("gone", arms);
    let (fine, _, told) = place.swept(&file, "gone", &[]);
    assert!(fine, "{told}");
    let run = begun(&told)[1].replace(".seed-", "/seed-");
    let folder = place.path("gone/cells").join(run);
    std::fs::remove_dir_all(&folder).unwrap();
    let (fine, said, told) = place.swept(&file, "gone", &["--dry-run", "--no-probe"]);
    assert!(fine && said.contains("1 cell left"), "{said}{told}");
    assert!(!folder.exists());
    let (fine, said, told) = place.swept(&file, "gone", &[]);
    assert!(fine && said.contains("2 cells done"), "{said}{told}");
    let note = "n_layers_2.seed-3: ended, but its run folder is missing; it is trained again";
    assert!(told.contains(note), "{told}");
    assert!(folder.join("scores.json").is_file());
    // Commands that read a run say what the folder is instead.
    let shown = place.path("gone").display().to_string();
    let commands = [
        &["resume", &shown][..],
        &["plan", &shown],
        &["eval", &shown],
        &["inspect", &shown, "gradients"],
    ];
    for command in commands {
        let (status, said) = crate::binary::failure(command);
        assert_eq!(status, 2, "{command:?}: {said}");
        let told = format!("{shown} is a sweep, not a run");
        assert!(said.contains(&told), "{command:?}: {said}");
    }
}
