//! The `formwork` binary: hands the command line to the library.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
