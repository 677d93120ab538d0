//! Checks of the documentation: commands can be parsed, named experiments and pages exist, every page is in the book's table of
//! contents.

use serde_json::json;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads README.md and the pages of docs/.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let mut paths: Vec<PathBuf> = docs.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "md"));
    paths.push(root().join("README.md"));
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the lines of a page between fences without a language.
fn shown(text: &str) -> Vec<&str> {
    let (mut inside, mut plain, mut lines) = (false, false, Vec::new());
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            inside = !inside;
            plain = inside && language.is_empty();
        } else if plain {
            lines.push(line);
        }
    }
    lines
}

/// Returns the commands of a line: without its comment, split at pipes and separators.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![vec![]];
    let mut word: Option<String> = None;
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '#' if !quoted && word.is_none() => break,
            '|' | '&' | '>' if !quoted && word.is_none() => all.push(vec![]),
            ' ' if !quoted => {
                let last = all.len() - 1;
                all[last].extend(word.take());
            }
            _ => word.get_or_insert_default().push(c),
        }
    }
    let last = all.len() - 1;
    all[last].extend(word);
    all
}

/// Returns the words of a call of `formwork` in a command, from its name on.
fn ours(words: &[String]) -> Option<&[String]> {
    let at = words.iter().position(|word| word == "formwork");
    let cargo = words.starts_with(&["cargo".into(), "run".into()]);
    let at = match (at, cargo) {
        (Some(at), _) => at,
        (None, true) => words.iter().position(|word| word == "--")?,
        (None, false) => return None,
    };
    Some(&words[at..])
}

#[test]
fn every_command_is_one() {
    let mut count = 0;
    for (path, text) in pages() {
        for line in shown(&text) {
            for words in commands(line) {
                let Some(words) = ours(&words) else { continue };
                // An ellipsis stands for omitted words.
                if words.iter().any(|word| word == "…") {
                    continue;
                }
                match formwork::cli::check_words(words) {
                    Ok(()) => {}
                    // A device that this build lacks.
                    Err(why) if why.contains("is not in this binary") => {}
                    Err(why) => panic!("{}: {line}\n{why}", path.display()),
                }
                count += 1;
            }
        }
    }
    assert!(count > 60, "{count} commands");
}

#[test]
fn every_experiment_and_page_is_there() {
    let mut found = 0;
    for (path, text) in pages() {
        for part in text.split(['`', ' ', '\n', '(', ')', ',']) {
            let part = part.split('#').next().unwrap();
            let place = match part {
                p if p.starts_with("experiments/") && p.ends_with(".toml") => root().join(p),
                p if p.ends_with(".md") && !p.contains("://") => path.parent().unwrap().join(p),
                p if p.starts_with("tests/") || p.starts_with("benches/") => root().join(p),
                _ => continue,
            };
            if part.contains(['*', 'N', 'F']) && !place.exists() && !part.ends_with(".md") {
                continue;
            }
            // A file that a report writes is named, too.
            if part == "table.md" {
                continue;
            }
            assert!(place.exists(), "{} names {part}", path.display());
            found += 1;
        }
    }
    assert!(found > 60, "{found} names");
}

#[test]
fn every_page_stands_in_the_contents() {
    let contents = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for (path, _) in pages() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let listed = contents.contains(&format!("({name})"));
        assert!(
            listed || name == "SUMMARY.md",
            "docs/SUMMARY.md lacks {name}"
        );
    }
}

/// Returns the anchor of a heading, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    let text: String = heading.trim().to_lowercase().chars().filter(kept).collect();
    text.replace(' ', "-")
}

fn anchors(text: &str) -> Vec<String> {
    let (mut inside, mut found) = (false, Vec::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if !inside && line.starts_with('#') {
            found.push(anchor(line.trim_start_matches('#')));
        }
    }
    found
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let mut found = 0;
    for (path, text) in pages() {
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.contains("://") {
                continue;
            }
            let (page, heading) = link.split_once('#').unwrap_or((link, ""));
            let place = match page {
                "" => path.clone(),
                page => path.parent().unwrap().join(page),
            };
            assert!(place.exists(), "{} links to {link}", path.display());
            if !heading.is_empty() {
                let known = anchors(&std::fs::read_to_string(&place).unwrap());
                let is_there = known.iter().any(|one| one == heading);
                assert!(is_there, "{} links to {link}: {known:?}", path.display());
            }
            found += 1;
        }
    }
    assert!(found > 40, "{found} links");
}

/// The two files of docs/first_run.md, one extending the other, resolve to what the page shows.
#[test]
fn one_file_over_another_comes_out_as_the_page_says() {
    let page = std::fs::read_to_string(root().join("docs/first_run.md")).unwrap();
    let (_, section) = page.split_once("## One file over another").unwrap();
    let blocks = section.split("```toml\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in ["narrow.toml", "wide.toml"].into_iter().zip(blocks) {
        assert!(text.lines().next().unwrap().ends_with(name), "{text}");
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let wide = folder.path().join("wide.toml").display().to_string();
    let resolved = crate::binary::output(&["check", &wide, "--keys-only"]);
    let resolved: toml::Table = toml::from_str(&resolved).unwrap();
    let resolved = serde_json::to_value(resolved).unwrap();
    for (key, value) in [
        ("/name", json!("wide")),
        ("/model/n_layers", json!(4)),
        ("/model/d_model", json!(128)),
        ("/model/norm/kind", json!("rms")),
        ("/model/norm/eps", json!(1e-5)),
        ("/model/position/kind", json!("alibi")),
        ("/model/position/theta", json!(null)),
        ("/model/feed_forward/kind", json!("gated")),
        ("/model/feed_forward/d_ff", json!(512)),
        ("/optimizer/lr", json!(1e-3)),
        ("/optimizer/betas", json!([0.9, 0.99])),
        ("/train/epochs", json!(2.0)),
        ("/train/steps", json!(null)),
        ("/train/batch_size", json!(8)),
    ] {
        let found = resolved.pointer(key).cloned().unwrap_or_default();
        assert_eq!(found, value, "{key}");
    }
}
