// ---- helpers for drawing curves --------------------------------------------------------------------------------
/** Returns the exponential moving average, with bias correction at the start. */
const smooth = (points, weight) => {
  let [sum, norm] = [0, 0];
  return points.map((p) => {
    sum = weight * sum + (1 - weight) * p.y;
    norm = weight * norm + (1 - weight);
    return { ...p, y: sum / norm };
  });
};

const span = (values, log) => {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) [low, high] = [Math.min(low, v), Math.max(high, v)];
  if (!Number.isFinite(low)) return [log ? 1 : 0, 10];
  if (low === high && log) return [low / 2, high * 2];
  const around = Math.abs(low) / 10 || 0.5;
  if (low === high) return [low - around, high + around];
  return [low, high];
};

const scale = ([low, high], [from, to], log) => {
  const f = log ? Math.log10 : (v) => v;
  const at = (v) => from + ((to - from) * (f(v) - f(low))) / (f(high) - f(low));
  at.back = (p) => {
    const v = f(low) + ((p - from) / (to - from)) * (f(high) - f(low));
    return log ? 10 ** v : v;
  };
  return at;
};

/** Returns about `n` round values inside a range. */
const ticks = ([low, high], n, log) => {
  if (log && high / low >= 10) {
    const found = [];
    const few = Math.log10(high / low) > 4;
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
      for (const m of few ? [1] : [1, 2, 5]) if (m * 10 ** e >= low && m * 10 ** e <= high) found.push(m * 10 ** e);
    return found;
  }
  const rough = (high - low) / n;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * unit).find((s) => s >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) found.push(i * step);
  return found;
};

const path = (points, x, y) => points.map((p, i) => `${i ? "L" : "M"}${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}`).join("");

