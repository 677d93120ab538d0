//! Panics of a library that reads damaged bytes, as errors.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is about to become an error, and is not printed.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// The result of `read`; where it panics, an error that says why.
pub(in crate::data) fn panics<T>(read: impl FnOnce() -> T) -> Result<T, String> {
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
