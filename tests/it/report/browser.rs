//! The page in a real headless browser: sorting, hovering, switching arms, themes, a phone's width; no error on the console, no
//! request.
//!
//! Needs only an executable of Chromium or Chrome, and is skipped if there is none. A script added to the page acts as a reader
//! would and writes its observations into the document, which the browser prints.

use super::sweeps::{compared, study};
use formwork::report::render::figure::{FigureOptions, figures};
use formwork::report::render::html;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs before the page's own scripts and records every error.
const WATCH: &str = r#"<script>
window.wrong = [];
window.addEventListener("error", (e) => wrong.push(String(e.message)));
window.addEventListener("unhandledrejection", (e) => wrong.push(String(e.reason)));
document.addEventListener("securitypolicyviolation", (e) => wrong.push(`${e.violatedDirective} ${e.blockedURI}`));
for (const level of ["error", "warn"]) console[level] = (...said) => wrong.push(said.join(" "));
</script>"#;

/// The script that acts as a reader and records its observations.
const PROBE: &str = r##"<script>
(async () => {
  const seen = {};
  const pause = () => new Promise((done) => setTimeout(done, 30));
  const all = (what) => [...document.querySelectorAll(what)];
  const arms = () => all("table")[0].tBodies[0].rows;
  const header = (title) => all("table thead th").find((th) => th.textContent === title);
  const column = (title) => [...arms()].map((row) => row.cells[header(title).cellIndex].textContent);
  await pause();

  header("final valid loss").querySelector("button").click();
  seen.rising = column("arm");
  seen.sorted = header("final valid loss").getAttribute("aria-sort");
  header("final valid loss").querySelector("button").click();
  seen.falling = column("arm");

  const chart = document.getElementById("chart");
  const lines = () => chart.querySelectorAll("path.valid").length;
  seen.lines = lines();
  const button = all(".legend button[aria-pressed]").find((b) => b.textContent.includes("post"));
  button.click();
  seen.pressed = button.getAttribute("aria-pressed");
  seen.fewer = lines();
  button.click();

  const bounds = chart.getBoundingClientRect();
  const move = (x) => chart.dispatchEvent(new PointerEvent("pointermove", { clientX: bounds.left + x * bounds.width, clientY: bounds.top + 40 }));
  move(0.97);
  seen.tip = document.getElementById("tip").innerText;
  chart.dispatchEvent(new PointerEvent("pointerleave"));
  seen.away = document.getElementById("tip").hidden;
  chart.focus();
  chart.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
  seen.spoken = document.getElementById("spoken").textContent;
  chart.blur();

  const before = chart.querySelector("path.valid").getAttribute("d");
  document.getElementById("logy").click();
  seen.log = chart.querySelector("path.valid").getAttribute("d") !== before;
  const train = chart.querySelector("path.train").getAttribute("d");
  const weigh = (weight) => {
    document.getElementById("smooth").value = weight;
    document.getElementById("smooth").dispatchEvent(new Event("input"));
    return chart.querySelector("path.train").getAttribute("d");
  };
  seen.points = Math.max(...data.series.loss.train.map((points) => points.length));
  seen.smoothing = weigh("0") !== train;
  const few = data.series.loss.train;
  data.series.loss.train = few.map((points) => Array.from({ length: 50 }, (_, i) => [4 * (i + 1), 2 + (i % 2), 0, 1]));
  seen.smoothed = weigh("0.8") !== weigh("0");
  data.series.loss.train = few;
  weigh("0");

  const map = document.getElementById("layer-chart");
  seen.cells = map.querySelectorAll("rect").length;
  map.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" }));
  map.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown" }));
  seen.layer = document.getElementById("layer-spoken").textContent;

  const box = document.querySelector("input[type=search]");
  const shown = () => [...box.closest("label").nextElementSibling.querySelectorAll("tbody tr")].filter((row) => !row.hidden);
  const type = (words) => { box.value = words; box.dispatchEvent(new Event("input")); };
  seen.rows = shown().length;
  type("POST seed-2");
  seen.matching = shown().map((row) => row.cells[0].textContent);
  seen.counted = box.closest("label").textContent;
  type("");
  seen.again = shown().length;

  const frame = document.querySelector(".scroll").getBoundingClientRect();
  seen.order = all("table")[0].tHead.innerText.split(/\t|\n/).map((title) => title.trim()).filter(Boolean).slice(0, 6);
  seen.hidden = ["arm", "final valid loss", "Δ final [95 %]", "p", "verdict"]
    .filter((title) => header(title).getBoundingClientRect().right > frame.right + 1);
  seen.figures = all("figure").map((figure) => figure.scrollWidth - figure.clientWidth);

  const ground = () => getComputedStyle(document.body).backgroundColor;
  seen.light = ground();
  document.getElementById("theme").click();
  seen.dark = ground();
  document.getElementById("theme").click();

  seen.unnamed = all("button, select, input, svg[tabindex]").filter((e) => !e.hidden && !(e.textContent.trim() || e.getAttribute("aria-label") || e.closest("label"))).length;
  seen.links = all("#runs").length && all("td a, th a").map((a) => a.getAttribute("href"));
  seen.width = innerWidth;
  seen.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.requests = performance.getEntriesByType("resource").map((r) => r.name);
  seen.wrong = wrong;
  if (seen.width < 600) { // the phone's turn
    window.parent.postMessage(JSON.stringify(seen), "*");
  }
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = JSON.stringify(seen);
  document.body.append(out);
})().catch((e) => { document.body.insertAdjacentHTML("beforeend", `<pre id="seen">{"failed":${JSON.stringify(String(e))}}</pre>`); });
</script>"##;

