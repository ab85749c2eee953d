// Before anything is painted: the theme that was chosen here, so that the page does not flash in the other one.
try {
  const theme = localStorage.getItem('weir-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; then the system's theme holds.
}
