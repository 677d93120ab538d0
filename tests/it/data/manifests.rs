//! Manifests and downloads: real files against their checksums, a folder, and a server whose connection is cut.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;

use super::{Folder, gzip, shared};
use formwork::data::SearchPath;
use formwork::data::catalog::manifest::Manifest;
use formwork::data::catalog::pull::{FileStatus, pull};
use formwork::data::files::packed;
use sha2::{Digest, Sha256};

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}

fn manifest(url: &str, sha256: &str, more: &str) -> Manifest {
    let text = format!(
        "name = \"x\"\ntitle = \"X\"\nformat = \"text\"\nrows = \"1\"\nlicence = \"MIT\"\nuse = \"tests\"\n\
         [[files]]\npath = \"sub/x.txt\"\n{url}\nsha256 = \"{sha256}\"\n{more}"
    );
    Manifest::parse(&text, Path::new("x.toml")).unwrap()
}

#[test]
fn the_development_copies_are_what_the_manifests_name() {
    if shared("tinyshakespeare").is_none() {
        return;
    }
    let places = SearchPath::new(None);
    let mut checked = 0;
    for manifest in Manifest::all().unwrap() {
        for file in &manifest.files {
            // The official CIFAR-10 archive is not among the development copies.
            if let Some(path) = manifest.locate(file, places.roots()) {
                file.verified_bytes(&path).unwrap();
                checked += 1;
            } else {
                assert_eq!(file.path, Path::new("cifar-10-binary.tar.gz"));
            }
        }
    }
    assert!(checked > 50, "{checked}");
}

#[test]
fn listops_answers_are_digits() {
    let Some(path) = shared("listops/test_d20s.tsv") else {
        return;
    };
    let text = String::from_utf8(packed::content(&path).unwrap()).unwrap();
    let answers: Vec<&str> = text
        .lines()
        .filter_map(|l| l.split_once('\t'))
        .map(|(a, _)| a)
        .collect();
    assert_eq!(answers.len(), 10_000);
    assert!(
        answers
            .iter()
            .all(|a| a.len() == 1 && a.as_bytes()[0].is_ascii_digit())
    );
}

#[test]
fn copies_from_a_folder_plain_or_gzipped() {
    let content = b"the content of a file".repeat(50);
    let x = manifest("url = \"https://example.invalid/x\"", &sum(&content), "");
    let places = [
        Folder::with(&[("sub/x.txt", &content)]),
        Folder::with(&[("x/sub/x.txt", &content)]),
        Folder::with(&[("x/sub/x.txt.gz", &gzip(&content))]),
    ];
    for from in &places {
        let to = Folder::new();
        let mut heard = 0;
        let outcome = pull(&x, Some(from.dir.path()), to.dir.path(), &mut |_, _| {
            heard += 1
        })
        .unwrap();
        assert_eq!((outcome, heard), (vec![FileStatus::Fetched], 1));
        assert_eq!(
            std::fs::read(to.dir.path().join("sub/x.txt")).unwrap(),
            content
        );
        assert_eq!(
            pull(&x, None, to.dir.path(), &mut |_, _| ()).unwrap(),
            [FileStatus::Present]
        );
    }
    let wrong = Folder::with(&[("sub/x.txt", b"something else")]);
    let to = Folder::new();
    let error = pull(&x, Some(wrong.dir.path()), to.dir.path(), &mut |_, _| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("sub/x.txt is not the file that the manifest names: its SHA-256 is "),
        "{error}"
    );
    assert!(!to.dir.path().join("sub/x.txt").exists());
    let made = manifest("made = \"by hand\"", &sum(&content), "");
    let outcome = pull(&made, None, to.dir.path(), &mut |_, _| ()).unwrap();
    assert_eq!(outcome, [FileStatus::NotOffered("by hand".into())]);
    assert!(
        Manifest::find("tinyshakespaere")
            .unwrap_err()
            .to_string()
            .contains("did you mean `tinyshakespeare`?")
    );
}

/// Starts a server that supports ranges and cuts its first answer after `cut` bytes. Returns its address.
fn server(content: Vec<u8>, cut: usize, ranges: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/x", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { return };
            let mut from = 0;
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let line = line.unwrap().to_lowercase();
                if let Some(range) = line.strip_prefix("range: bytes=").filter(|_| ranges) {
                    from = range.trim_end_matches('-').parse().unwrap();
                }
                if line.is_empty() {
                    break;
                }
            }
            let body = &content[from..];
            let status = if from > 0 {
                "206 Partial Content"
            } else {
                "200 OK"
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let body = if number == 0 {
                &body[..cut.min(body.len())]
            } else {
                body
            };
            let _ = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(body));
        }
    });
    address
}

#[test]
fn a_download_goes_on_where_it_stopped() {
    let content: Vec<u8> = (0..300_000u32).flat_map(|i| i.to_le_bytes()).collect();
    for ranges in [true, false] {
        let url = format!("url = {:?}", server(content.clone(), 500_000, ranges));
        let x = manifest(&url, &sum(&content), "");
        let to = Folder::new();
        let error = pull(&x, None, to.dir.path(), &mut |_, _| ())
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("cannot fetch http://127.0.0.1:"),
            "{error}"
        );
        let part = to.dir.path().join("sub/x.txt.part");
        assert_eq!(part.metadata().unwrap().len(), 500_000);
        assert_eq!(
            pull(&x, None, to.dir.path(), &mut |_, _| ()).unwrap(),
            [FileStatus::Fetched]
        );
        assert_eq!(
            std::fs::read(to.dir.path().join("sub/x.txt")).unwrap(),
            content
        );
        assert!(!part.exists());
    }
}

#[test]
fn a_download_is_cut_checked_and_refused() {
    let content = b"0123456789".to_vec();
    let url = format!("url = {:?}", server(content.clone(), 100, true));
    let to = Folder::new();
    let head = manifest(&url, &sum(b"0123"), "first_bytes = 4");
    assert_eq!(
        pull(&head, None, to.dir.path(), &mut |_, _| ()).unwrap(),
        [FileStatus::Fetched]
    );
    assert_eq!(
        std::fs::read(to.dir.path().join("sub/x.txt")).unwrap(),
        b"0123"
    );
    let to = Folder::new();
    let wrong = manifest(&url, &sum(b"other"), "");
    let error = pull(&wrong, None, to.dir.path(), &mut |_, _| ())
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("the download was removed"), "{error}");
    assert_eq!(
        std::fs::read_dir(to.dir.path().join("sub"))
            .unwrap()
            .count(),
        0
    );
}
