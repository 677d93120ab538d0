// ---- theme: the reader's system decides until the button does; kept where the browser keeps things -------------
(() => {
  const root = document.documentElement;
  const button = $("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("formwork-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("formwork-theme", theme); } catch { /* a page from a file may not */ } };
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const show = () => {
    button.textContent = dark() ? "light" : "dark";
    button.setAttribute("aria-label", `Switch to the ${dark() ? "light" : "dark"} theme`);
    root.classList.toggle("dark", dark());
  };
  if (["light", "dark"].includes(kept())) root.dataset.theme = kept();
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    keep(root.dataset.theme);
    show();
  });
  system.addEventListener("change", show);
  button.hidden = false;
  show();
})();

