// Before anything is painted: the theme that was chosen last time, so that the page does not flash.
try {
  const chosen = localStorage.getItem("airpool-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Without storage the theme is the system's.
}
