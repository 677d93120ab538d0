//! The page of `formwork watch`: one document, one style and one script, which take everything else from `/api`.
//!
//! Colours, tables and controls are the report's (`page.css`), numbers, scales and the heat map, too. Texts of run folders
//! reach the document as text nodes alone.

/// The document.
pub const PAGE: &str = include_str!("page.html");
/// The report's style, and what is this page's.
pub const STYLE: &str = concat!(include_str!("../page.css"), include_str!("watch.css"));
/// The script: the report's helpers first.
pub const SCRIPT: &str = concat!(
    include_str!("../base.js"),
    include_str!("../theme.js"),
    include_str!("../plot.js"),
    include_str!("../heat.js"),
    include_str!("state.js"),
    include_str!("chart.js"),
    include_str!("list.js"),
    include_str!("sweeps.js"),
    include_str!("overlay.js"),
    include_str!("run.js"),
    include_str!("keys.js"),
    include_str!("main.js"),
);
/// The sign of the page in a browser's tab.
pub const ICON: &str = include_str!("icon.svg");
