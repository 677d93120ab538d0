//! The processes that a launcher (`mpirun`, `srun`) has started as one run.

use super::output;
use crate::collective::Ranks;
use crate::error::{Error, Result};
use clap::ValueEnum;

/// What moves bytes between the processes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Exchange {
    /// The message-passing library, between hosts.
    #[default]
    Mpi,
    /// NVIDIA's library, between GPUs: a GPU a process.
    Nccl,
}

/// The variable by which Open MPI's launcher tells how many processes there are.
const OPEN_MPI: &str = "OMPI_COMM_WORLD_SIZE";

/// Open MPI's seconds between its first signal to a job and the one that cannot be caught, as processes see it.
const PATIENCE: &str = "OMPI_MCA_odls_base_sigkill_timeout";

/// Does the work of a command as one of the processes that a launcher has started, or alone where none has. All of them end
/// with one status, and one of them tells why.
///
/// # Errors
/// Those of `work`, of any process; a launcher of many where this program cannot join them.
pub fn together(exchange: Exchange, work: impl FnOnce(&Ranks) -> Result<()>) -> Result<()> {
    require_exchange(exchange)?;
    let ranks = match launched() {
        Some(count) if count > 1 => joined(count, exchange)?,
        Some(_) | None => Ranks::solo(),
    };
    let done = work(&ranks);
    ranks.settle(done)
}

/// An error when many processes were started for a command that one process does.
///
/// # Errors
/// With the commands that many processes can do.
pub fn require_alone(command: &str) -> Result<()> {
    match launched() {
        Some(count) if count > 1 => Err(Error::usage(format!(
            "{count} processes were started together for `{command}`, which is the work of one; `train` and `resume` are \
             done by many"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// How many processes a launcher has started that are to find each other; `None` without one.
fn launched() -> Option<usize> {
    let number = |name: &str| std::env::var(name).ok()?.trim().parse::<usize>().ok();
    let slurm = || {
        std::env::var_os("PMIX_RANK")?;
        number("SLURM_STEP_NUM_TASKS")
    };
    number(OPEN_MPI)
        .or_else(|| number("PMI_SIZE"))
        .or_else(slurm)
}

#[cfg(feature = "mpi")]
fn joined(count: usize, exchange: Exchange) -> Result<Ranks> {
    use crate::collective::mpi::Mpi;
    use crate::collective::{Engine, share_cores};
    use crate::stop::Stop;
    // A signal that comes while the ranks look for each other, or for their data, is a request to stop too.
    Stop::on_signals()?;
    let engine = Mpi::join()?;
    if engine.count() != count {
        return Err(Error::usage(format!(
            "{count} processes were started together, and this program's MPI finds {}: it is another MPI than the \
             launcher's; under Slurm use srun --mpi=pmix",
            engine.count()
        )));
    }
    let ranks = Ranks::joined(Box::new(engine));
    share_cores(&ranks, &Mpi::machine())?;
    match exchange {
        Exchange::Mpi => Ok(ranks),
        Exchange::Nccl => between_gpus(engine, &ranks),
    }
}

/// The same ranks with a GPU each.
#[cfg(feature = "nccl")]
fn between_gpus(processes: crate::collective::mpi::Mpi, ranks: &Ranks) -> Result<Ranks> {
    match crate::collective::nccl::Nccl::join(processes, ranks) {
        Ok(engine) => Ok(Ranks::joined(Box::new(engine))),
        Err(error) => ranks.settle(Err(error)),
    }
}

#[cfg(all(feature = "mpi", not(feature = "nccl")))]
fn between_gpus(_: crate::collective::mpi::Mpi, ranks: &Ranks) -> Result<Ranks> {
    Ok(ranks.clone())
}

/// An error where this program has no such engine.
fn require_exchange(exchange: Exchange) -> Result<()> {
    if exchange == Exchange::Nccl && !cfg!(feature = "nccl") {
        return Err(Error::usage(
            "--exchange nccl is not in this program; build it with: cargo build --release --features cuda,nccl",
        ));
    }
    Ok(())
}

#[cfg(not(feature = "mpi"))]
fn joined(count: usize, _: Exchange) -> Result<Ranks> {
    Err(Error::usage(format!(
        "{count} processes were started together, and this program is built without MPI; build it with: cargo build \
         --release --features mpi"
    )))
}

/// Tells how a run of many processes is laid out, and what its launcher should be told.
pub fn describe(ranks: &Ranks) {
    if !ranks.are_many() || !ranks.is_first() {
        return;
    }
    let threads = match rayon::current_num_threads() {
        1 => "1 thread".to_string(),
        n => format!("{n} threads"),
    };
    let gpus = if ranks.gpu().is_some() {
        ", a GPU each"
    } else {
        ""
    };
    output::note(format!("{} ranks, {threads} in each{gpus}", ranks.count()));
    let patient = std::env::var_os(PATIENCE).is_some();
    if std::env::var_os(OPEN_MPI).is_some() && !patient {
        output::note(
            "mpirun ends a run one second after it was asked to; give it time to save with: mpirun --mca \
             odls_base_sigkill_timeout 10",
        );
    }
}

/// Tells what the exchanges of a run of many processes took, of so many seconds.
pub fn tell_traffic(ranks: &Ranks, seconds: f64) {
    if !ranks.are_many() || !ranks.is_first() {
        return;
    }
    let spent = ranks.traffic();
    let share = |time: std::time::Duration| 100.0 * time.as_secs_f64() / seconds.max(1e-9);
    output::note(format!(
        "rank 0 of {}: {:.1} % of the time moving {:.1} MB, {:.1} % waiting for other ranks",
        ranks.count(),
        share(spent.moved),
        spent.bytes as f64 / 1e6,
        share(spent.waited),
    ));
}
