//! Downloads a data set from its original URLs, or copies it from a folder.
//!
//! A download is written to `FILE.part`, continues where an earlier one stopped, is checked against the
//! manifest's SHA-256 and then renamed. A file under its final name is therefore complete and correct.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::manifest::{FileEntry, Manifest};
use crate::data::files::packed::existing_variant;
use crate::error::{Error, Result};
use crate::files;

/// The result of fetching a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileStatus {
    /// The file already existed and is correct.
    Present,
    /// The file has been fetched.
    Fetched,
    /// The file has no URL; the text says how it is made.
    NotOffered(String),
}

/// Fetches every file of `manifest` into `folder`, from the folder `from` if given, otherwise over the
/// network. `report` is called for each file when it is done, and with the number of bytes downloaded so far.
///
/// # Errors
/// At the first file that cannot be fetched or whose checksum is wrong. Files that were already fetched are
/// kept.
pub fn pull(
    manifest: &Manifest,
    from: Option<&Path>,
    folder: &Path,
    report: &mut dyn FnMut(&FileEntry, Event),
) -> Result<Vec<FileStatus>> {
    manifest
        .files
        .iter()
        .map(|file| {
            let outcome = pull_file(manifest, file, from, folder, report)?;
            report(file, Event::Done(&outcome));
            Ok(outcome)
        })
        .collect()
}

/// Progress of [`pull`].
pub enum Event<'a> {
    /// Number of bytes downloaded so far.
    Progress(u64),
    /// The file is done.
    Done(&'a FileStatus),
}

fn pull_file(
    manifest: &Manifest,
    file: &FileEntry,
    from: Option<&Path>,
    folder: &Path,
    report: &mut dyn FnMut(&FileEntry, Event),
) -> Result<FileStatus> {
    let target = folder.join(&file.path);
    if target.is_file() && file.verified_bytes(&target).is_ok() {
        return Ok(FileStatus::Present);
    }
    if let Some(parent) = target.parent() {
        std::fs::create_dir_all(parent).map_err(Error::io("create", parent))?;
    }
    let part = partial_path(&target);
    match (from, &file.url) {
        (Some(from), _) => {
            let Some(source) = find_copy(manifest, file, from) else {
                if let Some(made) = &file.made {
                    return Ok(FileStatus::NotOffered(made.clone()));
                }
                return Err(Error::usage(format!(
                    "{} has neither {} nor {}/{} (plain or gzipped)",
                    from.display(),
                    file.path.display(),
                    manifest.name,
                    file.path.display()
                )));
            };
            let bytes = file.verified_bytes(&source)?;
            files::write(&target, &bytes)?;
            // Left over from an interrupted download.
            files::delete(&part)?;
        }
        (None, Some(url)) => {
            download(url, file, &part, report)?;
            if let Err(wrong) = file.verified_bytes(&part) {
                std::fs::remove_file(&part).map_err(Error::io("remove", &part))?;
                return Err(Error::run(format!(
                    "{url}: {wrong}; the download was removed"
                )));
            }
            files::place(&part, &target)?;
        }
        (None, None) => {
            return Ok(FileStatus::NotOffered(
                file.made.clone().unwrap_or_default(),
            ));
        }
    }
    Ok(FileStatus::Fetched)
}

fn partial_path(target: &Path) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

/// Finds the copy of a file in a folder that is either the data set's folder or the parent of such folders.
fn find_copy(manifest: &Manifest, file: &FileEntry, from: &Path) -> Option<PathBuf> {
    existing_variant(&from.join(&file.path))
        .or_else(|| existing_variant(&from.join(&manifest.name).join(&file.path)))
}

fn download(
    url: &str,
    file: &FileEntry,
    part: &Path,
    report: &mut dyn FnMut(&FileEntry, Event),
) -> Result<()> {
    let failed = |why: String| {
        Error::run(format!(
            "cannot fetch {url}: {why}; try again to continue, or use --from with a folder that contains the file"
        ))
    };
    let limit = file.first_bytes.unwrap_or(u64::MAX);
    let had = part.metadata().map_or(0, |m| m.len()).min(limit);
    if had == limit {
        return Ok(());
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_connect(Some(Duration::from_secs(30)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .http_status_as_error(false)
        .build()
        .into();
    // A byte range of a compressed response would not match the file.
    let mut request = agent.get(url).header("Accept-Encoding", "identity");
    if had > 0 {
        request = request.header("Range", format!("bytes={had}-"));
    }
    let response = request.call().map_err(|e| failed(e.to_string()))?;
    let status = response.status().as_u16();
    // A server may ignore ranges and send the whole file, or answer that the partial file is already
    // complete.
    let (from, mut target) = match status {
        206 => (had, OpenOptions::new().append(true).open(part)),
        200 => (0, File::create(part)),
        416 => return Ok(()),
        _ => return Err(failed(format!("the server returned status {status}"))),
    };
    let target = target.as_mut().map_err(|e| failed(e.to_string()))?;
    let mut body = response.into_body().into_reader().take(limit - from);
    let mut block = vec![0; 1 << 16];
    let mut done = from;
    loop {
        let n = body.read(&mut block).map_err(|e| failed(e.to_string()))?;
        if n == 0 {
            return target.sync_all().map_err(Error::io("write", part));
        }
        target
            .write_all(&block[..n])
            .map_err(Error::io("write", part))?;
        done += n as u64;
        report(file, Event::Progress(done));
    }
}
