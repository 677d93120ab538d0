// ---- curves of several runs laid over each other --------------------------------------------------------------------------
const overlay = (() => {
  const chart = makeChart($("overlay-chart"));
  const places = new Map(); // colour number by run, fixed while the run is shown
  const MOST = 32;
  let begun = false;
  const keep = () => { try { sessionStorage.setItem(`formwork-runs ${known.folder}`, JSON.stringify([...places.keys()])); } catch { /* the browser may have no storage */ } };
  const kept = () => { try { return JSON.parse(sessionStorage.getItem(`formwork-runs ${known.folder}`)); } catch { return null; } };
  const free = () => { const taken = new Set(places.values()); let n = 0; while (taken.has(n)) n++; return n; };
  const colors = () => new Map([...places].map(([id, place]) => [id, colorOf(place)]));

  /** Returns the metrics of the shown runs: the loss first, then those of evaluations, then the rest. */
  const metrics = () => {
    const names = new Set();
    for (const split of ["valid", "train"]) for (const id of places.keys())
      for (const metric of Object.keys(curvesOf(id).splits[split] ?? {})) if (metric !== "elapsed_s") names.add(metric);
    return ["loss", ...[...names].filter((name) => name !== "loss")];
  };
  const offer = () => {
    const [now, names] = [$("metric").value || "loss", metrics()];
    if ([...$("metric").options].map((o) => o.value).join() !== names.join()) {
      $("metric").replaceChildren(...names.map((name) => new Option(name, name)));
      $("metric").value = names.includes(now) ? now : "loss";
    }
  };
  const higherOf = (metric) => [...known.runs.values()].some((run) => [run.metric, run.best_by].some((m) => m?.name === metric && m.higher));

  let planned = false;
  const draw = () => {
    if (planned) return;
    planned = true;
    requestAnimationFrame(() => {
      planned = false;
      if ($("overview").hidden) return;
      offer();
      const [metric, time, weight] = [$("metric").value, $("axis").value === "time", Number($("weight").value)];
      const lines = [...places].flatMap(([id, place]) => ["train", "valid"].filter((split) => $(split).checked).flatMap((split) =>
        linesOf(`${id} ${split}`, colorOf(place), dashOf(place), split, pointsOf(id, split, metric, time), weight)));
      const empty = places.size === 0 ? "choose runs below to lay their curves over each other" : "nothing measured yet";
      chart.draw(lines, { name: metric, log: $("logy").checked, settled: $("settled").checked, time, higher: higherOf(metric), empty });
    });
  };
  const legend = () => {
    $("legend").replaceChildren(...[...places].map(([id, place]) => {
      const swatch = node("svg", { class: "swatch", viewBox: "0 0 26 12", "aria-hidden": "true" });
      node("line", { x1: 0, x2: 26, y1: 6, y2: 6, stroke: colorOf(place), "stroke-width": 4, "stroke-dasharray": dashOf(place) }, swatch);
      const button = el("button", { type: "button", title: "take away", ariaLabel: `take ${id} away` }, swatch, id, el("span", { className: "quiet", ariaHidden: "true" }, "×"));
      button.addEventListener("click", () => choose(id, false));
      return button;
    }));
    if (places.size > 1) { const none = el("button", { type: "button" }, "none"); none.addEventListener("click", () => { places.clear(); chosen(); }); $("legend").append(none); }
  };
  const chosen = () => { keep(); legend(); list.mark(colors()); draw(); };
  const choose = (id, on) => {
    if (on && !places.has(id) && places.size < MOST) { places.set(id, free()); refresh(id).then(draw); }
    if (!on) places.delete(id);
    chosen();
  };
  /** Chooses the runs shown at the start: those shown before, else runs in training, else the newest. */
  const begin = () => {
    begun = true;
    const before = (kept() ?? []).filter((id) => known.runs.has(id));
    const sound = [...known.runs.values()].filter((run) => run.state !== "unreadable").sort((a, b) => ageOf(a) - ageOf(b));
    const training = sound.filter((run) => run.state === "training");
    const first = before.length ? before : (training.length ? training : sound).slice(0, 5).map((run) => run.id);
    for (const id of first.slice(0, MOST)) { places.set(id, free()); refresh(id).then(draw); }
    chosen();
  };
  onChange(({ runs, all }) => {
    if (!begun && known.found > 0 && known.read === known.found) { begin(); return; }
    let gone = false;
    for (const id of [...places.keys()]) if (!known.runs.has(id)) { places.delete(id); gone = true; }
    if (gone || all) chosen();
    for (const id of all ? places.keys() : runs) if (places.has(id)) refresh(id).then(draw);
  });
  for (const id of ["metric", "axis", "valid", "train", "weight", "logy", "settled"]) $(id).addEventListener("input", draw);
  return { choose, chosen: (id) => places.has(id), paint: (id) => { if (places.has(id)) list.paint(id, colorOf(places.get(id))); }, draw, toggleLog: () => { $("logy").checked = !$("logy").checked; draw(); } };
})();
