// The data of a graph: what is in its part of time, lines stacked on each other where they are layers, and an earlier past at
// the same moments.
import type { Past } from '../lib/watch.svelte';

export interface Line {
  /** The name in the past. */
  name: string;
  label: string;
  /** A colour's token. */
  ink: string;
  fill?: boolean;
  dash?: boolean;
}

type Values = (number | null)[];

export interface Made {
  times: number[];
  /** What each line says, and where it is drawn. */
  values: Values[];
  drawn: Values[];
  /** Where each line was before. */
  before: Values[];
}

/** More moments than these are no more than a blur: neighbours become one. */
const MOST = 720;
/** Seconds that an earlier moment may be away; a minute's figure stands for the minute. */
const AWAY = 1900;

export function dataOf(lines: Line[], past: Past, earlier: Past, [from, to]: [number, number], stack: boolean): Made {
  const begin = firstFrom(past.at, from);
  const end = firstFrom(past.at, to + 1e-3);
  const each = Math.ceil((end - begin) / MOST);
  // In the same groups at each second, or the picture would flicker.
  const first = each > 1 ? begin + ((each - (Math.floor(past.at[begin] ?? 0) % each)) % each) : begin;
  const times = everyNth(past.at.slice(first, end), each);
  const nothing = () => times.map(() => null);
  const values = lines.map(({ name }) => {
    const of = past.series[name]?.slice(first, end);
    return of ? merged(of, each, stack) : nothing();
  });
  const olds = earlier.at.length ? lines.map(({ name }) => atTimes(times, earlier.at, earlier.series[name] ?? [])) : lines.map(nothing);
  return stack ? { times, values, drawn: stacked(values), before: stacked(olds) } : { times, values, drawn: values, before: olds };
}

function everyNth(times: number[], each: number): number[] {
  return each > 1 ? times.filter((_, index) => index % each === 0) : times;
}

/** Groups of neighbours: layers by their mean, so that sums stay sums, other lines by the most, which a mean would hide. */
function merged(values: Values, each: number, mean: boolean): Values {
  if (each <= 1) return values;
  const groups: Values = [];
  for (let from = 0; from < values.length; from += each) {
    const known = values.slice(from, from + each).filter((value) => value !== null);
    const one = mean ? known.reduce((sum, value) => sum + value, 0) / known.length : Math.max(...known);
    groups.push(known.length ? one : null);
  }
  return groups;
}

/** The index of the first moment that is not before this one. */
function firstFrom(at: number[], from: number): number {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((at[middle] ?? 0) < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The latest known value at each of the moments. */
function atTimes(times: number[], at: number[], values: Values): Values {
  let next = 0;
  return times.map((time) => {
    while (next < at.length && (at[next] ?? 0) <= time) next += 1;
    const index = next - 1;
    return index >= 0 && time - (at[index] ?? 0) < AWAY ? (values[index] ?? null) : null;
  });
}

/** Each on top of those before it. */
function stacked(values: Values[]): Values[] {
  const sums: number[] = [];
  return values.map((of) => of.map((value, index) => {
    if (value === null) return null;
    sums[index] = (sums[index] ?? 0) + value;
    return sums[index];
  }));
}

/** Each layer but the lowest with the one below it, by their numbers among the series. */
export function floors(layers: number): [upper: number, lower: number][] {
  return Array.from({ length: Math.max(0, layers - 1) }, (_, layer) => [layer + 2, layer + 1]);
}
