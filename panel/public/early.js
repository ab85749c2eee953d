// Before the page's program is here. The theme that was chosen, so that nothing is painted in the other one; and the first
// questions, whose answers come meanwhile: api.ts takes them from here instead of asking again.
try {
  const theme = localStorage.getItem('weir-theme');
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be forbidden; then the system's theme holds.
}

globalThis.weirAsked = {};
for (const path of ['me', /^(#\/?(pools)?)?(\?|$)/.test(location.hash) ? 'pools?limit=50' : '']) {
  if (path === '') continue;
  const answer = fetch(`api/v1/${path}`, { headers: { Accept: 'application/json' }, credentials: 'same-origin' });
  // Whoever takes it hears of it.
  answer.catch(() => {});
  globalThis.weirAsked[path] = answer;
}
