//! Weights of the losses that layers add when several parts of a pass share the tokens.

use super::Pass;

impl Pass {
    /// Does the work of a network on `own` of the `all` tokens that several calls in this pass read together. Losses that its
    /// layers add are weighted by that share, so that they are means over all tokens.
    pub fn with_token_share<T>(&self, own: usize, all: usize, work: impl FnOnce() -> T) -> T {
        let before = self.losses.borrow().len();
        let done = work();
        let share = own as f64 / all.max(1) as f64;
        for loss in &mut self.losses.borrow_mut()[before..] {
            loss.coefficient *= share;
        }
        done
    }
}
