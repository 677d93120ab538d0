//! Ranks with one GPU each, whose gradients NCCL moves from GPU to GPU. MPI starts the ranks, distributes NCCL's id,
//! and carries the few words with which each exchange starts.
//!
//! NCCL's reductions are not used: ranks add in the order of a tree, so that any number of ranks computes the same bits as one.
//! Bytes come from the host and return to it, which takes two copies per rank in each exchange in addition to those of the sums.

use super::mpi::Mpi;
use super::{Engine, ExchangeStatus, Ranks};
use crate::error::{Error, Result};
use cudarc::driver::{CudaContext, CudaStream, DriverError};
use cudarc::nccl::result::NcclError;
use cudarc::nccl::safe::{Comm, Id, group_end, group_start};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Exchanges of fewer bytes than this over all ranks use MPI; they are not worth waking a GPU.
const FEW: usize = 1 << 16;

/// This process as a rank with a GPU.
pub struct Nccl {
    processes: Mpi,
    gpu: usize,
    /// Sender to the thread that holds the communicator; `None` after the exchanges have ended.
    work: Mutex<Option<Sender<Work>>>,
}

/// An exchange of bytes: for each rank, a range of `own` to send and a number of bytes to receive.
struct Work {
    own: Vec<u8>,
    sent: Vec<Range<usize>>,
    received: Vec<usize>,
    done: Sender<Result<Vec<u8>>>,
}

/// The communicator and stream of the GPU thread.
struct Mover {
    comm: Comm,
    stream: Arc<CudaStream>,
}

impl Nccl {
    /// Assigns this process a GPU of its machine and connects it to the other ranks' GPUs; `ranks` connects `processes`.
    ///
    /// # Errors
    /// If there is no driver or no NCCL, a machine has fewer GPUs than ranks, NCCL reports an error, or another rank fails so.
    pub fn join(processes: Mpi, ranks: &Ranks) -> Result<Self> {
        require_libraries()?;
        let gpu = own_gpu(ranks)?;
        let id = shared_id(ranks)?;
        let (rank, count) = (processes.rank(), processes.count());
        let (send, receive) = channel();
        let (tell, told) = channel();
        thread::Builder::new()
            .name("nccl".into())
            .spawn(move || match Mover::join(gpu, rank, count, id) {
                Ok(mover) => {
                    if tell.send(Ok(())).is_ok() {
                        mover.serve(&receive);
                    }
                }
                // The creating thread waits for the answer.
                Err(error) => drop(tell.send(Err(error))),
            })
            .map_err(|e| Error::run(format!("cannot start the NCCL thread: {e}")))?;
        told.recv().unwrap_or_else(|_| Err(gone()))?;
        Ok(Self {
            processes,
            gpu,
            work: Mutex::new(Some(send)),
        })
    }

