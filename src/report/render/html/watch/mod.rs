//! The page of `formwork watch`: one document, one style sheet and one script, which load everything else from `/api`.
//!
//! Colours, tables and controls are shared with the report (`page.css`), and so are number formats, scales and the heat map.
//! Texts from run folders reach the document only as text nodes.

/// HTML document.
pub const PAGE: &str = include_str!("page.html");
/// Style sheet: the report's, followed by this page's own.
pub const STYLE: &str = concat!(include_str!("../page.css"), include_str!("watch.css"));
/// Script: the report's helpers, followed by this page's own code.
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
/// Icon of the page in a browser's tab (SVG).
pub const ICON: &str = include_str!("icon.svg");
