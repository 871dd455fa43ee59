// Before anything is painted: the theme that was chosen last time and whether the introduction was read, so that the
// page neither flashes nor jumps.
try {
  const chosen = localStorage.getItem("airpool-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  if (localStorage.getItem("airpool-intro") === "done") document.documentElement.dataset.intro = "done";
} catch {
  // Without storage the theme is the system's.
}
