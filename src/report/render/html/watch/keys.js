// ---- keyboard shortcuts, the same in the list and on a run's page ---------------------------------------------------------
(() => {
  const help = $("help");
  const openHelp = () => { if (!help.open) help.showModal(); };
  $("help-button").addEventListener("click", openHelp);
  help.addEventListener("click", (event) => { if (event.target === help) help.close(); });

  /** Returns the focused run, or the one whose page is open. */
  const here = () => document.activeElement?.closest("tr[data-run]")?.dataset.run ?? run.shown();
  const move = (by) => {
    const order = list.order();
    if (order.length === 0) return;
    const at = order.indexOf(here());
    const next = order[at < 0 ? (by > 0 ? 0 : order.length - 1) : Math.min(Math.max(at + by, 0), order.length - 1)];
    if (run.shown() !== null) { location.hash = `#/run/${inAddress(next)}`; return; }
    list.row(next).querySelector("a").focus();
    list.row(next).scrollIntoView({ block: "nearest" });
  };
  const isField = (element) => element?.matches("input:not([type=checkbox]), select, textarea");

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const focused = document.activeElement;
    if (event.key === "Escape") {
      if (focused === $("filter")) { if ($("filter").value) { $("filter").value = ""; list.arrange(); } else focused.blur(); }
      else if (run.shown() !== null) location.hash = "#/";
      return;
    }
    if (isField(focused)) return;
    // Arrow keys scroll unless a row has the focus.
    const inRow = focused?.closest("tr[data-run]");
    const actions = {
      "?": openHelp,
      "/": () => { if (run.shown() !== null) location.hash = "#/"; $("filter").focus(); $("filter").select(); },
      j: () => move(1),
      k: () => move(-1),
      l: () => (run.shown() === null ? overlay.toggleLog() : run.toggleLog()),
      ArrowDown: inRow ? () => move(1) : null,
      ArrowUp: inRow ? () => move(-1) : null,
      x: inRow ? () => overlay.choose(here(), !overlay.chosen(here())) : null,
      " ": inRow && focused.matches("a") ? () => overlay.choose(here(), !overlay.chosen(here())) : null,
    };
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (!action) return;
    event.preventDefault();
    action();
  });
})();
