//! Images with texts about them, as examples and side by side.

use super::{ImageBatch, ImageItem, TextBatch};
use crate::rng::mix;

/// An image and a text about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaptionedItem {
    /// The image, of no class.
    pub image: ImageItem,
    /// Token ids of the text, in the marks of its tokenizer; where it is to be written all but the last.
    pub caption: Vec<i32>,
    /// The token after each of them, where the text is to be written; else empty.
    pub targets: Vec<i32>,
    /// A number of the text, however much of it is read: equal ones are of one text.
    pub text: u64,
}

impl CaptionedItem {
    /// An image with a text in its marks, which is read whole, or is to be written token by token.
    pub fn new(image: ImageItem, marked: Vec<i32>, text: u64, written: bool) -> Self {
        let (caption, targets) = match (written, marked.split_last()) {
            (true, Some((_, read))) => (read.to_vec(), marked[1..].to_vec()),
            (true, None) | (false, _) => (marked, Vec::new()),
        };
        Self {
            image,
            caption,
            targets,
            text,
        }
    }

    /// The number of a text.
    pub fn number(text: &str) -> u64 {
        let bytes = text.bytes();
        bytes.fold(text.len() as u64, |number, byte| {
            mix(number ^ u64::from(byte))
        })
    }
}

/// Images and their captions, row by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaptionedBatch {
    /// The images, of no class.
    pub images: ImageBatch,
    /// The captions.
    pub captions: TextBatch,
    /// A number of each caption's text.
    pub texts: Vec<u64>,
}
