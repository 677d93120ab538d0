//! Ranks with a GPU each, whose gradients pass from GPU to GPU: NCCL moves them. MPI starts the ranks, hands NCCL's id over,
//! and carries the few words that begin each exchange.
//!
//! NCCL's reductions are not used: ranks add, in the order of the tree, so any number of them has the bits of one. Bytes
//! come from the host and go back to it, two copies a rank in each exchange beside those of the sums.

use super::mpi::Mpi;
use super::{Engine, Ranks, Words};
use crate::error::{Error, Result};
use cudarc::driver::{CudaContext, CudaStream, DriverError};
use cudarc::nccl::result::NcclError;
use cudarc::nccl::safe::{Comm, Id, group_end, group_start};
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Fewer bytes of all ranks than this go with MPI: no GPU is worth waking for them.
const FEW: usize = 1 << 16;

/// This process as a rank with a GPU.
pub struct Nccl {
    processes: Mpi,
    gpu: usize,
    /// To the thread that has the communicator; none once nothing is exchanged any more.
    work: Mutex<Option<Sender<Work>>>,
}

/// Bytes to be moved: for each rank a part of `own`, and as many bytes from each as `received` says.
struct Work {
    own: Vec<u8>,
    sent: Vec<Range<usize>>,
    received: Vec<usize>,
    done: Sender<Result<Vec<u8>>>,
}

/// What the thread of the GPU has.
struct Mover {
    comm: Comm,
    stream: Arc<CudaStream>,
}

impl Nccl {
    /// Gives this process a GPU of its machine and joins it to those of the others; `ranks` are `processes` joined.
    ///
    /// # Errors
    /// No driver, no NCCL, fewer GPUs than ranks on a machine, and all that NCCL says; the same of another rank.
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
                // This side waits for the answer.
                Err(error) => drop(tell.send(Err(error))),
            })
            .map_err(|e| Error::run(format!("cannot start the thread of NCCL: {e}")))?;
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

    fn words(&self, own: Words) -> Result<Vec<Words>> {
        self.processes.words(own)
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
        // The thread ends, and with it the communicator.
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
            // The other side waits for it, or the run has ended.
            let _ = work.done.send(moved);
        }
    }

    /// The bytes of all ranks for this one, by rank, in one grouped exchange.
    fn moved(&self, work: &Work) -> Result<Vec<u8>> {
        let rank = self.comm.rank();
        let place = |of: usize| {
            let from: usize = work.received[..of].iter().sum();
            from..from + work.received[of]
        };
        let length: usize = work.received.iter().sum();
        // No memory of 0 bytes can be had.
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

/// An error where a library cannot be loaded, which its bindings would end the process for.
fn require_libraries() -> Result<()> {
    // SAFETY: the libraries are NVIDIA's, and loading them runs their initialisers alone.
    let (driver, nccl) = unsafe {
        (
            cudarc::driver::sys::is_culib_present(),
            cudarc::nccl::sys::is_culib_present(),
        )
    };
    match (driver, nccl) {
        (false, _) => Err(Error::usage(
            "--exchange nccl: there is no CUDA driver (libcuda.so) on this machine; take --exchange mpi",
        )),
        (_, false) => Err(Error::usage(
            "--exchange nccl: there is no libnccl.so in the paths of libraries (a link to libnccl.so.2 will do); name its \
             folder in LD_LIBRARY_PATH, or take --exchange mpi",
        )),
        (true, true) => Ok(()),
    }
}

/// The GPU of this process: that with its number among the ranks of its machine, or the only one that it can see.
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
            "rank {rank} has a GPU that another rank has too, and NCCL takes a GPU a rank; start fewer ranks there"
        ))),
    }
}

/// The GPU with a number of those that can be seen on this machine, and the bytes that name it among all.
fn found(number: usize, machine: &str) -> Result<(usize, [u8; 16])> {
    let visible = CudaContext::device_count().map_err(of_driver)? as usize;
    let gpu = match visible {
        1 => 0,
        _ => number,
    };
    if gpu >= visible {
        return Err(Error::usage(format!(
            "{machine} has {visible} GPU(s) and {} ranks or more, and NCCL takes a GPU a rank; start fewer ranks there",
            number + 1
        )));
    }
    let context = CudaContext::new(gpu).map_err(of_driver)?;
    let uuid = context.uuid().map_err(of_driver)?;
    Ok((gpu, uuid.bytes.map(|byte| byte as u8)))
}

/// The id by which the communicators of all ranks find each other, which the first rank makes.
fn shared_id(ranks: &Ranks) -> Result<Id> {
    let bytes = ranks.broadcast(|| {
        let id = Id::new().map_err(of_nccl)?;
        Ok(id.internal().map(|byte| byte as u8).to_vec())
    })?;
    let id = <[u8; 128]>::try_from(&bytes[..]);
    let id = id.map_err(|_| Error::run("rank 0 sent no id of NCCL"))?;
    Ok(Id::uninit(id.map(|byte| byte as _)))
}

fn of_driver(error: DriverError) -> Error {
    Error::run(format!("the CUDA driver says: {error}"))
}

fn of_nccl(error: NcclError) -> Error {
    Error::run(format!("NCCL says: {:?}", error.0))
}

fn gone() -> Error {
    Error::run("the thread that exchanges with NCCL has ended")
}
