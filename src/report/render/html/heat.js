// ---- heat map of parts by steps: logarithmic colour scale, values under the pointer or by arrow keys ------------------
/** Returns a function that draws into the svg `chart`; `tip` shows the value under the pointer, `spoken` announces it. */
const heatMap = (chart, tip, spoken) => {
  // Viridis, whose order is visible to people with colour blindness, too.
  const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const shade = (share) => {
    const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
    const i = Math.min(Math.floor(place), STOPS.length - 2);
    return `rgb(${STOPS[i].map((c, k) => Math.round(c + (place - i) * (STOPS[i + 1][k] - c))).join(" ")})`;
  };
  let shown = { quantity: { parts: [], steps: [], values: [] }, name: "" };
  let pointer = null;
  let view = null;
  let cell = null; // [row, column] under the pointer or moved by arrow keys

  const draw = () => {
    const { quantity, name } = shown;
    const order = quantity.parts.map((_, i) => i);
    order.sort((a, b) => quantity.parts[a].localeCompare(quantity.parts[b], "en", { numeric: true }));
    const parts = order.map((i) => quantity.parts[i]);
    const values = order.map((i) => quantity.values[i]);
    const positive = values.flat().filter((v) => v > 0);
    const [low, high] = positive.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, 0]);
    const share = (v) => (high > low ? Math.log(v / low) / Math.log(high / low) : 0.5);
    const width = Math.max(chart.parentNode.clientWidth, 240);
    const left = Math.min(width * 0.3, 14 + 7 * Math.max(4, ...parts.map((p) => p.length)));
    const row = parts.length > 30 ? 14 : 20;
    const box = { left, top: 4, right: width - 12, bottom: 4 + row * parts.length };
    const wide = (box.right - box.left) / Math.max(quantity.steps.length, 1);
    const height = box.bottom + 66;
    view = { box, row, wide, parts, values, steps: quantity.steps, width };
    cell = null;
    chart.replaceChildren();
    chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
    chart.setAttribute("height", height);
    parts.forEach((part, r) => {
      const y = box.top + r * row;
      const shown = part.length * 7 > left - 12 ? `…${part.slice(-Math.floor((left - 20) / 7))}` : part;
      node("text", { x: left - 8, y: y + row / 2 + 4, "text-anchor": "end" }, chart).textContent = shown;
      values[r].forEach((v, k) => {
        if (v === null) return;
        const fill = v > 0 ? shade(share(v)) : shade(0);
        node("rect", { x: box.left + k * wide, y, width: wide + 0.5, height: row - 1, fill }, chart);
      });
    });
    const every = Math.max(1, Math.ceil(quantity.steps.length / Math.max(2, Math.floor((box.right - box.left) / 90))));
    for (let k = every - 1; k < quantity.steps.length; k += every)
      node("text", { x: box.left + (k + 0.5) * wide, y: box.bottom + 16, "text-anchor": "middle" }, chart).textContent = number(quantity.steps[k]);
    node("text", { x: (box.left + box.right) / 2, y: box.bottom + 34, "text-anchor": "middle" }, chart).textContent = "optimizer steps";
    if (positive.length > 0) scale(box, low, high);
    pointer = node("g", {}, chart);
    chart.setAttribute("aria-label", `${name} by part and step, from ${number(low)} to ${number(high)}. Arrow keys read values.`);
    point();
  };

  /** Draws the colour bar below the map. */
  const scale = (box, low, high) => {
    const [from, y, wide] = [box.left, box.bottom + 46, 160];
    for (let i = 0; i < 40; i++) node("rect", { x: from + (i * wide) / 40, y, width: wide / 40 + 0.5, height: 10, fill: shade(i / 39) }, chart);
    node("text", { x: from - 6, y: y + 9, "text-anchor": "end" }, chart).textContent = number(low);
    node("text", { x: from + wide + 6, y: y + 9 }, chart).textContent = number(high);
  };

  const point = () => {
    tip.hidden = cell === null;
    pointer.replaceChildren();
    if (cell === null) return;
    const { box, row, wide, parts, values, steps, width } = view;
    const [r, k] = cell;
    const x = box.left + k * wide;
    node("rect", { class: "frame", x, y: box.top + r * row, width: wide, height: row - 1 }, pointer);
    tip.textContent = `${parts[r]} at step ${steps[k].toLocaleString("en-US")}: ${values[r][k] === null ? "–" : number(values[r][k])}`;
    tip.style.left = x < width / 2 ? `${x + wide + 8}px` : "";
    tip.style.right = x < width / 2 ? "" : `${width - x + 8}px`;
    tip.style.top = `${box.top + r * row}px`;
  };

  const within = (n, most) => Math.min(Math.max(n, 0), most - 1);
  chart.addEventListener("pointermove", (event) => {
    const bounds = chart.getBoundingClientRect();
    const [x, y] = [((event.clientX - bounds.left) * view.width) / bounds.width, event.clientY - bounds.top];
    const { box, row, wide, parts, steps } = view;
    const inside = parts.length > 0 && steps.length > 0 && x >= box.left && y >= box.top && y <= box.bottom;
    cell = inside ? [within(Math.floor((y - box.top) / row), parts.length), within(Math.floor((x - box.left) / wide), steps.length)] : null;
    point();
  });
  for (const leave of ["pointerleave", "blur"]) chart.addEventListener(leave, () => { cell = null; point(); });
  chart.addEventListener("keydown", (event) => {
    const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0], Home: [0, -1e9], End: [0, 1e9] };
    if (event.key === "Escape") { cell = null; point(); }
    const move = moves[event.key];
    if (!move || view.parts.length === 0 || view.steps.length === 0) return;
    event.preventDefault();
    cell = cell === null ? [0, 0] : [within(cell[0] + move[0], view.parts.length), within(cell[1] + move[1], view.steps.length)];
    point();
    spoken.textContent = tip.textContent;
  });
  let drawnAt = 0;
  new ResizeObserver(() => {
    const width = chart.parentNode.clientWidth;
    if (width !== drawnAt && view !== null) { drawnAt = width; draw(); }
  }).observe(chart.parentNode);
  /** Shows a quantity `{parts, steps, values}` under a name. */
  return (quantity, name) => { shown = { quantity, name }; draw(); };
};

