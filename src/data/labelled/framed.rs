//! Puts the special tokens of encoders around a text or a pair, cut to the context.

use crate::data::TextItem;
use crate::error::{Error, Result};
use crate::tokenizer::SpecialTokenLayout;

/// Returns one text or two with the special tokens around them, cut to `context` tokens.
pub(in crate::data) fn framed(
    mut first: Vec<i32>,
    second: Option<Vec<i32>>,
    context: usize,
    edges: Option<&SpecialTokenLayout>,
) -> Result<TextItem> {
    let (inputs, segments) = match (second, edges) {
        (Some(mut second), Some(edges)) => {
            shorten(
                &mut first,
                &mut second,
                context.saturating_sub(edges.len(true)),
            );
            let (inputs, segments) = edges.around_both(&first, &second);
            (inputs, Some(segments))
        }
        (None, Some(edges)) => {
            first.truncate(context.saturating_sub(edges.len(false)));
            (edges.around(&first), edges.segments(first.len()))
        }
        (Some(_), None) => {
            return Err(Error::run(
                "the tokenizer has no special tokens to put between two texts",
            ));
        }
        (None, None) => {
            first.truncate(context);
            (first, None)
        }
    };
    if inputs.is_empty() {
        return Err(Error::run("the text is empty"));
    }
    Ok(TextItem {
        inputs,
        segments,
        ..TextItem::default()
    })
}

/// Removes tokens from the end of the longer of two texts until both fit.
fn shorten(first: &mut Vec<i32>, second: &mut Vec<i32>, most: usize) {
    while first.len() + second.len() > most {
        if first.len() > second.len() {
            first.pop();
        } else {
            second.pop();
        }
    }
}
