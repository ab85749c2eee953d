// What the graphs of a page show, as the address has it: a range that ends now or a fixed one, the zone of its times, and what
// it is compared with.

export const RANGES = { live: 300, '1h': 3600, '1d': 86400, '30d': 30 * 86400 } as const;
export type Range = keyof typeof RANGES;
export type Zone = 'local' | 'utc';
/** Seconds by which the past of a comparison is older. */
export const COMPARE = { day: 86400, week: 7 * 86400 } as const;
export type Compare = keyof typeof COMPARE;

export interface View {
  range: Range;
  /** Seconds since 1970; a fixed part of time in place of the range. */
  fixed: { from: number; to: number } | null;
  zone: Zone;
  compare: Compare | null;
}

/** The shortest part that can be zoomed into, in seconds. */
const LEAST = 10;

export function viewOf(query: URLSearchParams): View {
  const range = query.get('range') ?? '';
  const [from, to] = [Number(query.get('from')), Number(query.get('to'))];
  const compare = query.get('compare') ?? '';
  return {
    range: range in RANGES ? (range as Range) : 'live',
    fixed: from > 0 && to >= from + LEAST ? { from, to } : null,
    zone: query.get('zone') === 'utc' ? 'utc' : 'local',
    compare: compare in COMPARE ? (compare as Compare) : null,
  };
}

/** The parameters of a part of time, or of none. */
export function zoomed(from: number, to: number): Record<string, string> {
  const middle = (from + to) / 2;
  const half = Math.max(LEAST, to - from) / 2;
  return { from: String(Math.floor(middle - half)), to: String(Math.ceil(middle + half)) };
}
export const UNZOOMED = { from: null, to: null };

export function spanOf({ range, fixed }: View): number {
  return fixed ? fixed.to - fixed.from : RANGES[range];
}

const two = (number: number) => String(number).padStart(2, '0');
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

function parts(at: number, zone: Zone) {
  const time = new Date(at * 1000);
  return zone === 'utc'
    ? { day: time.getUTCDate(), month: time.getUTCMonth(), hour: time.getUTCHours(), minute: time.getUTCMinutes(), second: time.getUTCSeconds() }
    : { day: time.getDate(), month: time.getMonth(), hour: time.getHours(), minute: time.getMinutes(), second: time.getSeconds() };
}

/** The time of a tick of an axis; of many days, its day. */
export function tickOf(at: number, zone: Zone, span: number): string {
  const { day, month, hour, minute, second } = parts(at, zone);
  if (span > 2 * 86400 || (hour + minute === 0 && span > 3600)) return `${day} ${MONTHS[month]}`;
  return `${two(hour)}:${two(minute)}${second ? `:${two(second)}` : ''}`;
}

/** The time at the cursor: with its day where the span is longer than one, with seconds where it is short. */
export function stampOf(at: number, zone: Zone, span: number): string {
  const { day, month, hour, minute, second } = parts(at, zone);
  const date = span > 86400 / 2 ? `${day} ${MONTHS[month]} ` : '';
  return `${date}${two(hour)}:${two(minute)}${span <= 3600 ? `:${two(second)}` : ''}${zone === 'utc' ? ' UTC' : ''}`;
}
