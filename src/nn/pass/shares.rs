//! Losses that layers add in a part of a pass.

use super::Pass;

impl Pass {
    /// Does the work of a network on so many of the tokens that several works of this pass read together: losses that its layers add
    /// count by their share of these, so that they are means over all of them.
    pub fn of_tokens<T>(&self, own: usize, all: usize, work: impl FnOnce() -> T) -> T {
        let before = self.losses.borrow().len();
        let done = work();
        let share = own as f64 / all.max(1) as f64;
        for loss in &mut self.losses.borrow_mut()[before..] {
            loss.coefficient *= share;
        }
        done
    }
}
