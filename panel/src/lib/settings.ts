// The settings of the process in groups, in words and with their units, for the page of settings and the search.
import type { Setting } from './types';

export interface Group {
  section: string;
  title: string;
  purpose: string;
  settings: Setting[];
}

/** Sections of weir.toml by what they are about, in the order of the page. */
const TITLES: Record<string, string> = {
  limits: 'Sizes, limits and timeouts',
  general: 'The process',
  listen: 'Listening',
  auth: 'Authentication',
  'tls.client': 'Encryption to clients',
  'tls.server': 'Encryption to servers',
  web: 'API and panel',
  log: 'Logging',
  dns: 'Host names',
  process: 'Operating system',
  pgbouncer: 'Without effect here',
};

/** Permissions are shown as a number, and their default in octal, as PgBouncer does. */
const same = (value: string, usual: string) => value === usual || (/^0[0-7]+$/.test(usual) && Number.parseInt(usual, 8) === Number(value));
export const differs = (setting: Setting) => setting.default !== null && !same(setting.value, setting.default);
/** By the table of settings. One that has no effect here waits for nothing. */
export const needsRestart = (setting: Setting) => setting.effect === 'restart' && setting.section !== 'pgbouncer';
/** The API does not change it, and a reload of the file does. */
export const onlyInFile = (setting: Setting) => setting.effect !== 'restart' && !setting.changeable && setting.section !== 'pgbouncer';

export function groups(settings: Setting[]): Group[] {
  const all = new Map<string, Group>();
  const order = Object.keys(TITLES);
  for (const setting of settings) {
    const section = setting.section ?? 'general';
    const group = all.get(section) ?? { section, title: TITLES[section] ?? section, purpose: plainOf(setting.purpose ?? ''), settings: [] };
    group.settings.push(setting);
    all.set(section, group);
  }
  const place = ({ section }: Group) => (order.includes(section) ? order.indexOf(section) : order.length);
  return [...all.values()].sort((a, b) => place(a) - place(b));
}

/** Markdown as text. */
export function plainOf(markdown: string): string {
  return markdown.replaceAll('`', '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
}

/** The first sentence of a description, and the rest. */
export function split(description: string): [line: string, rest: string] {
  const text = plainOf(description);
  const end = /[.;:](?= |$)/.exec(text.slice(20));
  if (!end) return [text, ''];
  const at = end.index + 20;
  const line = `${text.slice(0, at)}.`;
  const rest = text.slice(at + 1).trim();
  return [line, rest];
}

/** A value with its unit, or in words. */
export function valueOf({ key, kind, value }: Setting): string {
  return inWords(key, kind, value);
}

export function defaultOf({ key, kind, default: value }: Setting): string {
  return inWords(key, kind, value ?? '');
}

/** A value of a kind with its unit. */
export function inWords(key: string, kind: string | undefined, value: string): string {
  if (value === '') return 'none';
  if (kind === 'flag') return value === '1' ? 'on' : 'off';
  if (kind === 'time' && /^[\d.]+$/.test(value)) return timeOf(Number(value));
  if (kind === 'size' && /^\d+$/.test(value)) return sizeOf(Number(value));
  if (kind === 'number' && /^\d{5,}$/.test(value) && !key.endsWith('port')) return Number(value).toLocaleString('en').replaceAll(',', ' ');
  return value;
}

function timeOf(seconds: number): string {
  if (seconds === 0) return '0 s';
  for (const [unit, length] of [['d', 86400], ['h', 3600], ['min', 60]] as const) {
    if (seconds >= length && seconds % length === 0) return `${seconds / length} ${unit}`;
  }
  return seconds < 1 ? `${seconds * 1000} ms` : `${seconds} s`;
}

function sizeOf(bytes: number): string {
  for (const [unit, length] of [['GiB', 2 ** 30], ['MiB', 2 ** 20], ['KiB', 2 ** 10]] as const) {
    if (bytes >= length && bytes % length === 0) return `${bytes / length} ${unit}`;
  }
  return `${bytes} B`;
}

/** What a field accepts, in a few words. */
export function unitOf({ kind, words }: Setting): string {
  if (kind === 'time') return 'a time, as in 30, 500ms, 5min';
  if (kind === 'size') return 'a size, as in 64MiB';
  if (kind === 'flag') return '1 (on) or 0 (off)';
  if (kind === 'word') return (words ?? []).join(', ');
  if (kind === 'list') return 'several with commas';
  return '';
}
