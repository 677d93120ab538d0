//! Tests of caches that change while they are read, and of several processes that make one.

use super::*;
use std::io::{Seek, SeekFrom, Write};

fn cache(folder: &Path) -> PathBuf {
    let path = folder.join("a.tokens");
    let mut writer = Writer::new(&path, 1000).unwrap();
    writer.document(&[1, 2, 3], 3).unwrap();
    writer
        .document(&(0..900).collect::<Vec<u32>>(), 900)
        .unwrap();
    writer.finish().unwrap();
    path
}

/// Changes the same file, which is neither replaced nor made again.
fn in_place(path: &Path, change: impl FnOnce(&mut File)) {
    // Clocks of file systems tick in milliseconds.
    std::thread::sleep(Duration::from_millis(30));
    change(&mut File::options().write(true).open(path).unwrap());
}

#[test]
fn a_cache_that_changes_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = cache(folder.path());
    let tokens = TokenCache::open(&path).unwrap();
    assert_eq!(tokens.window(1, 4).unwrap(), [2, 3, 0, 1]);
    assert_eq!((tokens.span(1), tokens.document(3)), (3..903, 1));
    // Replaced by another file: the open one stays readable.
    let bytes = std::fs::read(&path).unwrap();
    files::write(&path, b"another").unwrap();
    assert_eq!(tokens.window(900, 3).unwrap(), [897, 898, 899]);
    std::fs::write(&path, bytes).unwrap();
    let tokens = TokenCache::open(&path).unwrap();
    // Only its modification time changes.
    in_place(&path, |file| file.set_modified(SystemTime::now()).unwrap());
    assert_eq!(tokens.window(0, 2).unwrap(), [1, 2]);
    in_place(&path, |file| {
        file.seek(SeekFrom::Start(HEADER as u64)).unwrap();
        file.write_all(&[9, 0]).unwrap();
    });
    let error = tokens.window(100, 2).unwrap_err().to_string();
    assert!(error.contains("changed by another process"), "{error}");
    in_place(&path, |file| file.set_len(100).unwrap());
    let error = tokens.window(800, 2).unwrap_err().to_string();
    assert!(error.contains("changed by another process"), "{error}");
}

#[test]
fn one_of_several_makes_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tokens");
    let made = std::sync::atomic::AtomicUsize::new(0);
    let make = || {
        made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(50));
        cache(folder.path());
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| TokenCache::open_or_make(&path, 1000, make).unwrap());
        }
    });
    assert_eq!(made.into_inner(), 1);
    // A cache with ids that the vocabulary lacks is not used.
    let mut again = false;
    let made = TokenCache::open_or_make(&path, 100, || {
        again = true;
        Ok(())
    });
    assert!(made.is_ok() && again);
}
