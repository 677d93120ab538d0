//! Images with texts about them, as single examples and as batches.

use super::{ImageBatch, ImageItem, TextBatch};
use crate::rng::mix;

/// An image and a text about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaptionedItem {
    /// The image, without a class.
    pub image: ImageItem,
    /// Token ids of the text with its special tokens; all but the last if the text is to be generated.
    pub caption: Vec<i32>,
    /// Next token after each position of `caption`, if the text is to be generated; otherwise empty.
    pub targets: Vec<i32>,
    /// Hash of the whole text, however much of it is read: equal values mean the same text.
    pub text: u64,
}

impl CaptionedItem {
    /// Builds an example from an image and the ids of its text, special tokens included. If `written`, the
    /// text is split into inputs and next-token targets; otherwise it is read whole.
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

    /// Returns the hash of a text.
    pub fn hash_text(text: &str) -> u64 {
        let bytes = text.bytes();
        bytes.fold(text.len() as u64, |number, byte| {
            mix(number ^ u64::from(byte))
        })
    }
}

/// Images and their captions, one per row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaptionedBatch {
    /// The images, without classes.
    pub images: ImageBatch,
    /// The captions.
    pub captions: TextBatch,
    /// Hash of each caption's text.
    pub texts: Vec<u64>,
}
