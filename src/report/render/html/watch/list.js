// ---- the list of runs: sorted, filtered, grouped by sweep; only rows of changed runs are updated --------------------------
const STATES = ["training", "done", "stopped early", "imported", "stopped", "stopped at a rung", "diverged", "failed", "unreadable"];
/** Marks of the states, recognisable by shape without colour. */
const MARKS = { training: "▶", done: "✓", "stopped early": "✓", stopped: "❚❚", "stopped at a rung": "▽", diverged: "≈", failed: "✕", unreadable: "?", missing: "○" };
const stateSign = (state) => el("span", { className: "state", "data-state": state }, el("span", { ariaHidden: "true" }, MARKS[state] ?? "?"), ` ${state}`);
/** Returns an arrow in the direction in which a metric improves. */
const direction = (higher) => (higher ? "↑" : "↓");
const directed = (name, higher) => el("span", { className: "quiet", title: `${name}: ${higher ? "higher" : "lower"} is better` }, ` ${name}\u00a0${direction(higher)}`);
const counted = (n) => n.toLocaleString("en-US");
const shareOf = (run) => (run.steps ? Math.min(run.step / run.steps, 1) : null);
const bar = (run) => {
  const part = el("span", {});
  part.style.width = `${100 * (shareOf(run) ?? 0)}%`;
  return el("span", { className: "progress", ariaHidden: "true" }, part);
};

/** Columns: title, value to sort by, shown content, and whether the first click sorts in rising order. */
const COLUMNS = [
  { key: "run", title: "run", hint: "folder below the one that is watched", value: (r) => r.id, rising: true },
  { key: "state", title: "state", value: (r) => STATES.indexOf(r.state), rising: true, cell: (r) => [stateSign(r.state)] },
  { key: "step", title: "step", hint: "of the steps that the experiment asks for", value: (r) => shareOf(r) ?? r.step, cell: (r) => (r.step === undefined ? [el("span", { className: "wrong" }, r.error ?? "")] : [el("span", {}, counted(r.step), r.steps ? el("span", { className: "quiet" }, ` / ${counted(r.steps)}`) : ""), bar(r)]) },
  { key: "left", title: "time left", value: leftOf, rising: true, number: true, ages: true, cell: (r) => [leftOf(r) === null ? "" : spanOf(leftOf(r))] },
  { key: "train_loss", title: "train loss", value: (r) => r.train_loss, rising: true, number: true, cell: (r) => [show(r.train_loss)] },
  { key: "valid_loss", title: "valid loss", hint: "at the last evaluation", value: (r) => r.valid_loss, rising: true, number: true, cell: (r) => [show(r.valid_loss)] },
  { key: "metric", title: "metric", hint: "the task's own, at the last evaluation", value: (r) => r.metric?.last, number: true, cell: (r) => (r.metric ? [show(r.metric.last), directed(r.metric.name, r.metric.higher)] : []) },
  { key: "best", title: "best", hint: "of the value that decides which checkpoint is the best, on the validation split", value: (r) => r.best_by?.value, rising: true, number: true, cell: (r) => (r.best_by ? [show(r.best_by.value), el("span", { className: "quiet", title: `valid ${r.best_by.name}: ${r.best_by.higher ? "higher" : "lower"} is better` }, ` at ${counted(r.best_by.step)}`)] : []) },
  { key: "speed", title: "items/s", hint: "tokens, sequences or images a second", value: (r) => r.items_per_s, number: true, cell: (r) => [show(r.items_per_s)] },
  { key: "written", title: "written", hint: "since the journal grew", value: (r) => -ageOf(r), number: true, ages: true, cell: (r) => [Number.isFinite(ageOf(r)) ? `${roughly(ageOf(r))} ago` : "–"] },
];

