//! The number of threads of a rank: the cores that it may use, divided among the ranks that may use the same ones.
//!
//! A launcher may bind each rank to separate cores, or let all ranks use all of them. Results do not depend on the number of
//! threads.

use super::Ranks;
use crate::error::Result;

/// The environment variable that sets the number of threads.
const THREADS_VARIABLE: &str = "RAYON_NUM_THREADS";

/// Sets the number of threads of this process before it starts any: its share of the cores of `machine`, unless
/// `RAYON_NUM_THREADS` is set.
///
/// # Errors
/// If another rank has failed or is gone.
pub fn share_cores(ranks: &Ranks, machine: &str) -> Result<()> {
    let seat = format!("{machine} {}", allowed_cores());
    let seats = ranks.all_gather(seat.as_bytes())?;
    let given = std::env::var_os(THREADS_VARIABLE).is_some_and(|value| !value.is_empty());
    if given || !ranks.is_distributed() {
        return Ok(());
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = core_share(&seats, ranks.rank(), cores);
    // A thread pool that already exists keeps its threads.
    let _ = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global();
    Ok(())
}

/// Returns a rank's share of `cores` among the ranks on the same machine and cores (its seat); at least one.
fn core_share(seats: &[Vec<u8>], rank: usize, cores: usize) -> usize {
    let same = |seat: &&Vec<u8>| **seat == seats[rank];
    let (all, before) = (
        seats.iter().filter(same).count(),
        seats[..rank].iter().filter(same).count(),
    );
    let left = usize::from(before < cores % all);
    (cores / all + left).max(1)
}

/// Returns the cores that this process may run on, as Linux lists them.
fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::core_share;

    #[test]
    fn cores_are_divided_among_ranks_of_one_seat() {
        let seats = |names: &[&str]| -> Vec<Vec<u8>> {
            names.iter().map(|name| name.as_bytes().to_vec()).collect()
        };
        let free = seats(&["a 0-7", "a 0-7", "b 0-7", "a 0-7"]);
        let shares: Vec<usize> = (0..4).map(|rank| core_share(&free, rank, 8)).collect();
        assert_eq!(shares, [3, 3, 8, 2]);
        let bound = seats(&["a 0-3", "a 4-7"]);
        assert_eq!(core_share(&bound, 1, 4), 4);
        let crowded = seats(&["a 0", "a 0"]);
        assert_eq!(core_share(&crowded, 1, 1), 1);
    }
}
