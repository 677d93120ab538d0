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
/** Returns the unit for a duration of `s` seconds: its length in seconds and its name. */
const unitOf = (s) => (s < 120 ? [1, " s"] : s < 7200 ? [60, " min"] : s < 172800 ? [3600, " h"] : [86400, " d"]);
const duration = (s) => number(s / unitOf(s)[0]) + unitOf(s)[1];

