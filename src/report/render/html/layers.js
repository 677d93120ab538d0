// ---- inside the network: a heat map of parts by steps -------------------------------------------------------
(() => {
  const runs = data.layers;
  if (runs.length === 0) return;
  const show = heatMap($("layer-chart"), $("layer-tip"), $("layer-spoken"));
  for (const [i, run] of runs.entries()) $("layer-run").append(new Option(`${data.arms[run.arm].id} ${data.arms[run.arm].label}`, i));
  const names = [...new Set(runs.flatMap((run) => Object.keys(run.quantities)))];
  for (const name of names) $("layer-quantity").append(new Option(name.replaceAll("_", " "), name));
  const draw = () => {
    const run = runs[Number($("layer-run").value)];
    const quantity = run.quantities[$("layer-quantity").value] ?? { parts: [], steps: [], values: [] };
    show(quantity, `${$("layer-quantity").value.replaceAll("_", " ")} of ${run.run}`);
  };
  for (const id of ["layer-run", "layer-quantity"]) $(id).addEventListener("input", draw);
  draw();
})();
