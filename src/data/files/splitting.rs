//! Splits the content of a plain file into documents while it is read. Only one document is in memory at a
//! time, or a part of it if the file is one document.

use std::io::{self, BufRead, Read};

use super::documents::Beginnings;

/// A document or a part of one, with the byte offset at which it begins in the content.
pub(super) struct Piece {
    pub(super) bytes: Vec<u8>,
    pub(super) at: u64,
    /// Whether the document ends with this piece.
    pub(super) ends: bool,
}

impl Piece {
    fn whole(bytes: Vec<u8>, at: u64) -> Self {
        let ends = true;
        Self { bytes, at, ends }
    }
}

/// Size in bytes of the parts in which a file that is one document is read.
const PART: u64 = 16 << 20;

/// Where content is split.
pub(super) enum Delimiting<'a> {
    /// At line feeds, which are left out.
    Lines,
    /// At separators, which are left out.
    Separator(&'a [u8]),
    /// Before lines that begin a document.
    Beginnings(Beginnings),
}

/// Calls `each` for every piece; pieces may be empty.
pub(super) fn pieces<E: From<io::Error>>(
    content: &mut dyn BufRead,
    cut: &Delimiting<'_>,
    mut each: impl FnMut(Piece) -> Result<(), E>,
) -> Result<(), E> {
    skip_bom(content)?;
    let mut at = 0;
    match cut {
        Delimiting::Lines => loop {
            let mut bytes = Vec::new();
            let read = content.read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(());
            }
            if bytes.last() == Some(&b'\n') {
                bytes.pop();
            }
            each(Piece::whole(bytes, at))?;
            at += read as u64;
        },
        Delimiting::Separator(mark) => separated(content, mark, at, each),
        Delimiting::Beginnings(Beginnings::BlankLines) => {
            paragraphs(content, at, |_, before, _| before, each)
        }
        Delimiting::Beginnings(Beginnings::Wikitext) => {
            let begins = |line: &[u8], before, after| before && after && is_title(line);
            paragraphs(content, at, begins, each)
        }
        Delimiting::Beginnings(Beginnings::Files) => in_parts(content, PART, each),
    }
}

/// Reads one document in parts that end between characters.
fn in_parts<E: From<io::Error>>(
    content: &mut dyn BufRead,
    part: u64,
    mut each: impl FnMut(Piece) -> Result<(), E>,
) -> Result<(), E> {
    let (mut at, mut bytes) = (0, Vec::new());
    loop {
        let carried = bytes.len() as u64;
        let read = (&mut *content).take(part).read_to_end(&mut bytes)? as u64;
        if read < part {
            return each(Piece::whole(bytes, at));
        }
        let rest = bytes.split_off(bytes.len() - incomplete_char_len(&bytes));
        let length = bytes.len() as u64;
        debug_assert_eq!(length + rest.len() as u64, carried + read);
        let ends = false;
        each(Piece { bytes, at, ends })?;
        at += length;
        bytes = rest;
    }
}

/// Returns the number of bytes at the end that are an incomplete UTF-8 character.
fn incomplete_char_len(bytes: &[u8]) -> usize {
    let mut last = bytes.iter().rev().take(4);
    let Some(back) = last.position(|b| b & 0xC0 != 0x80) else {
        return 0;
    };
    let length = match bytes[bytes.len() - 1 - back] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if back + 1 < length { back + 1 } else { 0 }
}

/// Skips a byte-order mark.
fn skip_bom(content: &mut dyn BufRead) -> io::Result<()> {
    const MARK: &[u8] = b"\xEF\xBB\xBF";
    // A buffered reader has three bytes available if the content has them.
    if content.fill_buf()?.starts_with(MARK) {
        content.consume(MARK.len());
    }
    Ok(())
}

fn separated<E: From<io::Error>>(
    content: &mut dyn BufRead,
    mark: &[u8],
    mut at: u64,
    mut each: impl FnMut(Piece) -> Result<(), E>,
) -> Result<(), E> {
    let Some(last) = mark.last() else {
        return Ok(());
    };
    let mut bytes = Vec::new();
    loop {
        // A separator can only end at its last byte.
        let read = content.read_until(*last, &mut bytes)?;
        if read == 0 {
            return each(Piece::whole(bytes, at));
        }
        if bytes.ends_with(mark) {
            let length = bytes.len() as u64;
            bytes.truncate(bytes.len() - mark.len());
            each(Piece::whole(std::mem::take(&mut bytes), at))?;
            at += length;
        }
    }
}

/// Splits before each line for which `begins` is true; it is given the line, and whether the lines before and
/// after it are blank. Blank lines alone are not a document.
fn paragraphs<E: From<io::Error>>(
    content: &mut dyn BufRead,
    mut at: u64,
    begins: impl Fn(&[u8], bool, bool) -> bool,
    mut each: impl FnMut(Piece) -> Result<(), E>,
) -> Result<(), E> {
    let mut next = || -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = content.read_until(b'\n', &mut line)?;
        Ok((read > 0).then_some(line))
    };
    let mut document = Vec::new();
    let mut text = false;
    let mut before = true;
    let mut line = next()?;
    while let Some(this) = line {
        line = next()?;
        let after = line.as_deref().is_none_or(is_blank);
        if text && begins(&this, before, after) {
            let length = document.len() as u64;
            each(Piece::whole(std::mem::take(&mut document), at))?;
            at += length;
            text = false;
        }
        before = is_blank(&this);
        text |= !before;
        document.extend_from_slice(&this);
    }
    match text {
        true => each(Piece::whole(document, at)),
        false => Ok(()),
    }
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

/// Whether a line is ` = Title = `, with one `=` on each side.
fn is_title(line: &[u8]) -> bool {
    let inside = line
        .trim_ascii()
        .strip_prefix(b"= ")
        .and_then(|l| l.strip_suffix(b" ="));
    inside.is_some_and(|title| !title.starts_with(b"=") && !title.ends_with(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_end_between_characters_and_are_the_whole() {
        let text = "aé狐🦊b".repeat(50);
        for part in [1, 2, 3, 5, 7, 64, 10_000] {
            let (mut joined, mut ended) = (Vec::new(), 0);
            let mut content = text.as_bytes();
            in_parts(&mut content, part, |piece| -> Result<(), io::Error> {
                assert!(std::str::from_utf8(&piece.bytes).is_ok(), "{part}");
                assert_eq!(piece.at as usize, joined.len());
                joined.extend(piece.bytes);
                ended += usize::from(piece.ends);
                Ok(())
            })
            .unwrap();
            assert_eq!((joined, ended), (text.clone().into_bytes(), 1), "{part}");
        }
        assert_eq!(incomplete_char_len(b"\x80\x80\x80\x80\x80"), 0);
        assert_eq!(incomplete_char_len(b""), 0);
    }
}
