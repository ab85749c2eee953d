// Why a client keeps its server between transactions, in words.
import type { Pinned } from './types';

const KINDS: Record<string, string> = {
  settings: 'settings that can’t follow it',
  listen: 'LISTEN',
  statements: 'SQL’s PREPARE',
  cursors: 'a cursor WITH HOLD',
  temporary_objects: 'temporary objects',
  advisory_locks: 'an advisory lock',
};

/** A kind of state, as a user of PostgreSQL knows it. */
export const kindWord = (kind: string) => KINDS[kind] ?? kind.replaceAll('_', ' ');

/** What keeps it: `LISTEN, temporary objects`. */
export const kept = (pinned: Pinned) => pinned.by.map(({ kind }) => kindWord(kind)).join(', ');

/** The first statement that is known to have left something. */
export const leftBy = (pinned: Pinned) =>
  [...pinned.by].sort((a, b) => a.since - b.since).find(({ statement }) => statement)?.statement ?? null;
