//! The threads of a rank: the cores that it may run on, divided among the ranks that may run on the same ones.
//!
//! A launcher may have bound each rank to cores of its own, or left all of them to all. Numbers do not depend on threads.

use super::Ranks;
use crate::error::Result;

/// The variable that says how many threads there are.
const GIVEN: &str = "RAYON_NUM_THREADS";

/// Settles how many threads this process has, before it starts any: its share of the cores of `machine`, unless the
/// variable `RAYON_NUM_THREADS` says how many.
///
/// # Errors
/// Another rank has failed or is gone.
pub fn share_cores(ranks: &Ranks, machine: &str) -> Result<()> {
    let seat = format!("{machine} {}", allowed());
    let seats = ranks.all_gather(seat.as_bytes())?;
    let given = std::env::var_os(GIVEN).is_some_and(|value| !value.is_empty());
    if given || !ranks.are_many() {
        return Ok(());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = share(&seats, ranks.rank(), cores);
    // Where the pool was made before, it keeps its threads.
    let _ = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global();
    Ok(())
}

/// A rank's share of `cores` among the ranks with its seat; at least one.
fn share(seats: &[Vec<u8>], rank: usize, cores: usize) -> usize {
    let same = |seat: &&Vec<u8>| **seat == seats[rank];
    let (all, before) = (
        seats.iter().filter(same).count(),
        seats[..rank].iter().filter(same).count(),
    );
    let left = usize::from(before < cores % all);
    (cores / all + left).max(1)
}

/// The cores that this process may run on, as the system lists them.
fn allowed() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn cores_are_divided_among_ranks_of_one_seat() {
        let seats = |names: &[&str]| -> Vec<Vec<u8>> {
            names.iter().map(|name| name.as_bytes().to_vec()).collect()
        };
        let free = seats(&["a 0-7", "a 0-7", "b 0-7", "a 0-7"]);
        let shares: Vec<usize> = (0..4).map(|rank| share(&free, rank, 8)).collect();
        assert_eq!(shares, [3, 3, 8, 2]);
        let bound = seats(&["a 0-3", "a 4-7"]);
        assert_eq!(share(&bound, 1, 4), 4);
        let crowded = seats(&["a 0", "a 0"]);
        assert_eq!(share(&crowded, 1, 1), 1);
    }
}
