//! Generators: data made from a seed, without files. Problems with one right answer, translations, stories,
//! drawn shapes, and noise of any shape for measuring speed.

pub mod arithmetic;
pub mod captioned_shapes;
mod classified;
pub mod copy;
pub mod dates;
mod described;
pub mod dialled_digits;
pub mod grammar;
pub mod held_out;
mod invented;
pub mod listops;
pub mod number_words;
pub mod pathfinder;
pub mod people;
pub mod phrases;
pub mod problems;
pub mod random_images;
pub mod random_pairs;
pub mod random_tokens;
pub mod reverse;
pub mod right_and_wrong;
pub mod shapes;
pub mod sort;
pub(super) mod story;
pub mod strings;
pub mod themes;
