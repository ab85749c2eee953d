// Asking again and again while somebody looks.

/** Asks now and then every so often, but not while the page is out of sight; until the answer is called. */
export function every(milliseconds: number, ask: () => Promise<void>): () => void {
  void ask();
  const timer = setInterval(() => {
    if (!document.hidden) void ask();
  }, milliseconds);
  return () => clearInterval(timer);
}
