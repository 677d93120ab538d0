//! The HTML page: escaping, self-contained files, reproducible bytes.

use super::{Fixture, compared, page, pre_and_post};
use formwork::cli::compare::view;
use formwork::error::Error;
use formwork::report::render::html;
use std::fs;

#[test]
fn hostile_names_stay_text() {
    let root = tempfile::tempdir().unwrap();
    let evil = "<img src=x onerror=alert(1)>\"'&</script>";
    let mut one = Fixture::new(
        "one",
        1,
        &format!("[model]\nkind = {}", toml::Value::String(evil.into())),
        &[(200, 1.0)],
    );
    let two = Fixture::new(
        "two",
        1,
        "[model]\nkind = \"plain\"",
        &[(100, 1.5), (200, 1.25)],
    )
    .write(root.path());
    let folder = one.write(root.path());
    one.name = format!("{evil}\u{1b}[2J");
    let resolved = fs::read_to_string(folder.join("resolved.toml")).unwrap();
    let named = resolved.replacen(
        "name = \"one\"",
        &format!("name = {}", toml::Value::String(one.name.clone())),
        1,
    );
    fs::write(folder.join("resolved.toml"), named).unwrap();
    let sample = serde_json::json!({"step": 200, "text": evil});
    fs::write(folder.join("samples.jsonl"), format!("{sample}\n")).unwrap();
    let c = compared(&[folder, two]);
    let page = page(&c);
    assert!(
        !page.contains("<img"),
        "markup from a name reached the page"
    );
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;&amp;&lt;/script&gt;"));
    assert_eq!(page.matches("</script>").count(), 2);
    assert!(!page.contains('\u{1b}'));
    assert!(!view(&c, true, None).contains('\u{1b}'));
}

#[test]
fn the_page_is_written_whole_and_the_same_each_time() {
    let root = tempfile::tempdir().unwrap();
    let c = compared(&pre_and_post(root.path()));
    let pages = tempfile::tempdir().unwrap();
    let file = pages.path().join("page.html");
    html::write(&c, &file).unwrap();
    let first = fs::read(&file).unwrap();
    html::write(&compared(&pre_and_post(root.path())), &file).unwrap();
    assert_eq!(first, fs::read(&file).unwrap());
    assert_eq!(
        fs::read_dir(pages.path()).unwrap().count(),
        1,
        "a partial file was left"
    );
    let missing = html::write(&c, &pages.path().join("no/such/page.html")).unwrap_err();
    assert_eq!(missing.exit_status(), 1);
    assert!(matches!(
        html::write(&c, pages.path()),
        Err(Error::Invalid(_))
    ));
}
