// Lets keys open the menus and the branches of the navigation: the theme's buttons for them are labels of hidden
// checkboxes, which Tab does not reach.
const MENUS = { __navigation: ".sidebar-drawer", __toc: ".toc-drawer" };

for (const button of document.querySelectorAll("label[for]:not(.overlay)")) {
  const box = button.control;
  const menu = document.querySelector(MENUS[box.id] ?? "none");
  const showState = () => button.setAttribute("aria-expanded", box.checked);
  button.setAttribute("role", "button");
  button.setAttribute("aria-label", box.getAttribute("aria-label"));
  button.tabIndex = 0;
  box.addEventListener("change", showState);
  showState();

  button.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    box.click();
    if (box.checked && menu) [...menu.querySelectorAll("a[href]")].find((link) => link.checkVisibility()).focus();
  });
  menu?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !box.checked || !button.checkVisibility()) return;
    box.click();
    button.focus();
  });
  menu?.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !menu.contains(relatedTarget) && box.checked) box.click();
  });
}