/// A frame of a phone's width; browser windows cannot be narrower than about 500 pixels.
const PHONE: &str = r#"<!doctype html><html><body><iframe src="page.html" width="390" height="844"></iframe><script>
addEventListener("message", (e) => {
  const out = document.createElement("pre");
  out.id = "seen";
  out.textContent = e.data;
  document.body.append(out);
});
</script></body></html>"#;

/// Finds the browser's executable in PATH.
fn browser() -> Option<PathBuf> {
    let names = [
        "chromium",
        "chromium-browser",
        "google-chrome",
        "chromium-headless-shell",
    ];
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
}

/// Returns the observations that the script wrote into a page, once its time is over.
fn seen(browser: &Path, folder: &Path, page: &str) -> Value {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            "--window-size=1280,1000",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("file://{}", folder.join(page).display()))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    let start = dom
        .rfind("<pre id=\"seen\">")
        .unwrap_or_else(|| panic!("no result: {dom}"));
    let text = &dom[start + "<pre id=\"seen\">".len()..];
    let text = &text[..text.find("</pre>").unwrap()];
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    serde_json::from_str(&text).unwrap()
}

/// Writes the page of a sweep, one run of which has diagnostics, with the script.
fn written(root: &Path) {
    let sweep = study(root);
    let lines: String = (1..=20)
        .map(|i| format!("{{\"step\":{},\"gradient_norm\":{{\"blocks.0\":{i},\"blocks.1\":0.5,\"embedding\":null}}}}\n", i * 10))
        .collect();
    fs::write(sweep.join("cells/pre/seed-1/diagnostics.jsonl"), lines).unwrap();
    let c = compared(&sweep);
    let figures = figures(&c, FigureOptions::default()).unwrap();
    let page = html::page(&c, &figures, Some(root)).unwrap();
    let page = page
        .replacen("<head>", &format!("<head>{WATCH}"), 1)
        .replacen("</body>", &format!("{PROBE}</body>"), 1);
    fs::write(root.join("page.html"), page).unwrap();
    fs::write(root.join("phone.html"), PHONE).unwrap();
}

#[test]
fn a_reader_sorts_hovers_and_switches_without_an_error() {
    let Some(browser) = browser() else {
        println!(
            "passed over: none of chromium, google-chrome and chromium-headless-shell is on PATH"
        );
        return;
    };
    let root = tempfile::tempdir().unwrap();
    written(root.path());
    let seen = seen(&browser, root.path(), "page.html");
    let say = format!("{seen:#}");
    assert_eq!(seen["rising"][0], "post", "{say}");
    assert_eq!(
        seen["rising"][3], "deep_norm & co",
        "what is missing stays last: {say}"
    );
    assert_eq!(seen["sorted"], "ascending");
    assert_eq!(seen["falling"][2], "post", "{say}");
    assert_eq!(seen["falling"][3], "deep_norm & co", "{say}");
    assert_eq!(
        (&seen["lines"], &seen["fewer"]),
        (&4.into(), &3.into()),
        "{say}"
    );
    assert_eq!(seen["pressed"], "false");
    let tip = seen["tip"].as_str().unwrap();
    assert!(tip.contains("valid 1.483") && tip.contains("n 3"), "{tip}");
    assert_eq!(seen["away"], true);
    assert!(seen["spoken"].as_str().unwrap().contains("valid"), "{say}");
    assert_eq!(seen["log"], true, "{say}");
    // Short curves are drawn as they are; curves of fifty points are smoothed.
    assert!(seen["points"].as_u64().unwrap() < 50, "{say}");
    assert_eq!(
        (&seen["smoothing"], &seen["smoothed"]),
        (&false.into(), &true.into()),
        "{say}"
    );
    assert_eq!(seen["width"], 1280, "{say}");
    assert_eq!(
        seen["hidden"],
        serde_json::json!([]),
        "the result is in view: {say}"
    );
    // 2 × 20 measured cells and the 40 of the colour scale; parts are in numeric order.
    assert_eq!(seen["cells"], 2 * 20 + 40, "{say}");
    assert_eq!(seen["layer"], "blocks.1 at step 10: 0.5", "{say}");
    assert_eq!(seen["matching"].as_array().unwrap().len(), 1, "{say}");
    let first = seen["matching"][0].as_str().unwrap();
    assert!(first.contains("post") && first.contains("seed-2"), "{say}");
    let counted = format!("1 of {} rows", seen["rows"]);
    assert!(
        seen["counted"].as_str().unwrap().contains(&counted),
        "{say}"
    );
    assert_eq!(seen["again"], seen["rows"], "{say}");
    assert_ne!(seen["light"], seen["dark"]);
    assert_eq!(seen["unnamed"], 0, "{say}");
    assert_eq!(seen["links"][0], "study/cells/pre/seed-1", "{say}");
    assert_eq!(seen["overflow"], 0, "{say}");
    assert_eq!(seen["requests"], serde_json::json!([]), "{say}");
    assert_eq!(seen["wrong"], serde_json::json!([]), "{say}");
}

#[test]
fn a_phone_shows_the_page_without_scrolling_sideways() {
    let Some(browser) = browser() else {
        println!(
            "passed over: none of chromium, google-chrome and chromium-headless-shell is on PATH"
        );
        return;
    };
    let root = tempfile::tempdir().unwrap();
    written(root.path());
    let seen = seen(&browser, root.path(), "phone.html");
    let say = format!("{seen:#}");
    assert_eq!(seen["width"], 390, "{say}");
    assert_eq!(seen["overflow"], 0, "{say}");
    assert_eq!(seen["lines"], 4, "{say}");
    let figures = seen["figures"].as_array().unwrap();
    assert!(
        !figures.is_empty() && figures.iter().all(|over| *over == 0),
        "{say}"
    );
    assert_eq!(seen["wrong"], serde_json::json!([]), "{say}");
}