    fn moved(&self, own: &[u8], sent: Vec<Range<usize>>, received: &[usize]) -> Result<Vec<u8>> {
        let (done, answer) = channel();
        let work = Work {
            own: own.to_vec(),
            sent,
            received: received.to_vec(),
            done,
        };
        let thread = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = thread.as_ref().map(|thread| thread.send(work));
        if !matches!(taken, Some(Ok(()))) {
            return Err(gone());
        }
        answer.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Engine for Nccl {
    fn rank(&self) -> usize {
        self.processes.rank()
    }

    fn count(&self) -> usize {
        self.processes.count()
    }

    fn exchange_status(&self, own: ExchangeStatus) -> Result<Vec<ExchangeStatus>> {
        self.processes.exchange_status(own)
    }

    fn all_gather(&self, own: &[u8], lengths: &[usize]) -> Result<Vec<u8>> {
        if lengths.iter().sum::<usize>() < FEW {
            return self.processes.all_gather(own, lengths);
        }
        let all = vec![0..own.len(); self.count()];
        self.moved(own, all, lengths)
    }

    fn all_to_all(&self, parts: &[u8], sent: &[usize], received: &[usize]) -> Result<Vec<u8>> {
        let mut next = 0;
        let sent = sent.iter().map(|length| {
            next += length;
            next - length..next
        });
        self.moved(parts, sent.collect(), received)
    }

    fn gpu(&self) -> Option<usize> {
        Some(self.gpu)
    }

    fn end(&self) {
        // Ends the thread, and with it the communicator.
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.processes.end();
    }
}

impl Mover {
    fn join(gpu: usize, rank: usize, count: usize, id: Id) -> Result<Self> {
        let context = CudaContext::new(gpu).map_err(of_driver)?;
        let stream = context.new_stream().map_err(of_driver)?;
        let comm = Comm::from_rank(stream.clone(), rank, count, id).map_err(of_nccl)?;
        Ok(Self { comm, stream })
    }

    fn serve(&self, work: &Receiver<Work>) {
        for work in work {
            let moved = self.moved(&work);
            // The receiver waits for the answer, unless the run has ended.
            let _ = work.done.send(moved);
        }
    }

    /// Returns the bytes of all ranks for this one, by rank, in one grouped exchange.
    fn moved(&self, work: &Work) -> Result<Vec<u8>> {
        let rank = self.comm.rank();
        let place = |of: usize| {
            let from: usize = work.received[..of].iter().sum();
            from..from + work.received[of]
        };
        let length: usize = work.received.iter().sum();
        // An allocation of 0 bytes is not possible.
        let mut all = self
            .stream
            .alloc_zeros::<u8>(length.max(1))
            .map_err(of_driver)?;
        let own = match work.own.is_empty() {
            true => self.stream.alloc_zeros::<u8>(1),
            false => self.stream.clone_htod(&work.own),
        };
        let own = own.map_err(of_driver)?;
        group_start().map_err(of_nccl)?;
        for peer in (0..self.comm.world_size()).filter(|peer| *peer != rank) {
            let sent = &work.sent[peer];
            if !sent.is_empty() {
                let part = own.slice(sent.clone());
                self.comm.send(&part, peer as i32).map_err(of_nccl)?;
            }
            if !place(peer).is_empty() {
                let mut part = all.slice_mut(place(peer));
                self.comm.recv(&mut part, peer as i32).map_err(of_nccl)?;
            }
        }
        group_end().map_err(of_nccl)?;
        let mut host = self.stream.clone_dtoh(&all).map_err(of_driver)?;
        self.stream.synchronize().map_err(of_driver)?;
        host.truncate(length);
        host[place(rank)].copy_from_slice(&work.own[work.sent[rank].clone()]);
        Ok(host)
    }
}

/// Reports a library that cannot be loaded; its bindings would end the process instead.
fn require_libraries() -> Result<()> {
    // SAFETY: the libraries are NVIDIA's, and loading them only runs their initialisers.
    let (driver, nccl) = unsafe {
        (
            cudarc::driver::sys::is_culib_present(),
            cudarc::nccl::sys::is_culib_present(),
        )
    };
    match (driver, nccl) {
        (false, _) => Err(Error::usage(
            "--exchange nccl: this machine has no CUDA driver (libcuda.so); use --exchange mpi",
        )),
        (_, false) => Err(Error::usage(
            "--exchange nccl: libnccl.so is not in the library search path (a link to libnccl.so.2 is enough); add its folder to \
             LD_LIBRARY_PATH, or use --exchange mpi",
        )),
        (true, true) => Ok(()),
    }
}

/// Chooses the GPU of this process: the one with its number among the ranks of its machine, or the only visible one.
fn own_gpu(ranks: &Ranks) -> Result<usize> {
    let machine = Mpi::machine();
    let names = ranks.all_gather(machine.as_bytes())?;
    let before = names[..ranks.rank()].iter();
    let number = before.filter(|name| **name == machine.as_bytes()).count();
    let (gpu, uuid) = found(number, &machine)?;
    let uuids = ranks.all_gather(&uuid)?;
    let twice = |rank: &usize| uuids[..*rank].contains(&uuids[*rank]);
    match (1..uuids.len()).find(twice) {
        None => Ok(gpu),
        Some(rank) => Err(Error::usage(format!(
            "rank {rank} shares its GPU with another rank, but NCCL needs one GPU per rank; start fewer ranks on that machine"
        ))),
    }
}

/// Returns the GPU with this number among those visible on this machine, and its UUID.
fn found(number: usize, machine: &str) -> Result<(usize, [u8; 16])> {
    let visible = CudaContext::device_count().map_err(of_driver)? as usize;
    let gpu = match visible {
        1 => 0,
        _ => number,
    };
    if gpu >= visible {
        return Err(Error::usage(format!(
            "{machine} has {visible} GPU(s) and at least {} ranks, but NCCL needs one GPU per rank; start fewer ranks on that \
             machine",
            number + 1
        )));
    }
    let context = CudaContext::new(gpu).map_err(of_driver)?;
    let uuid = context.uuid().map_err(of_driver)?;
    Ok((gpu, uuid.bytes.map(|byte| byte as u8)))
}

/// Returns the id by which the communicators of all ranks find each other; the first rank creates it.
fn shared_id(ranks: &Ranks) -> Result<Id> {
    let bytes = ranks.broadcast(|| {
        let id = Id::new().map_err(of_nccl)?;
        Ok(id.internal().map(|byte| byte as u8).to_vec())
    })?;
    let id = <[u8; 128]>::try_from(&bytes[..]);
    let id = id.map_err(|_| Error::run("rank 0 did not send a valid NCCL id"))?;
    Ok(Id::uninit(id.map(|byte| byte as _)))
}

fn of_driver(error: DriverError) -> Error {
    Error::run(format!("error of the CUDA driver: {error}"))
}

fn of_nccl(error: NcclError) -> Error {
    Error::run(format!("error of NCCL: {:?}", error.0))
}

fn gone() -> Error {
    Error::run("the NCCL thread has ended")
}
