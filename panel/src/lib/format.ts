// Figures as people read them: few digits, the unit that fits, nothing where nothing is known.

const NONE = '–';
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? NONE : whole.format(value);
}

export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  return value < 10 ? tenths.format(value) : whole.format(value);
}

export function milliseconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return NONE;
  if (value >= 60_000) return span(value / 1000);
  if (value >= 1000) return `${tenths.format(value / 1000)} s`;
  if (value >= 100) return `${whole.format(value)} ms`;
  if (value >= 1 || value === 0) return `${tenths.format(value)} ms`;
  return `${whole.format(value * 1000)} µs`;
}

export function span(seconds: number): string {
  if (seconds < 1) return milliseconds(seconds * 1000);
  if (seconds < 60) return `${tenths.format(seconds)} s`;
  if (seconds < 3600) return parts(seconds, 60, 'min', 1, 's');
  if (seconds < 86400) return parts(seconds, 3600, 'h', 60, 'min');
  return parts(seconds, 86400, 'd', 3600, 'h');
}

/** Two units, the smaller one only where there is some of it. */
function parts(seconds: number, large: number, largeName: string, small: number, smallName: string): string {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ''}`;
}

/** In whole seconds: what is newer changes too often to be read. */
export function ago(unix: number): string {
  const seconds = Math.floor(Math.max(0, Date.now() / 1000 - unix));
  return seconds < 1 ? 'a moment' : span(seconds);
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? NONE : `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
}

/** Shares as texts that add up to the whole, 1 unless it is less, in tenths of a per cent: the largest remainders are rounded up. */
export function percents(shares: number[], whole = 1): string[] {
  const tenths = shares.map((share) => share * 1000);
  const least = tenths.map(Math.floor);
  let left = Math.round(whole * 1000) - least.reduce((sum, part) => sum + part, 0);
  const order = tenths.map((part, index) => [part - Math.floor(part), index] as const).sort(([a], [b]) => b - a);
  for (const [, index] of order) {
    if (left <= 0) break;
    least[index] = (least[index] ?? 0) + 1;
    left -= 1;
  }
  return least.map((part) => `${(part / 10).toFixed(1)} %`);
}

/** Made when the first is wanted: each takes a browser milliseconds, and the overview needs none. */
const clocks = new Map<string, Intl.DateTimeFormat>();

/** Seconds since 1970 as the time of day; of another day, with its date. */
export function clock(at: number): string {
  const [day, time] = when(at, 'second').split(' ');
  return day === when(Date.now() / 1000, 'second').split(' ')[0] ? (time ?? '') : `${day} ${time}`;
}

/** Weir's own texts have times in UTC; a page has one clock, that of its reader. */
export function local(text: string): string {
  return text.replace(/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/g, (at) => clock(Date.parse(`${at.slice(0, 10)}T${at.slice(11, 19)}Z`) / 1000));
}

/** With an end, as something may follow. */
export const sentence = (text: string): string => (/[.!?]$/.test(text) ? text : `${text}.`);

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Seconds since 1970 as a day and its time, to the minute or the second. */
export function when(at: number, to: 'minute' | 'second'): string {
  const timeStyle = to === 'minute' ? 'short' : 'medium';
  const clock = clocks.get(to) ?? new Intl.DateTimeFormat('sv-SE', { dateStyle: 'short', timeStyle });
  clocks.set(to, clock);
  return clock.format(at * 1000);
}
