//! A run is resumed with another number of processes.

use super::experiments::Files;
use super::{assert_same, content, resumed, trained};
use formwork::train::checkpoint;

/// Cuts a run on `first` ranks off as if it had been killed after the checkpoint of step 4, and resumes it on `second` ranks.
fn resumed_elsewhere(files: &Files, first: usize, second: usize) {
    let [whole, other] = ["whole", "other"].map(|name| files.path(name));
    let file = files.path("x.toml");
    for result in
        trained(1, &file, &whole, &[])
            .into_iter()
            .chain(trained(first, &file, &other, &[]))
    {
        result.unwrap();
    }
    for step in checkpoint::steps(&other)
        .into_iter()
        .filter(|step| *step > 4)
    {
        std::fs::remove_dir_all(other.join(format!("steps/{step:08}"))).unwrap();
    }
    std::fs::remove_file(other.join("scores.json")).unwrap();
    for result in resumed(second, &other) {
        result.unwrap();
    }
    assert_same(
        &content(&other),
        &content(&whole),
        &format!("{first}, then {second} ranks"),
    );
}

#[test]
fn a_language_model_goes_on_with_another_number_of_ranks() {
    resumed_elsewhere(&Files::language_model(), 4, 2);
}

#[test]
fn carried_state_is_handed_out_again() {
    resumed_elsewhere(&Files::segments(), 2, 4);
}

#[test]
fn a_run_of_ranks_goes_on_alone() {
    resumed_elsewhere(&Files::segments(), 4, 1);
}

#[test]
fn a_run_that_has_ended_is_left_alone_by_all_ranks() {
    let files = Files::images();
    let run = files.path("run");
    trained(1, &files.path("x.toml"), &run, &[])
        .remove(0)
        .unwrap();
    let before = content(&run);
    for result in resumed(2, &run) {
        assert_eq!(result.unwrap().step, 5);
    }
    assert_same(&content(&run), &before, "resumed after its end");
}
