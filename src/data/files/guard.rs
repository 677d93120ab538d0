//! Turns panics of a library that decodes damaged bytes into errors.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread will be turned into an error and must not be printed.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `read`, or an error with the message of its panic.
pub(in crate::data) fn catch_panic<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !CAUGHT.get() {
                before(info);
            }
        }));
    });
    CAUGHT.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(read));
    CAUGHT.set(false);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        format!("damaged ({})", text.unwrap_or("it cannot be decoded"))
    })
}
