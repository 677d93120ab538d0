// ---- navigation between the list and a run's page, and the page head --------------------------------------------------------
(() => {
  const runInAddress = () => {
    const found = location.hash.match(/^#\/run\/(.+)$/);
    if (!found) return null;
    try { return found[1].split("/").map(decodeURIComponent).join("/"); } catch { return null; }
  };
  const head = () => {
    const id = run.shown();
    const count = (state) => [...known.runs.values()].filter((r) => r.state === state).length;
    const training = count("training");
    say($("title"), id ?? `Runs in ${known.folder || "…"}`);
    document.title = id === null ? `${training > 0 ? `▶ ${training} ` : ""}${known.folder || "Runs"}` : `${MARKS[known.runs.get(id)?.state] ?? ""} ${id}`;
    $("summary").hidden = id !== null;
    if (id !== null) return;
    const states = STATES.map((state) => [count(state), state]).filter(([n]) => n > 0).map(([n, state]) => `${counted(n)} ${state}`);
    const reading = known.read < known.found ? ` Reading: ${counted(known.read)} of ${counted(known.found)} runs.` : "";
    const runs = known.runs.size;
    say($("summary"), `${counted(runs)} run${runs === 1 ? "" : "s"}${states.length ? `: ${states.join(", ")}` : ""}.${reading}`);
    say($("folder"), known.folder ? `Folder ${known.folder}.` : "");
  };
  let place = 0; // scroll position at which the list was left
  const turn = () => {
    const id = runInAddress();
    const before = run.shown();
    if (before === null && id !== null) place = scrollY;
    $("overview").hidden = id !== null;
    $("run").hidden = id === null;
    run.open(id);
    head();
    if (id === null) {
      overlay.draw();
      list.row(before)?.querySelector("a").focus({ preventScroll: true });
      scrollTo(0, place);
    } else if (before === null) scrollTo(0, 0);
  };
  addEventListener("hashchange", turn);
  onChange(head);
  turn();
  stream.open();
})();
