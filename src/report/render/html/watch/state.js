// ---- data from the server: rows of runs and sweeps, and curves of the viewed runs -----------------------------------
const known = { runs: new Map(), sweeps: new Map(), curves: new Map(), folder: "", read: 0, found: 0, version: null, skew: 0 };
const listeners = [];
/** Registers `listener({runs, sweeps, all})`, which is called with the ids that changed. */
const onChange = (listener) => listeners.push(listener);
/** Returns a run's id encoded for an address. */
const inAddress = (id) => id.split("/").map(encodeURIComponent).join("/");
const api = async (what, id, query = "") => {
  const answer = await fetch(`/api/${what}/${inAddress(id)}${query}`);
  if (!answer.ok) throw new Error(`${what}: ${answer.status}`);
  return answer.json();
};

/** Creates an element with properties and children; strings become text nodes only. */
const el = (name, properties = {}, ...children) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined) continue;
    if (key in made && key !== "list") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};
/** Sets a text only if it differs, so that a selection is kept. */
const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };

// ---- times ---------------------------------------------------------------------------------------------------------
/** Formats a duration in its two largest units. */
const spanOf = (s) => {
  if (!Number.isFinite(s) || s < 0) return "–";
  if (s < 60) return `${Math.round(s)} s`;
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${two((s % 86400) / 3600)} h`;
};
/** Formats a duration in its largest unit. */
const roughly = (s) => (s < 60 ? `${Math.max(0, Math.round(s))} s` : s < 3600 ? `${Math.floor(s / 60)} min` : s < 86400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86400)} d`);
/** Returns the seconds since 1970 by the server's clock, which may differ from the browser's. */
const now = () => Date.now() / 1000 + known.skew;
const ageOf = (run) => (run.written === null || run.written === undefined ? Infinity : Math.max(0, now() - run.written));
/** Returns the seconds left: the estimate at the last journal line minus the time since (at most a minute). */
const leftOf = (run) => (run.left_s === null || run.left_s === undefined ? null : Math.max(0, run.left_s - Math.min(ageOf(run), 60)));
const sizeOf = (bytes) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (bytes >= 1024 && i < units.length - 1) { bytes /= 1024; i++; }
  return `${i === 0 ? bytes : Number(bytes.toPrecision(3))} ${units[i]}`;
};
const isNumber = (x) => typeof x === "number" && Number.isFinite(x);
const show = (x) => (isNumber(x) ? number(x) : "–");

// ---- the stream of changes: after an interruption the browser, or the timer, continues from the last version ------------
const take = (body) => {
  if (body.reset) {
    const there = new Set(body.runs.map((run) => run.id));
    const sweeps = new Set(body.sweeps.map((sweep) => sweep.id));
    for (const id of known.runs.keys()) if (!there.has(id)) known.runs.delete(id);
    for (const id of known.sweeps.keys()) if (!sweeps.has(id)) known.sweeps.delete(id);
    known.curves.clear();
  }
  const changed = { runs: [], sweeps: [], all: body.reset };
  for (const name of body.gone) {
    const [kind, id] = [name.slice(0, name.indexOf(":")), name.slice(name.indexOf(":") + 1)];
    (kind === "run" ? known.runs : known.sweeps).delete(id);
    (kind === "run" ? changed.runs : changed.sweeps).push(id);
    if (kind === "run") known.curves.delete(id);
  }
  for (const run of body.runs) { known.runs.set(run.id, run); changed.runs.push(run.id); }
  for (const sweep of body.sweeps) { known.sweeps.set(sweep.id, sweep); changed.sweeps.push(sweep.id); }
  Object.assign(known, { folder: body.folder, read: body.read, found: body.found, version: body.version, skew: body.now - Date.now() / 1000 });
  for (const listener of listeners) listener(changed);
};

const stream = (() => {
  let source = null;
  let timer = null;
  const live = (state, text, why) => { const sign = $("live"); sign.dataset.state = state; say(sign, text); sign.title = why; };
  const open = () => {
    clearTimeout(timer);
    if (source !== null) source.close();
    source = new EventSource(`/api/events${known.version === null ? "" : `?since=${known.version}`}`);
    source.addEventListener("open", () => live("live", "live", "The page follows the folder."));
    source.addEventListener("rows", (event) => take(JSON.parse(event.data)));
    source.addEventListener("error", () => {
      live("lost", "not connected", "formwork watch does not answer; the page tries again and shows what it knows.");
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, 5000);
    });
  };
  // Browsers limit connections per server, so a hidden page closes its own.
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (document.visibilityState === "visible") open();
    else timer = setTimeout(() => { source.close(); live("lost", "asleep", "The page was hidden."); }, 20000);
  });
  return { open };
})();

// ---- curves: complete at first, then only their new points ---------------------------------------------------------------
/** Returns the curves of a run received so far: `{key, last, splits: {split: {metric: points}}}`. */
const curvesOf = (id) => known.curves.get(id) ?? { key: null, last: 0, splits: {} };
const asked = new Map(); // pending requests by run; requests made meanwhile are merged into one that follows
const refresh = (id) => {
  const open = asked.get(id);
  if (open) { open.again = true; return open.done; }
  const wish = { again: false };
  wish.done = (async () => {
    do {
      wish.again = false;
      const has = curvesOf(id);
      try {
        const answer = await api("curves", id, has.key === null ? "" : `?key=${has.key}&after=${has.last}`);
        const splits = answer.whole ? {} : has.splits;
        for (const [split, metrics] of Object.entries(answer.splits)) {
          splits[split] ??= {};
          for (const [metric, { from, points }] of Object.entries(metrics)) {
            const old = splits[split][metric] ?? [];
            old.length = Math.min(old.length, from);
            old.push(...points);
            splits[split][metric] = old;
          }
        }
        if (known.runs.has(id)) known.curves.set(id, { key: answer.key, last: answer.last_step, splits });
      } catch { /* the run or the server has gone; the stream reports which */ }
    } while (wish.again);
    asked.delete(id);
  })();
  asked.set(id, wish);
  return wish.done;
};

/** Returns the points `{step, x, y, low, high}` of a curve over steps or seconds, without values that are not numbers. */
const pointsOf = (id, split, metric, overTime) => {
  const { splits } = curvesOf(id);
  const clock = overTime ? clockOf(splits) : null;
  const points = (splits[split]?.[metric] ?? []).map(([step, y, low, high]) => ({ step, x: overTime ? clock(step) : step, y, low, high }));
  return points.filter((p) => isNumber(p.y) && isNumber(p.x));
};
/** Returns a function from step to wall time in seconds, interpolated between the journal's clock readings. */
const clockOf = (splits) => {
  const read = [...(splits.train?.elapsed_s ?? []), ...(splits.valid?.elapsed_s ?? [])].filter(([, t]) => isNumber(t));
  read.sort((a, b) => a[0] - b[0]);
  return (step) => {
    const after = read.findIndex(([s]) => s >= step);
    if (after < 0) return read.length ? read.at(-1)[1] : null;
    if (after === 0) return (read[0][1] * step) / Math.max(read[0][0], 1);
    const [[s0, t0], [s1, t1]] = [read[after - 1], read[after]];
    return s1 === s0 ? t1 : t0 + ((t1 - t0) * (step - s0)) / (s1 - s0);
  };
};
