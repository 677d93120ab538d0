"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];
const colorOf = (arm) => `var(--c${arm % 8})`;
const dashOf = (arm) => DASHES[Math.floor(arm / 8) % DASHES.length];
const node = (name, attributes, parent) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
};

// ---- numbers -------------------------------------------------------------------------------------------
const number = (x) => {
  if (!Number.isFinite(x)) return "–";
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e9 || size < 1e-3)) return x.toExponential(2);
  return size >= 1000 ? Math.round(x).toLocaleString("en-US") : String(Number(x.toPrecision(4)));
};
/** The unit that times of this size are told in: seconds of it and its name. */
const unitOf = (s) => (s < 120 ? [1, " s"] : s < 7200 ? [60, " min"] : s < 172800 ? [3600, " h"] : [86400, " d"]);
const duration = (s) => number(s / unitOf(s)[0]) + unitOf(s)[1];

// ---- tables: a header's button sorts, again the other way; ties keep their order -------------------------
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const header = button.closest("th");
    const body = header.closest("table").tBodies[0];
    const rising = header.getAttribute("aria-sort") !== "ascending";
    for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = (row) => row.cells[header.cellIndex].dataset.value;
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // what is missing stays last
      const [m, n] = [Number(x), Number(y)];
      const by = Number.isNaN(m) || Number.isNaN(n) ? x.localeCompare(y, "en", { numeric: true }) : m - n;
      return rising ? by : -by;
    };
    body.append(...[...body.rows].sort(order));
  });
}

// ---- long tables: rows with all the words that are typed ----------------------------------------------------------
for (const table of document.querySelectorAll("table")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length <= 8) continue;
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("span");
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  label.className = "filter";
  input.type = "search";
  input.placeholder = "words of a row";
  input.autocomplete = "off";
  count.setAttribute("aria-live", "polite");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
  label.append("show ", input, count);
  table.closest(".scroll").before(label);
}

// ---- theme: the reader's system decides until the button does; kept where the browser keeps things -------------
(() => {
  const root = document.documentElement;
  const button = $("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("formwork-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("formwork-theme", theme); } catch { /* a page from a file may not */ } };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = dark() ? "light" : "dark";
    button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
    root.classList.toggle("dark", dark());
  };
  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
})();
