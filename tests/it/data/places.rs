//! The places where a path of an experiment is looked for.

use std::path::{Path, PathBuf};

use super::Folder;
use formwork::data::SearchPath;

#[test]
fn the_first_place_wins_and_gz_may_be_left_out() {
    let folder = Folder::with(&[
        ("experiment/set/a.txt", b"experiment"),
        ("first/set/a.txt", b"first"),
        ("first/set/b.txt.gz", b"first"),
        ("second/set/b.txt", b"second"),
        ("second/set/c.txt", b"second"),
        ("second/whole/d.txt", b"second"),
    ]);
    let root = folder.dir.path();
    let places = SearchPath::with_folders(
        Some(&root.join("experiment")),
        vec![root.join("first"), root.join("second")],
        root.join("cache"),
    );
    for (path, expected) in [
        ("set/a.txt", "experiment/set/a.txt"),
        // The earlier place wins, whether its file is plain or gzipped.
        ("set/b.txt", "first/set/b.txt.gz"),
        ("set/c.txt.gz", "second/set/c.txt"),
        ("whole", "second/whole"),
    ] {
        let found = places.resolve(Path::new(path)).unwrap();
        assert_eq!(found, root.join(expected), "{path}");
    }
    let absolute = root.join("second/set/b.txt");
    assert_eq!(places.resolve(&absolute).unwrap(), absolute);
    assert!(places.resolve(Path::new("set/none.txt")).is_err());
}

#[test]
fn the_environment_comes_before_the_working_folder() {
    let roots = SearchPath::new(None).roots().to_vec();
    assert_eq!(
        roots[roots.len() - 2..],
        [PathBuf::from("datasets/data"), "datasets".into()]
    );
}
