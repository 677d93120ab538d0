
// ---- curves ----------------------------------------------------------------------------------------------
(() => {
  const names = Object.keys(data.series);
  if (names.length === 0) return;
  const on = new Set(data.on);
  let cursor = null; // x value under the pointer or moved by arrow keys
  let view = null; // scales of the last drawing
  for (const name of names) $("metric").append(new Option(name, name));

  /** Returns the wall time of a step in seconds, interpolated between the arm's clock readings. */
  const seconds = (arm, step) => {
    const clock = data.arms[arm].clock;
    const after = clock.findIndex(([s]) => s >= step);
    if (after <= 0) return clock.length === 0 ? null : after === 0 ? (clock[0][1] * step) / Math.max(clock[0][0], 1) : clock.at(-1)[1];
    const [[s0, t0], [s1, t1]] = [clock[after - 1], clock[after]];
    return t0 + ((t1 - t0) * (step - s0)) / (s1 - s0);
  };

  /** Minimum number of points for smoothing; shorter curves are shown as they are. */
  const SMOOTHED = 50;
  /** Returns the lines to draw: one per arm and split. */
  const lines = () => {
    const splits = data.series[$("metric").value];
    const made = [];
    for (const split of ["train", "valid", "test"]) {
      if (!splits[split] || (split === "train" ? !$("train").checked : !$("valid").checked)) continue;
      splits[split].forEach((raw, arm) => {
        if (!on.has(arm)) return;
        let points = raw.map(([step, y, sd, n]) => ({ step, x: $("axis").value === "time" ? seconds(arm, step) : step, y, sd, n }));
        points = points.filter((p) => p.x !== null && (!$("logx").checked || p.x > 0) && (!$("logy").checked || p.y > 0));
        if (split === "train" && points.length >= SMOOTHED) points = smooth(points, Number($("smooth").value));
        if (points.length > 0) made.push({ arm, split, points });
      });
    }
    return made;
  };

  const draw = () => {
    const svg = $("chart");
    const width = Math.max(svg.parentNode.clientWidth, 240);
    const height = Math.round(Math.min(Math.max(width * 0.48, 250), 460));
    const box = { left: 58, right: width - 12, top: 12, bottom: height - 40 };
    const [logx, logy] = [$("logx").checked, $("logy").checked];
    const all = lines();
    const xs = span(all.flatMap((l) => l.points.map((p) => p.x)), logx);
    const start = xs[0] + 0.1 * (xs[1] - xs[0]);
    const shown = all.flatMap((l) => l.points.filter((p) => !$("settled").checked || p.x >= start).map((p) => p.y));
    const drawn = new Set(all.map((l) => l.split));
    let ys = span(shown, logy);
    if (!logy) { const pad = (ys[1] - ys[0]) * 0.04; ys = [ys[0] - pad, ys[1] + pad]; }
    const x = scale(xs, [box.left, box.right], logx);
    const y = scale(ys, [box.bottom, box.top], logy);
    view = { all, x, y, box, width, height };

    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    const clip = node("clipPath", { id: "frame" }, svg);
    node("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }, clip);
    for (const v of ticks(ys, height / 60, logy)) {
      node("line", { class: "grid", x1: box.left, x2: box.right, y1: y(v), y2: y(v) }, svg);
      node("text", { x: box.left - 8, y: y(v) + 4, "text-anchor": "end" }, svg).textContent = number(v);
    }
    const time = $("axis").value === "time";
    const [unit, unitName] = time ? unitOf(xs[1]) : [1, ""];
    for (const tick of ticks(xs.map((v) => v / unit), width / 110, logx)) {
      const v = tick * unit;
      node("line", { class: "grid", x1: x(v), x2: x(v), y1: box.top, y2: box.bottom }, svg);
      node("text", { x: Math.min(x(v), width - 26), y: box.bottom + 17, "text-anchor": "middle" }, svg).textContent = number(tick) + unitName;
    }
    node("line", { class: "axis", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }, svg);
    node("text", { x: (box.left + box.right) / 2, y: height - 5, "text-anchor": "middle" }, svg).textContent = time ? "wall time" : "optimizer steps";

    const layer = node("g", { "clip-path": "url(#frame)" }, svg);
    for (const { arm, split, points } of all) {
      if (split !== "train" && $("band").checked && points.some((p) => p.sd > 0)) {
        const low = (p) => (logy ? Math.max(p.y - p.sd, ys[0]) : p.y - p.sd);
        const edge = [...points.map((p) => ({ x: p.x, y: p.y + p.sd })), ...points.toReversed().map((p) => ({ x: p.x, y: low(p) }))];
        node("path", { class: "band", d: `${path(edge, x, y)}Z`, fill: colorOf(arm) }, layer);
      }
    }
    for (const { arm, split, points } of all) {
      const look = { class: split === "train" ? "train" : "valid", stroke: colorOf(arm), "stroke-dasharray": dashOf(arm) };
      node("path", { ...look, d: path(points, x, y) }, layer);
      if (split !== "train" && points.length <= 40)
        for (const p of points) node("circle", { cx: x(p.x), cy: y(p.y), r: points.length === 1 ? 4 : 2.4, fill: colorOf(arm) }, layer);
    }
    node("g", { id: "pointer" }, svg);
    const kinds = [...drawn].map((s) => (s === "train" ? "train (thin)" : `${s} (thick)`)).join(", ");
    svg.setAttribute("aria-label", `${$("metric").value} by ${time ? "wall time" : "step"}: ${kinds || "nothing shown"}; ${on.size} arms. Arrow keys read values.`);
    point();
  };

  /** Crosshair and values at the cursor. */
  const point = () => {
    const [tip, pointer] = [$("tip"), $("pointer")];
    tip.hidden = cursor === null || view.all.length === 0;
    pointer.replaceChildren();
    if (tip.hidden) return;
    const { x, y, box, all, width } = view;
    const px = Math.min(Math.max(x(cursor), box.left), box.right);
    const near = all.map((l) => ({ ...l, p: l.points.reduce((a, b) => (Math.abs(x(b.x) - px) < Math.abs(x(a.x) - px) ? b : a)) }));
    near.sort((a, b) => (a.split === b.split ? (a.p.y - b.p.y) * (data.more ? -1 : 1) : a.split === "train" ? 1 : -1));
    node("line", { class: "cross", x1: px, x2: px, y1: box.top, y2: box.bottom }, pointer);
    const time = $("axis").value === "time";
    const heading = time ? duration(cursor) : `step ${Math.round(cursor).toLocaleString("en-US")}`;
    const rows = near.slice(0, 16).map(({ arm, split, p }) => {
      if (y(p.y) >= box.top && y(p.y) <= box.bottom) node("circle", { cx: x(p.x), cy: y(p.y), r: 4, fill: colorOf(arm) }, pointer);
      const row = document.createElement("div");
      const mark = document.createElement("b");
      mark.style.color = colorOf(arm);
      mark.textContent = data.arms[arm].id;
      const sd = p.sd > 0 && split !== "train" ? ` ± ${Number(p.sd.toPrecision(2))}` : "";
      const n = p.n > 1 ? `, n ${p.n}` : "";
      row.append(mark, ` ${split} ${number(p.y)}${sd} (step ${p.step.toLocaleString("en-US")}${n})`);
      return row;
    });
    const head = document.createElement("div");
    head.textContent = heading;
    tip.replaceChildren(head, ...rows);
    tip.style.left = px < width / 2 ? `${px + 14}px` : "";
    tip.style.right = px < width / 2 ? "" : `${width - px + 14}px`;
  };

  const chart = $("chart");
  chart.addEventListener("pointermove", (event) => {
    const bounds = chart.getBoundingClientRect();
    cursor = view.x.back(((event.clientX - bounds.left) * view.width) / bounds.width);
    point();
  });
  chart.addEventListener("pointerleave", () => { cursor = null; point(); });
  chart.addEventListener("blur", () => { cursor = null; point(); });
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: 10, PageDown: -10, Home: -1e9, End: 1e9 };
    if (event.key === "Escape") { cursor = null; point(); }
    if (!(event.key in steps)) return;
    event.preventDefault();
    const longest = [...view.all].sort((a, b) => b.points.length * (b.split !== "train" || 1e-6) - a.points.length * (a.split !== "train" || 1e-6))[0];
    if (!longest) return;
    const xs = longest.points.map((p) => p.x);
    const here = cursor === null ? -1 : xs.findLastIndex((v) => v <= cursor + 1e-9);
    cursor = xs[Math.min(Math.max(here + steps[event.key], 0), xs.length - 1)];
    point();
    $("spoken").textContent = $("tip").innerText;
  });

  // ---- legend ----------------------------------------------------------------------------------------------
  const buttons = data.arms.map((arm, i) => {
    const button = document.createElement("button");
    button.type = "button";
    const swatch = node("svg", { class: "swatch", viewBox: "0 0 26 12", "aria-hidden": "true" });
    node("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colorOf(i), "stroke-width": 4, "stroke-dasharray": dashOf(i) }, swatch);
    button.append(swatch, `${arm.id} ${arm.label}`);
    button.addEventListener("click", (event) => {
      const alone = event.shiftKey || event.altKey; // with Shift or Alt: only this arm
      if (alone) { on.clear(); on.add(i); } else if (!on.delete(i)) on.add(i);
      refresh();
    });
    $("legend").append(button);
    return button;
  });
  const switchAll = (id, arms) => $(id).addEventListener("click", () => { on.clear(); arms.forEach((i) => on.add(i)); refresh(); });
  switchAll("every", data.arms.map((_, i) => i));
  switchAll("none", []);
  const refresh = () => {
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(on.has(i))));
    draw();
  };

  const splits = Object.values(data.series);
  if (!splits.some((s) => s.train)) $("train").closest("label").hidden = $("smooth").closest("label").hidden = true;
  if (!data.arms.some((a) => a.clock.length > 1)) $("axis").closest("label").hidden = true;
  if (!data.arms.some((a) => a.runs > 1)) $("band").closest("label").hidden = true;
  for (const id of ["metric", "axis", "logx", "logy", "settled", "train", "valid", "band", "smooth"]) $(id).addEventListener("input", draw);
  new ResizeObserver(draw).observe(chart.parentNode);
  refresh();
})();
