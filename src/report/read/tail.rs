//! Follows a file of lines that another process appends to. Each call delivers only the lines completed since the previous
//! call, so that a journal of any length is read once.
//!
//! A line without its newline is left for later. A resumed run truncates its journal and continues it; a run that starts
//! over replaces it. Both are detected if the file is shorter than what was read, or if the bytes before the current
//! position are not those that were read there. The file is then read again from its beginning.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use crate::files;

/// Maximum length of a line in bytes; longer lines are skipped.
const LONGEST: usize = 1 << 20;
/// Number of bytes per read.
const BLOCK: usize = 1 << 18;
/// Number of bytes before the current position that are compared.
const MARK_LENGTH: usize = 64;

/// A consumer of lines.
pub trait LineSink {
    /// Discards all lines so far: the file was replaced or truncated.
    fn restart(&mut self);
    /// Receives the next line, without its newline and never empty.
    fn line(&mut self, text: &str);
}

/// The reading position in a followed file.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    /// Number of bytes consumed.
    offset: u64,
    /// Last bytes before the current position.
    mark: Vec<u8>,
    /// Whether the current position is in the middle of a line that is too long.
    in_long_line: bool,
    /// Length and modification time of the file at the last read.
    seen: Option<(u64, SystemTime)>,
}

impl Tail {
    /// Delivers the new lines and returns whether the file changed. A missing file has no lines.
    ///
    /// # Errors
    /// If the file cannot be read, or is a link, a pipe or a device.
    pub fn read(&mut self, path: &Path, lines: &mut impl LineSink) -> io::Result<bool> {
        let about = match path.symlink_metadata() {
            Ok(about) => about,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let known = self.seen.is_some();
                if known {
                    *self = Self::default();
                    lines.restart();
                }
                return Ok(known);
            }
            Err(e) => return Err(e),
        };
        let seen = Some((about.len(), about.modified()?));
        if seen == self.seen {
            return Ok(false);
        }
        let mut file = files::open_regular_unlinked(path)?;
        let end = file.metadata()?.len();
        if end < self.offset || !self.is_mark_valid(&mut file)? {
            *self = Self::default();
            lines.restart();
        }
        self.new_lines(&mut file, end, lines)?;
        self.seen = seen;
        Ok(true)
    }

    fn is_mark_valid(&self, file: &mut File) -> io::Result<bool> {
        let mut found = vec![0; self.mark.len()];
        file.seek(SeekFrom::Start(self.offset - self.mark.len() as u64))?;
        match file.read_exact(&mut found) {
            Ok(()) => Ok(found == self.mark),
            Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn new_lines(
        &mut self,
        file: &mut File,
        end: u64,
        lines: &mut impl LineSink,
    ) -> io::Result<()> {
        file.seek(SeekFrom::Start(self.offset))?;
        let mut open: Vec<u8> = Vec::new();
        let mut left = end - self.offset;
        let mut block = vec![0; BLOCK];
        while left > 0 {
            let want = block.len().min(usize::try_from(left).unwrap_or(BLOCK));
            let got = file.read(&mut block[..want])?;
            if got == 0 {
                break;
            }
            left -= got as u64;
            open.extend_from_slice(&block[..got]);
            let mut from = 0;
            while let Some(length) = open[from..].iter().position(|byte| *byte == b'\n') {
                let line = &open[from..from + length];
                if !std::mem::take(&mut self.in_long_line) && length <= LONGEST {
                    let text = String::from_utf8_lossy(line);
                    match text.trim() {
                        "" => {}
                        text => lines.line(text),
                    }
                }
                from += length + 1;
            }
            self.advance(&open[..from]);
            open.drain(..from);
            if open.len() > LONGEST {
                self.in_long_line = true;
                self.advance(&std::mem::take(&mut open));
            }
        }
        Ok(())
    }

    /// Moves the position past these bytes.
    fn advance(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        self.mark
            .extend_from_slice(&bytes[bytes.len().saturating_sub(MARK_LENGTH)..]);
        let more = self.mark.len().saturating_sub(MARK_LENGTH);
        self.mark.drain(..more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    #[derive(Default)]
    struct Kept(Vec<String>, usize);

    impl LineSink for Kept {
        fn restart(&mut self) {
            self.0.clear();
            self.1 += 1;
        }
        fn line(&mut self, text: &str) {
            self.0.push(text.to_string());
        }
    }

    fn append(path: &Path, text: &str) {
        let mut file = fs::OpenOptions::new();
        let mut file = file.append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn lines_come_once_and_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut tail, mut kept) = (Tail::default(), Kept::default());
        assert!(!tail.read(&path, &mut kept).unwrap());
        append(&path, "one\n\ntw");
        assert!(tail.read(&path, &mut kept).unwrap());
        assert_eq!(kept.0, ["one"]);
        assert!(!tail.read(&path, &mut kept).unwrap());
        append(&path, "o\nthree\n");
        tail.read(&path, &mut kept).unwrap();
        assert_eq!((kept.0.join(" "), kept.1), ("one two three".into(), 0));

        // A line that is too long is skipped, even if it spans several reads.
        append(&path, &"x".repeat(LONGEST + 2));
        tail.read(&path, &mut kept).unwrap();
        append(&path, "xx\nfour\n");
        tail.read(&path, &mut kept).unwrap();
        assert_eq!(kept.0.join(" "), "one two three four");
        fs::remove_file(&path).unwrap();
        assert!(tail.read(&path, &mut kept).unwrap());
        assert!(kept.0.is_empty());
    }

    #[test]
    fn a_file_that_was_cut_and_grew_again_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut tail, mut kept) = (Tail::default(), Kept::default());
        append(&path, "one\ntwo\nthree\n");
        tail.read(&path, &mut kept).unwrap();
        fs::write(&path, "one\ndos\ntres\ncuatro\n").unwrap();
        tail.read(&path, &mut kept).unwrap();
        assert_eq!(
            (kept.0.join(" "), kept.1),
            ("one dos tres cuatro".into(), 1)
        );
        fs::write(&path, "one\n").unwrap();
        tail.read(&path, &mut kept).unwrap();
        assert_eq!((kept.0.join(" "), kept.1), ("one".into(), 2));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_or_a_pipe_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (secret, link) = (folder.path().join("secret"), folder.path().join("link"));
        fs::write(&secret, "secret\n").unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        let mut kept = Kept::default();
        assert!(Tail::default().read(&link, &mut kept).is_err());
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(Tail::default().read(&pipe, &mut kept).is_err());
        assert!(kept.0.is_empty());
    }
}
