// What clients feel of a problem, in words.
import type { Cause, Felt } from './causes';
import { clock, count, plural } from './format';
import { names } from './health.svelte';
import type { Affected } from './types';

/** What is not seen any more is said to be so, and what clients felt then is not. */
export function feltNow({ unseen, felt, affected }: Cause): string {
  return unseen === null ? feltBy(felt, affected) : `since ${clock(unseen)} no more`;
}

/** Refusals are counted apart from clients: one that tries again is refused again. */
export function feltBy({ clients, waiting, blocked, refused, refused_clients, unanswered, failed, slowed }: Felt, affected: Affected[]): string {
  if (clients === 0 && refused === 0) return 'no client is affected now';
  const parts = [waiting ? `${count(waiting)} waiting` : '', blocked ? `${count(blocked)} blocked` : '', unanswered ? `${count(unanswered)} without an answer` : '', failed ? `${count(failed)} with errors` : '', slowed ? `${count(slowed)} with a query that runs` : ''];
  const here = waiting + blocked + unanswered + failed + slowed;
  const who = names(affected, refused > 0 ? 0 : clients);
  const affects = `${plural(here || clients, 'client')} affected`;
  const felt = here > 0 ? `${affects}: ${parts.filter((part) => part).join(', ')}` : refused === 0 ? affects : '';
  const of = refused_clients > 0 ? ` (${plural(refused_clients, 'application or address', 'applications or addresses')}, each with all its clients)` : '';
  const refusals = refused > 0 ? `${plural(refused, 'refused try', 'refused tries')}${of}` : '';
  return `${[felt, refusals].filter((part) => part).join('; ')}${who && `; ${who}`}`;
}
