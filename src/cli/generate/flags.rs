//! Checks the flags that only `generate` has.

use super::{GenerateArgs, best_of};
use crate::error::{Error, Result};
use crate::generate::decode::{MAX_ROWS, check_width};

/// Checks the values of the flags.
///
/// # Errors
/// The first invalid value.
pub(super) fn check(args: &GenerateArgs) -> Result<()> {
    args.sampling.check()?;
    best_of::check(&args.best_of)?;
    check_width("--batch-size", args.batch_size)?;
    let wrong = |message: String| Err(Error::usage(message));
    if args.samples == 0 {
        return wrong("--samples 0 generates nothing; give at least 1".into());
    }
    if args.samples > MAX_ROWS {
        return wrong(format!(
            "--samples {} is more than {MAX_ROWS}, the maximum at a time; generate more with another --seed",
            args.samples
        ));
    }
    if args.stop.iter().any(String::is_empty) {
        return wrong("--stop \"\" stops before anything is generated; give a text".into());
    }
    Ok(())
}
