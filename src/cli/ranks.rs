//! Joins the processes that a launcher (`mpirun`, `srun`) has started into one run.

use super::output;
use crate::collective::Ranks;
use crate::error::{Error, Result};
use clap::ValueEnum;

/// How data is exchanged between the processes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Exchange {
    /// MPI, between hosts.
    #[default]
    Mpi,
    /// NCCL, between GPUs, with one GPU per process.
    Nccl,
}

/// Variable in which Open MPI's launcher passes the number of processes.
const OPEN_MPI: &str = "OMPI_COMM_WORLD_SIZE";

/// Open MPI's variable for the seconds between its first signal to a job and SIGKILL, as processes see it.
const PATIENCE: &str = "OMPI_MCA_odls_base_sigkill_timeout";

/// Runs a command's work as one of the processes that a launcher has started, or as the only process without a launcher. All of
/// them end with the same status, and one reports the reason.
///
/// # Errors
/// The errors of `work`, in any process; if a launcher started several processes and this program cannot join them.
pub fn run_on_ranks(exchange: Exchange, work: impl FnOnce(&Ranks) -> Result<()>) -> Result<()> {
    require_exchange(exchange)?;
    let ranks = match launched() {
        Some(count) if count > 1 => joined(count, exchange)?,
        Some(_) | None => Ranks::solo(),
    };
    let done = work(&ranks);
    ranks.finish(done)
}

/// Returns an error if several processes were started for a single-process command.
///
/// # Errors
/// If there are several; the error names the commands that several processes can run.
pub fn require_alone(command: &str) -> Result<()> {
    match launched() {
        Some(count) if count > 1 => Err(Error::usage(format!(
            "{count} processes were started together for `{command}`, which runs in one process; only `train` and `resume` run \
             in several"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// The number of processes that a launcher has started together; `None` without a launcher.
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
    use crate::stop::StopFlag;
    // A signal that arrives while the ranks look for each other, or for their data, is a request to stop, too.
    StopFlag::on_signals()?;
    let engine = Mpi::join()?;
    if engine.count() != count {
        return Err(Error::usage(format!(
            "{count} processes were started together, but this program's MPI finds {}: its MPI differs from the launcher's; \
             under Slurm use srun --mpi=pmix",
            engine.count()
        )));
    }
    let ranks = Ranks::with_engine(Box::new(engine));
    share_cores(&ranks, &Mpi::machine())?;
    match exchange {
        Exchange::Mpi => Ok(ranks),
        Exchange::Nccl => between_gpus(engine, &ranks),
    }
}

/// Assigns a GPU to each rank.
#[cfg(feature = "nccl")]
fn between_gpus(processes: crate::collective::mpi::Mpi, ranks: &Ranks) -> Result<Ranks> {
    match crate::collective::nccl::Nccl::join(processes, ranks) {
        Ok(engine) => Ok(Ranks::with_engine(Box::new(engine))),
        Err(error) => ranks.finish(Err(error)),
    }
}

#[cfg(all(feature = "mpi", not(feature = "nccl")))]
fn between_gpus(_: crate::collective::mpi::Mpi, ranks: &Ranks) -> Result<Ranks> {
    Ok(ranks.clone())
}

/// Returns an error if this program lacks the exchange.
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
        "{count} processes were started together, but this program was built without MPI; build it with: cargo build --release \
         --features mpi"
    )))
}

/// Notes the layout of a run of several processes, and useful options of its launcher.
pub fn describe(ranks: &Ranks) {
    if !ranks.is_distributed() || !ranks.is_first() {
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
            "mpirun kills a run one second after asking it to stop; give it time to save with: mpirun --mca \
             odls_base_sigkill_timeout 10",
        );
    }
}

/// Notes how much of `seconds` the communication of a run of several processes took.
pub fn note_traffic(ranks: &Ranks, seconds: f64) {
    if !ranks.is_distributed() || !ranks.is_first() {
        return;
    }
    let spent = ranks.traffic();
    let share = |time: std::time::Duration| 100.0 * time.as_secs_f64() / seconds.max(1e-9);
    output::note(format!(
        "rank 0 of {}: {:.1} % of the time moving {:.1} MB, {:.1} % waiting for other ranks",
        ranks.count(),
        share(spent.transfer_time),
        spent.bytes as f64 / 1e6,
        share(spent.wait_time),
    ));
}
