//! A stop request to any rank ends all ranks at the same step, which is saved.

use super::run_on_ranks;
use crate::carried::elman;
use crate::carried::resumed::{StopAfter, finished, job};
use formwork::error::Error;
use formwork::stop::StopFlag;
use formwork::train;
use formwork::train::run_dir::{Existing, RunDir};
use formwork::train::view::NoView;

#[test]
fn a_request_to_any_rank_saves_once_and_ends_all_at_one_step() {
    for asked in [0, 1] {
        let folder = tempfile::tempdir().unwrap();
        let [alone, shared] = ["alone", "shared"].map(|name| folder.path().join(name));
        let whole = finished(&alone, 99, 12);
        let stops = [StopFlag::default(), StopFlag::default()];
        let results = run_on_ranks(2, |ranks| {
            let model = elman(None);
            let run = match ranks.is_first() {
                true => {
                    let run = RunDir::create(&shared, Existing::Refuse)?;
                    run.write("resolved.toml", b"")?;
                    run
                }
                false => RunDir::of_other_rank(&shared),
            };
            let mut job = job(&model, run, 12);
            job.ranks = ranks.clone();
            job.stop = stops[ranks.rank()].clone();
            let observer = StopAfter(5, stops[asked].clone());
            train::run(model, job, Box::new(observer), Box::new(NoView))
        });
        let steps: Vec<u64> = results
            .iter()
            .map(|result| match result {
                Err(Error::Interrupted { step, .. }) => *step,
                Err(Error::OtherRank { status, .. }) => u64::from(*status),
                other => panic!("{other:?}"),
            })
            .collect();
        // Rank 0 stops before the step in which it is asked; rank 1 may have computed its part of that step.
        assert!((5..=7).contains(&steps[0]), "{steps:?}");
        assert_eq!(steps[1], 130);
        assert!(finished(&shared, 99, 12) == whole, "asked of rank {asked}");
    }
}