const list = (() => {
  const table = $("runs");
  const rows = new Map(); // rows by run, once shown
  const MORE = 200; // number of rows shown at first and added per click; sorting and filtering cover all runs
  let most = MORE;
  const unfolded = new Set(); // sweeps whose cells are listed as rows; the table above always has them all
  const off = new Set(); // hidden states
  let sort = { column: COLUMNS.at(-1), rising: false };
  let order = []; // ids of the visible rows, from the top

  /** Returns the sweep that a run belongs to, or null. */
  const sweepOf = (id) => { const at = id.indexOf("/cells/"); const name = at < 0 ? (id.startsWith("cells/") ? "" : null) : id.slice(0, at); return name === null ? null : [...known.sweeps.keys()].find((sweep) => sweep === name || name === "") ?? null; };

  const fill = (row, run) => {
    const shownName = run.name && run.name !== run.id && run.name !== run.id.split("/").at(-1) ? run.name : "";
    row.cells[0].querySelector("a").title = [shownName, run.task].filter(Boolean).join(", ");
    COLUMNS.forEach((column, i) => { if (i > 0) row.cells[i].replaceChildren(...column.cell(run)); });
    if (run.error) row.cells[1].firstChild.title = run.error;
    row.dataset.state = run.state;
  };
  const makeRow = (run) => {
    const box = el("input", { type: "checkbox", ariaLabel: `Show the curves of ${run.id}` });
    box.addEventListener("change", () => overlay.choose(run.id, box.checked));
    const link = el("a", { href: `#/run/${inAddress(run.id)}` }, run.id);
    const row = el("tr", {}, el("th", { scope: "row" }, el("span", { className: "pick" }, box, link)));
    for (const column of COLUMNS.slice(1)) row.append(el("td", { className: `${column.number ? "number " : ""}of-${column.key}`, "data-title": column.title }));
    row.dataset.run = run.id;
    fill(row, run);
    return row;
  };

  const rowOf = (run) => {
    if (!rows.has(run.id)) { rows.set(run.id, makeRow(run)); overlay.paint(run.id); }
    return rows.get(run.id);
  };

  const wanted = (run, words) => {
    if (off.has(run.state)) return false;
    if (words.length === 0) return true;
    const text = [run.id, run.name, run.task, run.state, run.seed === null ? "" : `seed ${run.seed}`].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const compare = (a, b) => {
    const [x, y] = [sort.column.value(a), sort.column.value(b)];
    const [m, n] = [x === null || x === undefined || Number.isNaN(x), y === null || y === undefined || Number.isNaN(y)];
    if (m || n) return m - n || a.id.localeCompare(b.id, "en", { numeric: true }); // missing values stay last
    const by = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return (sort.rising ? by : -by) || a.id.localeCompare(b.id, "en", { numeric: true });
  };

  /** Sorts the rows that pass the filter; rows already in place are not touched. */
  const arrange = () => {
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const seen = [...known.runs.values()].filter((run) => wanted(run, words)).sort(compare);
    const groups = new Map([[null, []]]);
    let left = most;
    for (const run of seen) {
      const sweep = $("grouped").checked ? sweepOf(run.id) : null;
      if (!groups.has(sweep)) groups.set(sweep, []);
      groups.get(sweep).push(run);
    }
    order = [];
    let hidden = 0;
    const bodies = [];
    for (const [sweep, runs] of groups) {
      const body = table.querySelector(`tbody[data-sweep="${CSS.escape(sweep ?? "")}"]`) ?? el("tbody", { "data-sweep": sweep ?? "" });
      const folded = sweep !== null && !unfolded.has(sweep) && words.length === 0;
      const some = folded ? [] : runs.slice(0, left);
      left -= some.length;
      const shown = some.map((run) => rowOf(run));
      // Below its sweep's heading, a cell is named only by arm and seed.
      for (const run of some) say(rows.get(run.id).querySelector("a"), sweep ? run.id.slice(sweep.length + "/cells/".length) : run.id);
      const all = sweep === null ? shown : [heading(body, sweep, runs.length, folded), ...shown];
      if (all.length !== body.rows.length || all.some((row, i) => row !== body.rows[i])) body.replaceChildren(...all);
      order.push(...some.map((run) => run.id));
      if (!folded) hidden += runs.length - some.length;
      bodies.push(body);
    }
    const there = [...table.tBodies];
    if (bodies.length !== there.length || bodies.some((body, i) => body !== there[i])) { there.forEach((body) => body.remove()); table.append(...bodies); }
    say($("count"), seen.length === known.runs.size ? "" : `${counted(seen.length)} of ${counted(known.runs.size)}`);
    $("more").hidden = hidden === 0;
    say($("more"), `show ${counted(Math.min(hidden, MORE))} more of ${counted(hidden)}`);
    $("empty").hidden = seen.length > 0;
    say($("empty"), known.runs.size === 0 ? "No runs here yet: `formwork train` makes one, and this page shows it." : "No run has all of these words and one of these states.");
  };
  const heading = (body, id, shown, folded) => {
    const kept = body.rows[0]?.classList.contains("sweep") ? body.rows[0] : null;
    const row = kept ?? el("tr", { className: "sweep" }, el("th", { colSpan: COLUMNS.length, scope: "rowgroup" }, el("button", { type: "button" })));
    const button = row.querySelector("button");
    if (!kept) button.addEventListener("click", () => { unfolded.has(id) ? unfolded.delete(id) : unfolded.add(id); arrange(); });
    button.setAttribute("aria-expanded", String(!folded));
    say(button, `${folded ? "▸" : "▾"} ${counted(shown)} run${shown === 1 ? "" : "s"} of the sweep ${id}`);
    return row;
  };

  // ---- column titles, state filters, the sort menu on phones -------------------------------------------------------------
  const sortBy = (column, rising) => {
    sort = { column, rising };
    for (const [i, header] of [...table.tHead.rows[0].cells].entries())
      if (COLUMNS[i] === column) header.setAttribute("aria-sort", rising ? "ascending" : "descending"); else header.removeAttribute("aria-sort");
    $("order").value = column.key;
    arrange();
  };
  for (const column of COLUMNS) {
    const button = el("button", { type: "button" }, column.title);
    button.addEventListener("click", () => sortBy(column, sort.column === column ? !sort.rising : Boolean(column.rising)));
    table.tHead.rows[0].append(el("th", { scope: "col", className: column.number ? "number" : "", title: column.hint }, button));
    $("order").append(new Option(column.title, column.key));
  }
  $("order").addEventListener("change", () => { const column = COLUMNS.find((c) => c.key === $("order").value); sortBy(column, Boolean(column.rising)); });
  $("filter").addEventListener("input", arrange);
  $("grouped").addEventListener("change", arrange);
  $("more").addEventListener("click", () => { most += MORE; arrange(); });
  const chips = new Map();
  const countStates = () => {
    for (const state of STATES) {
      const n = [...known.runs.values()].filter((run) => run.state === state).length;
      let chip = chips.get(state);
      if (!chip && n === 0) continue;
      if (!chip) {
        chip = el("button", { type: "button", className: "chip", ariaPressed: "true" }, stateSign(state), " ", el("b", {}));
        chip.addEventListener("click", () => { off.has(state) ? off.delete(state) : off.add(state); chip.setAttribute("aria-pressed", String(!off.has(state))); arrange(); });
        chips.set(state, chip);
        $("states").replaceChildren(...STATES.filter((s) => chips.has(s)).map((s) => chips.get(s)));
      }
      say(chip.lastChild, counted(n));
      chip.hidden = n === 0;
    }
  };

  onChange(({ runs, sweeps: changed, all }) => {
    if (all) for (const id of rows.keys()) if (!known.runs.has(id)) rows.delete(id);
    for (const id of runs) {
      const run = known.runs.get(id);
      if (!run) rows.delete(id);
      else if (rows.has(id)) fill(rows.get(id), run);
    }
    $("grouped-label").hidden = known.sweeps.size === 0;
    if (all || runs.length > 0 || changed.length > 0) { countStates(); arrange(); }
  });
  // Ages and remaining times change even without updates.
  const aging = COLUMNS.map((column, i) => [column, i]).filter(([column]) => column.ages);
  setInterval(() => {
    if (document.hidden || $("overview").hidden) return;
    for (const id of order) for (const [column, i] of aging) say(rows.get(id).cells[i], column.cell(known.runs.get(id))[0]);
  }, 1000);
  sortBy(sort.column, sort.rising);
  /** Marks the rows whose curves are shown with the curve's colour. */
  const mark = (colors) => { for (const id of rows.keys()) paint(id, colors.get(id)); };
  const paint = (id, color) => {
    const box = rows.get(id).querySelector("input");
    box.checked = color !== undefined;
    box.style.accentColor = color ?? "";
  };
  return { order: () => order, row: (id) => rows.get(id), mark, paint, arrange };
})();
