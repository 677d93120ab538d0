// ---- chart of curves: crosshair and values under the pointer or by arrow keys -------------------------------------------
let charts = 0;
/** Makes a chart in an element; `draw(lines, options)` shows `{label, color, dash, kind, points}`, kind `raw`, `train` or `valid`. */
const makeChart = (parent, { short = false } = {}) => {
  const name = `chart-${++charts}`;
  const svg = node("svg", { tabindex: 0, role: "img" });
  const tip = el("div", { className: "tip", hidden: true });
  const spoken = el("div", { className: "hidden", ariaLive: "polite" });
  const plot = el("div", { className: "plot" });
  plot.append(svg, tip);
  parent.append(plot, spoken);
  let [lines, options, view, cursor, drawnAt] = [[], {}, null, null, 0];
  let pointer = null;

  const draw = () => {
    const width = Math.max(plot.clientWidth, 200);
    drawnAt = width;
    const height = short ? 190 : Math.round(Math.min(Math.max(width * 0.42, 250), 420));
    const box = { left: 58, right: width - 12, top: 10, bottom: height - (short ? 24 : 40) };
    const log = options.log && lines.some((l) => l.points.some((p) => p.y > 0));
    const seen = lines.map((l) => ({ ...l, points: log ? l.points.filter((p) => p.y > 0) : l.points })).filter((l) => l.points.length > 0);
    const xs = span(seen.flatMap((l) => [l.points[0].x, l.points.at(-1).x]), false);
    // The start is taken per line: beside a long run, all of a short run would count as start.
    const start = ({ points }) => (options.settled ? points[0].x + 0.1 * (points.at(-1).x - points[0].x) : -Infinity);
    const fitted = seen.filter((l) => l.kind !== "raw").flatMap((l) => l.points.filter((p) => p.x >= start(l)).map((p) => p.y));
    let ys = span(fitted, log);
    if (!log) { const pad = (ys[1] - ys[0]) * 0.05; ys = [ys[0] - pad, ys[1] + pad]; }
    const [x, y] = [scale(xs, [box.left, box.right], false), scale(ys, [box.bottom, box.top], log)];
    view = { seen, x, y, box, width };

    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const clip = node("clipPath", { id: name }, svg);
    node("rect", { x: box.left, y: box.top - 2, width: box.right - box.left, height: box.bottom - box.top + 4 }, clip);
    for (const v of ticks(ys, height / 60, log)) {
      node("line", { class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v) }, svg);
      node("text", { x: box.left - 8, y: y(v) + 4, "text-anchor": "end" }, svg).textContent = number(v);
    }
    const [unit, unitName] = options.time ? unitOf(xs[1]) : [1, ""];
    if (seen.length > 0) for (const tick of ticks(xs.map((v) => v / unit), Math.max(width / 110, 2), false)) {
      const v = tick * unit;
      node("line", { class: "grid", x1: x(v), x2: x(v), y1: box.top, y2: box.bottom }, svg);
      node("text", { x: Math.min(x(v), width - 26), y: box.bottom + 17, "text-anchor": "middle" }, svg).textContent = number(tick) + unitName;
    }
    node("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
    if (!short) node("text", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle" }, svg).textContent = options.time ? "wall time" : "optimizer steps";
    if (seen.length === 0) node("text", { x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2, "text-anchor": "middle" }, svg).textContent = options.empty ?? "nothing measured yet";

    const layer = node("g", { "clip-path": `url(#${name})` }, svg);
    for (const { color, kind, points } of seen) {
      if (kind === "valid" || !points.some((p) => isNumber(p.low))) continue;
      const low = (p) => (log ? Math.max(p.low ?? p.y, ys[0]) : (p.low ?? p.y));
      const edge = [...points.map((p) => ({ x: p.x, y: p.high ?? p.y })), ...points.toReversed().map((p) => ({ x: p.x, y: low(p) }))];
      node("path", { class: "band", d: `${path(edge, x, y)}Z`, fill: color }, layer);
    }
    for (const { color, dash, kind, points } of seen) {
      node("path", { class: kind, d: path(points, x, y), stroke: color, "stroke-dasharray": dash ?? "" }, layer);
      if ((kind === "valid" && points.length <= 40) || points.length === 1)
        for (const p of points) node("circle", { cx: x(p.x), cy: y(p.y), r: points.length === 1 ? 3.5 : 2.4, fill: color }, layer);
    }
    pointer = node("g", {}, svg);
    svg.setAttribute("aria-label", `${options.name ?? "curves"} by ${options.time ? "wall time" : "step"}, ${seen.filter((l) => l.kind !== "raw").length} lines. Arrow keys read values.`);
    point();
  };

  const point = () => {
    tip.hidden = cursor === null || view.seen.length === 0;
    pointer.replaceChildren();
    if (tip.hidden) return;
    const { x, y, box, seen, width } = view;
    const px = Math.min(Math.max(x(cursor), box.left), box.right);
    const nearest = (points) => points.reduce((a, b) => (Math.abs(x(b.x) - px) < Math.abs(x(a.x) - px) ? b : a));
    const near = seen.filter((l) => l.kind !== "raw").map((l) => ({ ...l, p: nearest(l.points) }));
    near.sort((a, b) => (a.kind === b.kind ? (a.p.y - b.p.y) * (options.higher ? -1 : 1) : a.kind === "train" ? 1 : -1));
    node("line", { class: "cross", x1: px, x2: px, y1: box.top, y2: box.bottom }, pointer);
    const rows = near.slice(0, 14).map(({ label, kind, color, p }) => {
      if (p.y && y(p.y) >= box.top && y(p.y) <= box.bottom) node("circle", { cx: x(p.x), cy: y(p.y), r: 4, fill: color }, pointer);
      const mark = el("b", {}, label);
      mark.style.color = color;
      const range = isNumber(p.low) && kind !== "valid" ? ` (${number(p.low)} to ${number(p.high)})` : "";
      return el("div", {}, mark, ` ${number(p.y)}${range}`, el("span", { className: "quiet" }, ` step ${Math.round(p.step).toLocaleString("en-US")}`));
    });
    const head = options.time ? duration(cursor) : `step ${Math.round(cursor).toLocaleString("en-US")}`;
    tip.replaceChildren(el("div", { className: "quiet" }, near.length > 14 ? `${head}, 14 of ${near.length} lines` : head), ...rows);
    tip.style.left = px < width / 2 ? `${px + 14}px` : "";
    tip.style.right = px < width / 2 ? "" : `${width - px + 14}px`;
  };

  svg.addEventListener("pointermove", (event) => {
    const bounds = svg.getBoundingClientRect();
    cursor = view.x.back(((event.clientX - bounds.left) * view.width) / bounds.width);
    point();
  });
  for (const leave of ["pointerleave", "blur"]) svg.addEventListener(leave, () => { cursor = null; if (view) point(); });
  svg.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10, Home: -1e9, End: 1e9 };
    if (event.key === "Escape" && cursor !== null) { cursor = null; point(); event.stopPropagation(); }
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    const of = (l) => l.points.length * (l.kind === "valid" ? 1 : 1e-6);
    const longest = view.seen.filter((l) => l.kind !== "raw").sort((a, b) => of(b) - of(a))[0];
    if (!longest) return;
    const all = longest.points.map((p) => p.x);
    const here = cursor === null ? -1 : all.findLastIndex((v) => v <= cursor + 1e-9);
    cursor = all[Math.min(Math.max(here + steps[event.key], 0), all.length - 1)];
    point();
    spoken.textContent = tip.innerText;
  });
  new ResizeObserver(() => { if (view !== null && plot.clientWidth !== drawnAt) draw(); }).observe(plot);
  return { draw: (made, how) => { [lines, options] = [made, how]; draw(); } };
};

/** Minimum number of points for smoothing; shorter curves are shown as they are. */
const SMOOTHED = 20;
/** Returns the lines of a curve: the measured values, drawn faintly behind their mean if the curve is smoothed. */
const linesOf = (label, color, dash, split, points, weight) => {
  if (points.length === 0) return [];
  if (split !== "train") return [{ label, color, dash, kind: "valid", points }];
  if (weight === 0 || points.length < SMOOTHED) return [{ label, color, dash, kind: "train", points }];
  const mean = smooth(points, weight).map((p) => ({ ...p, low: null, high: null }));
  return [{ label, color, dash, kind: "raw", points }, { label, color, dash, kind: "train", points: mean }];
};
