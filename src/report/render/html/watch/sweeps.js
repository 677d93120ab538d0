// ---- sweeps: arms by seeds, each cell with its state and its value; the best arm is bold ---------------------------------
const sweeps = (() => {
  const cards = new Map();
  const cellsOf = (sweep) => sweep.arms.flatMap((arm) => arm.cells);
  const inWords = (sweep) => {
    if (!sweep) return "";
    if (sweep.error) return sweep.error;
    const cells = cellsOf(sweep);
    const of = (...states) => cells.filter((cell) => states.includes(cell.state)).length;
    const parts = [[of("done", "stopped early"), "done"], [of("training"), "training"], [of("stopped"), "stopped"], [of("stopped at a rung"), "stopped at a rung"], [of("diverged"), "diverged"], [of("failed", "unreadable"), "failed"], [of("missing"), "missing"]];
    return `${cells.length} cells: ${parts.filter(([n]) => n > 0).map(([n, word]) => `${n} ${word}`).join(", ")}`;
  };
  const cellOf = (sweep, cell) => {
    const run = cell.run === null ? null : known.runs.get(cell.run);
    const told = isNumber(cell.best) ? number(cell.best) : cell.state === "training" && run?.steps ? `${Math.floor(100 * shareOf(run))} %` : cell.state;
    const shown = [el("span", { className: "state", "data-state": cell.state, title: cell.reason || cell.state }, MARKS[cell.state] ?? "?"), ` ${told}`];
    const inside = run ? [el("a", { href: `#/run/${inAddress(cell.run)}`, ariaLabel: `seed ${cell.seed}: ${cell.state} ${told}` }, ...shown)] : shown;
    return el("td", {}, ...inside);
  };
  const meanOf = (sweep, arm) => {
    const values = arm.cells.filter((cell) => ["done", "stopped early"].includes(cell.state)).map((cell) => cell.best).filter(isNumber);
    const mean = values.reduce((a, b) => a + b, 0) / values.length;
    const sd = values.length > 1 ? Math.sqrt(values.reduce((a, b) => a + (b - mean) ** 2, 0) / (values.length - 1)) : null;
    return { n: values.length, mean: values.length ? mean : null, sd };
  };
  const card = (sweep) => {
    const open = cards.get(sweep.id)?.open ?? (known.sweeps.size <= 2 && cellsOf(sweep).length <= 60);
    const made = el("details", { open, className: "sweep-card" }, el("summary", {}, `Sweep ${sweep.id}`, el("span", { className: "quiet" }, ` ${inWords(sweep)}`)));
    if (sweep.error) return made;
    const means = sweep.arms.map((arm) => meanOf(sweep, arm));
    const whole = Math.max(...means.map((m) => m.n));
    const ranked = means.filter((m) => m.n === whole && m.n > 0).map((m) => m.mean);
    const best = sweep.higher ? Math.max(...ranked) : Math.min(...ranked);
    const head = el("tr", {}, el("th", { scope: "col" }, "arm"), el("th", { scope: "col" }, `mean best ${sweep.metric} ${direction(sweep.higher)}`), ...sweep.seeds.map((seed) => el("th", { scope: "col" }, `seed ${seed}`)));
    const rows = sweep.arms.map((arm, i) => {
      const { n, mean, sd } = means[i];
      const told = n === 0 ? "–" : `${number(mean)}${sd === null ? "" : ` ± ${Number(sd.toPrecision(2))}`}`;
      const settings = Object.entries(arm.settings).map(([key, value]) => `${key} = ${value}`).join("\n");
      return el("tr", {}, el("th", { scope: "row", title: settings }, arm.name, arm.name === sweep.baseline ? el("span", { className: "quiet" }, " baseline") : ""),
        el("td", { className: n === whole && mean === best && sweep.arms.length > 1 ? "top" : "" }, told, n > 0 && n < sweep.seeds.length ? el("span", { className: "quiet" }, ` n ${n}`) : ""), ...arm.cells.map((cell) => cellOf(sweep, cell)));
    });
    const table = el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows));
    const note = sweep.left_out > 0 ? el("p", { className: "quiet" }, `${sweep.left_out} more arms: formwork sweep shows all`) : null;
    made.append(...[el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `Cells of ${sweep.id}` }, table), note].filter(Boolean));
    return made;
  };
  onChange(({ runs, sweeps: changed, all }) => {
    const touched = new Set(changed);
    for (const [id, sweep] of known.sweeps) if (all || cellsOf(sweep).some((cell) => runs.includes(cell.run))) touched.add(id);
    if (touched.size === 0) return;
    const focused = document.activeElement?.closest("#sweeps a")?.getAttribute("href");
    for (const id of touched) {
      const sweep = known.sweeps.get(id);
      if (sweep) { const made = card(sweep); cards.get(id)?.replaceWith(made); cards.set(id, made); }
      else { cards.get(id)?.remove(); cards.delete(id); }
    }
    for (const id of cards.keys()) if (!known.sweeps.has(id)) { cards.get(id).remove(); cards.delete(id); }
    const sorted = [...cards.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true })).map((id) => cards.get(id));
    const heading = $("sweeps").querySelector("h2") ?? el("h2", {}, "Sweeps");
    $("sweeps").replaceChildren(...(sorted.length ? [heading, ...sorted] : []));
    if (focused) $("sweeps").querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
  });
  return { inWords };
})();
