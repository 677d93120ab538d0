// ---- the page of one run ----------------------------------------------------------------------------------------------------
const run = (() => {
  const root = $("run");
  let [id, parts, drawn, heat] = [null, null, new Map(), null];
  const options = { weight: 0.6, log: false, time: false, settled: true };

  const section = (title, ...children) => el("section", {}, el("h2", {}, title), ...children);
  const region = (title, table) => el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: title }, table);
  const check = (text, key) => {
    const box = el("input", { type: "checkbox", checked: options[key] });
    box.addEventListener("input", () => { options[key] = box.checked; draw(); });
    return [el("label", {}, box, text), box];
  };

  const build = () => {
    parts = { sign: el("p", {}), tiles: el("div", { className: "tiles" }), charts: el("div", { className: "charts" }), detail: el("div", {}), settings: el("div", {}), inside: el("div", {}) };
    const weight = el("input", { type: "range", min: 0, max: 0.98, step: 0.02, value: options.weight, ariaLabel: "smoothing" });
    weight.addEventListener("input", () => { options.weight = Number(weight.value); draw(); });
    const axis = el("select", { ariaLabel: "over" }, new Option("steps", "step"), new Option("wall time", "time"));
    axis.value = options.time ? "time" : "step";
    axis.addEventListener("input", () => { options.time = axis.value === "time"; draw(); });
    const [log, logBox] = check("log y", "log");
    const [settled] = check("fit without the start", "settled");
    parts.log = logBox;
    const controls = el("div", { className: "controls" }, el("label", {}, "over ", axis), el("label", {}, "smoothing ", weight), log, settled);
    root.replaceChildren(el("p", { className: "back" }, el("a", { href: "#/" }, "← all runs")), parts.sign, parts.tiles,
      section("Curves", el("div", { className: "card" }, controls, parts.charts)), parts.inside, parts.detail, parts.settings);
    drawn = new Map();
    heat = null;
  };

  // ---- the head: the run's state -------------------------------------------------------------------------------------------
  const tile = (title, value, more = "") => el("div", { className: "tile" }, el("div", { className: "quiet" }, title), el("b", {}, value), el("div", { className: "quiet" }, more));
  const head = () => {
    const row = known.runs.get(id);
    if (!row) {
      parts.sign.replaceChildren(known.version === null || known.read < known.found ? "Reading …" : "This run is not there, or no longer.");
      parts.tiles.replaceChildren();
      return;
    }
    const at = row.steps ? `${counted(row.step)} of ${counted(row.steps)}` : counted(row.step ?? 0);
    const percent = shareOf(row) === null ? "" : `${Math.floor(100 * shareOf(row))} %`;
    const sign = [stateSign(row.state), row.name !== id ? el("span", { className: "quiet" }, row.name) : "", row.task ? el("span", { className: "quiet" }, row.task) : "", row.seed === null || row.seed === undefined ? "" : el("span", { className: "quiet" }, `seed ${row.seed}`)];
    parts.sign.className = "sign";
    parts.sign.replaceChildren(...sign.filter((x) => x !== ""), ...(row.error ? [el("span", { className: "wrong" }, row.error)] : []));
    const left = leftOf(row);
    const tiles = [el("div", { className: "tile wide" }, el("div", { className: "quiet" }, "step"), el("b", {}, at), bar(row), el("div", { className: "quiet" }, [percent, left === null ? "" : `${spanOf(left)} left`].filter(Boolean).join(", "))),
      tile("train loss", show(row.train_loss)),
      tile("valid loss", show(row.valid_loss), row.valid_step ? `at ${counted(row.valid_step)}` : "")];
    if (row.metric && row.metric.name !== "loss") tiles.push(tile(`${row.metric.name} ${direction(row.metric.higher)}`, show(row.metric.last), isNumber(row.metric.best) ? `best ${number(row.metric.best)} at ${counted(row.metric.best_step)}` : ""));
    if (row.best_by) tiles.push(tile(`best ${row.best_by.name} ${direction(row.best_by.higher)}`, show(row.best_by.value), `at ${counted(row.best_by.step)}`));
    tiles.push(tile("learning rate", show(row.lr)), tile("gradient norm", show(row.grad_norm)), tile("items a second", show(row.items_per_s), isNumber(row.items) ? `${number(row.items)} seen` : ""),
      tile("time", isNumber(row.elapsed_s) ? spanOf(row.elapsed_s) : "–", Number.isFinite(ageOf(row)) ? `written ${roughly(ageOf(row))} ago` : ""));
    if (row.skipped > 0) tiles.push(tile("steps left out", counted(row.skipped)));
    parts.tiles.replaceChildren(...tiles);
  };

  // ---- curves: a large chart for the loss, a small one for each other number in the journal ------------------------------------
  const TITLES = { lr: "learning rate", grad_norm: "gradient norm", items_per_s: "items a second", memory_mb: "memory, MB" };
  const BESIDE = ["elapsed_s", "items"];
  const LAST = ["lr", "grad_norm", "items_per_s", "memory_mb"];
  const wishes = () => {
    const { splits } = curvesOf(id);
    const names = [...new Set(["valid", "train", "test"].flatMap((split) => Object.keys(splits[split] ?? {})))].filter((name) => !BESIDE.includes(name));
    const place = (name) => (name === "loss" ? -1 : LAST.includes(name) ? 100 + LAST.indexOf(name) : 0);
    return names.sort((a, b) => place(a) - place(b) || a.localeCompare(b));
  };
  let planned = false;
  const draw = () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      if (id === null) return;
      const names = wishes();
      for (const name of names) if (!drawn.has(name)) {
        const figure = el("div", { className: name === "loss" ? "figure whole" : "figure" }, el("h3", {}));
        parts.charts.append(figure);
        drawn.set(name, { figure, chart: makeChart(figure, { short: name !== "loss" }) });
      }
      for (const [name, { figure }] of drawn) if (!names.includes(name)) { figure.remove(); drawn.delete(name); }
      names.forEach((name, i) => { const { figure } = drawn.get(name); if (parts.charts.children[i] !== figure) parts.charts.insertBefore(figure, parts.charts.children[i] ?? null); });
      const row = known.runs.get(id);
      const higher = (name) => [row?.metric, row?.best_by].some((m) => m?.name === name && m.higher);
      for (const [name, { figure, chart }] of drawn) {
        const of = (split) => pointsOf(id, split, name, options.time);
        const [train, valid, test] = ["train", "valid", "test"].map(of);
        const smoothed = ["lr", "memory_mb"].includes(name) ? 0 : options.weight;
        const lines = [...linesOf("train", "var(--c0)", "", "train", train, smoothed), ...linesOf("valid", "var(--c1)", "", "valid", valid, 0), ...linesOf("test", "var(--c2)", "", "valid", test, 0)];
        const last = [["train", train], ["valid", valid], ["test", test]].filter(([, points]) => points.length > 0);
        figure.firstChild.replaceChildren(TITLES[name] ?? name.replaceAll("_", " "), ...last.flatMap(([split, points], i) => {
          const value = el("span", {}, ` ${split} ${number(points.at(-1).y)}`);
          value.style.color = `var(--c${["train", "valid", "test"].indexOf(split)})`;
          return TITLES[name] && i === 0 ? [el("span", { className: "quiet" }, ` ${number(points.at(-1).y)}`)] : [value];
        }));
        chart.draw(lines, { name: TITLES[name] ?? name, log: options.log, settled: options.settled && !["lr", "memory_mb"].includes(name), time: options.time, higher: higher(name) });
      }
    });
  };

  // ---- contents of the run folder ----------------------------------------------------------------------------------------------
  const pairs = (object) => {
    const flat = [];
    const walk = (prefix, value) => (value !== null && typeof value === "object" && !Array.isArray(value)
      ? Object.entries(value).forEach(([key, inner]) => walk(prefix ? `${prefix}.${key}` : key, inner))
      : flat.push([prefix, value !== null && typeof value === "object" ? JSON.stringify(value) : typeof value === "number" && !Number.isInteger(value) ? number(value) : String(value)]));
    walk("", object);
    return el("dl", { className: "pairs" }, ...flat.slice(0, 300).flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));
  };
  const fold = (title, open, ...children) => el("details", { open }, el("summary", {}, title), ...children);
  let before = "";
  const detail = async () => {
    const asking = id;
    let found;
    try { found = await api("run", asking); } catch { return; }
    const { run: row, ...rest } = found;
    const text = JSON.stringify(rest);
    if (asking !== id || text === before) return;
    before = text;
    const open = new Set([...parts.detail.querySelectorAll("details[open] > summary")].map((s) => s.textContent));
    const shown = [];
    if (found.notes.length) shown.push(section("Notes and warnings", el("ul", { className: "journal" }, ...found.notes.toReversed().map((note) => el("li", { "data-kind": note.kind }, el("span", { className: "quiet" }, `step ${counted(note.step)} `), note.text)))));
    if (found.samples.length) shown.push(section("Last samples", ...found.samples.toReversed().map((sample) => el("blockquote", {}, ...sample.flatMap(([key, value]) => (key === "step"
      ? [el("div", {}, `step ${counted(Number(value))}`)] : [el("div", { className: "quiet" }, key), el("pre", {}, value)]))))));
    if (found.checkpoints.length) {
      const rows = found.checkpoints.map((c) => el("tr", {}, el("th", { scope: "row" }, counted(c.step)), el("td", {}, [c.best ? "best" : "", c.latest ? "latest" : ""].filter(Boolean).join(", ")), el("td", { className: "number" }, sizeOf(c.bytes)), el("td", { className: "number" }, c.written === null ? "–" : new Date(c.written * 1000).toLocaleString())));
      const titles = el("tr", {}, ...["step", "", "size", "written"].map((t, i) => el("th", { scope: "col", className: i > 1 ? "number" : "" }, t)));
      shown.push(section("Checkpoints", region("Checkpoints", el("table", {}, el("thead", {}, titles), el("tbody", {}, ...rows)))));
    }
    if (Object.keys(found.scores).length) shown.push(section("Scores", el("div", { className: "card" }, pairs(found.scores))));
    if (found.log) shown.push(fold(`Log: ${found.log.name}`, open.has(`Log: ${found.log.name}`), el("div", { className: "card" }, el("pre", {}, found.log.text))));
    parts.detail.replaceChildren(...shown);
    if (found.has_diagnostics) inside();
  };
  const settings = async () => {
    const asking = id;
    let found;
    try { found = await api("settings", asking); } catch { return; }
    if (asking !== id) return;
    const changed = found.changes.map((c) => el("tr", {}, el("th", { scope: "row" }, c.key), el("td", {}, c.from ?? "–"), el("td", {}, c.to ?? "–"), el("td", { className: "number" }, counted(c.step))));
    const titles = el("tr", {}, ...["key", "before", "since", "step"].map((t, i) => el("th", { scope: "col", className: i === 3 ? "number" : "" }, t)));
    parts.settings.replaceChildren(...[
      changed.length ? section("Keys that changed on the way", region("Changes", el("table", {}, el("thead", {}, titles), el("tbody", {}, ...changed)))) : null,
      section("Settings"),
      found.resolved === null ? null : fold("Every key (resolved.toml)", false, el("div", { className: "card" }, el("pre", {}, found.resolved))),
      found.experiment === null ? null : fold("As it was written (experiment.toml)", false, el("div", { className: "card" }, el("pre", {}, found.experiment))),
      Object.keys(found.machine).length ? fold("Machine", false, el("div", { className: "card" }, pairs(found.machine))) : null,
      el("p", { className: "quiet" }, `Folder ${found.path}`)].filter(Boolean));
  };
  let diagnosed = {};
  const inside = async () => {
    const asking = id;
    try { diagnosed = await api("diagnostics", asking); } catch { return; }
    const names = Object.keys(diagnosed);
    if (asking !== id || names.length === 0) return;
    if (heat === null) {
      const [svg, tip, spoken, choice] = [node("svg", { tabindex: 0, role: "img" }), el("div", { className: "tip", hidden: true }), el("div", { className: "hidden", ariaLive: "polite" }), el("select", { ariaLabel: "quantity" })];
      choice.append(...names.map((name) => new Option(name.replaceAll("_", " "), name)));
      const plot = el("div", { className: "plot" });
      plot.append(svg, tip);
      parts.inside.replaceChildren(section("Inside the network", el("div", { className: "card" }, el("div", { className: "controls" }, el("label", {}, "quantity ", choice)), plot, spoken)));
      const map = heatMap(svg, tip, spoken);
      heat = () => map(diagnosed[choice.value] ?? { parts: [], steps: [], values: [] }, `${choice.value.replaceAll("_", " ")} of ${id}`);
      choice.addEventListener("input", heat);
    }
    heat();
  };

  // Files are read again when the journal has grown, at most every few seconds.
  let timer = null;
  const later = () => { timer ??= setTimeout(() => { timer = null; if (id !== null) detail(); }, 3000); };
  let state = null;
  const follow = () => {
    head();
    refresh(id).then(draw);
    const row = known.runs.get(id);
    if (row && row.state !== state) { state = row.state; settings(); }
  };
  onChange(({ runs, all }) => {
    if (id === null || !(all || runs.includes(id))) return;
    follow();
    later();
  });
  setInterval(() => { if (id !== null && !document.hidden) head(); }, 1000);

  const open = (next) => {
    if (next === id) return;
    [id, before, state] = [next, "", null];
    if (id === null) { root.replaceChildren(); return; }
    build();
    follow();
    detail();
    if (state === null) settings();
    $("title").focus({ preventScroll: true });
  };
  return { open, shown: () => id, toggleLog: () => { options.log = !options.log; parts.log.checked = options.log; draw(); } };
})();
