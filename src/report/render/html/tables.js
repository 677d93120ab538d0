// ---- sortable tables: a header's button sorts, and reverses on the next click; ties keep their order -----
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const header = button.closest("th");
    const body = header.closest("table").tBodies[0];
    const rising = header.getAttribute("aria-sort") !== "ascending";
    for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const key = (row) => row.cells[header.cellIndex].dataset.value;
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === ""); // missing values stay last
      const [m, n] = [Number(x), Number(y)];
      const by = Number.isNaN(m) || Number.isNaN(n) ? x.localeCompare(y, "en", { numeric: true }) : m - n;
      return rising ? by : -by;
    };
    body.append(...[...body.rows].sort(order));
  });
}

// ---- filter for long tables: shows rows that contain all typed words ----------------------------------------------
for (const table of document.querySelectorAll("table")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length <= 8) continue;
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("span");
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  label.className = "filter";
  input.type = "search";
  input.placeholder = "words of a row";
  input.autocomplete = "off";
  count.setAttribute("aria-live", "polite");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => texts.get(row).includes(word));
      shown += !row.hidden;
    }
    count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
  label.append("show ", input, count);
  table.closest(".scroll").before(label);
}

