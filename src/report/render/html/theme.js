// ---- theme: follows the system until the button is used; the choice is kept in local storage -------------------
(() => {
  const root = document.documentElement;
  const button = $("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const kept = () => { try { return localStorage.getItem("formwork-theme"); } catch { return null; } };
  const keep = (theme) => { try { localStorage.setItem("formwork-theme", theme); } catch { /* a page opened from a file may have no storage */ } };
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

