//! Tests of files under interruption, leftovers, locks, and paths that are not files.

use super::*;

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_is_as_it_was_until_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    write(&path, b"old").unwrap();
    let mut part = PartialFile::beside(&path).unwrap();
    part.write_all(b"half").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(names(folder.path()).len(), 2);
    drop(part);
    write(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(names(folder.path()), ["a.json"]);
    // The target is a folder, so the rename fails.
    let taken = folder.path().join("taken");
    fs::create_dir_all(taken.join("inside")).unwrap();
    let error = write(&taken, b"new").unwrap_err().to_string();
    assert!(error.starts_with("cannot write "), "{error}");
    assert!(error.contains("taken: "), "{error}");
    assert_eq!(names(folder.path()), ["a.json", "taken"]);
}

#[test]
fn names_are_drawn_and_known_again() {
    let target = Path::new("run/a.b.json");
    let drawn: Vec<PathBuf> = (0..100).map(|_| random_sibling(target)).collect();
    for (i, path) in drawn.iter().enumerate() {
        assert!(!drawn[..i].contains(path));
        assert_eq!(path.parent(), Some(Path::new("run")));
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(target_of(name), Some("a.b.json"), "{name}");
    }
    for (name, target) in [
        ("latest.tmp", Some("latest")),
        ("a.json.tmp", Some("a.json")),
        ("a.0123456789abcde.tmp", Some("a.0123456789abcde")),
        ("a.json", None),
        ("0123456789abcdef", None),
    ] {
        assert_eq!(target_of(name), target, "{name}");
    }
}

#[test]
fn leftovers_of_known_files_are_deleted_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let left = ["a.0123456789abcdef.tmp", "a.tmp"];
    let kept = ["a", "b.0123456789abcdef.tmp", "b.tmp"];
    for name in left.iter().chain(&kept) {
        fs::write(folder.path().join(name), "").unwrap();
    }
    delete_leftovers(folder.path(), |file| file == "a").unwrap();
    assert_eq!(names(folder.path()), kept);
}

#[test]
fn a_lock_is_waited_for_only_so_long() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.lock");
    let held = open_lock(&path).unwrap();
    lock_within(&held, Duration::ZERO).unwrap();
    let other = open_lock(&path).unwrap();
    let patience = Duration::from_millis(50);
    let refused = lock_within(&other, patience);
    assert!(matches!(refused, Err(TryLockError::WouldBlock)));
    drop(held);
    lock_within(&other, patience).unwrap();
}

#[cfg(unix)]
#[test]
fn a_result_in_memory_is_replaced_and_not_appended_to() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return;
    }
    let Ok(folder) = tempfile::tempdir_in(shm) else {
        return;
    };
    let path = folder.path().join("result.json");
    write_result(&path, b"the first, longer").unwrap();
    write_result(&path, b"second").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"second");
    for open in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        assert!(is_open_file(Path::new(open)), "{open}");
    }
}

#[cfg(unix)]
#[test]
fn what_has_no_end_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    for (path, kind) in [
        (folder.path(), "a folder"),
        (&socket, "a socket"),
        (&link, "a device"),
        (Path::new("/dev/zero"), "a device"),
    ] {
        let error = read(path).unwrap_err();
        assert_eq!(error.exit_status(), 2);
        assert!(error.to_string().contains(kind), "{error}");
    }
    let missing = folder.path().join("missing");
    assert!(read(&missing).unwrap_err().to_string().contains("missing"));
}
