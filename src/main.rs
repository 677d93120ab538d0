//! The `formwork` binary: hands the command line to the library.

// Large buffers stay mapped between steps; the system's allocator would return them to the kernel and fault
// them in again at every step.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    formwork::cli::main()
}
