// What clients feel of a problem, in words.
import type { Felt } from './causes';
import { count, plural } from './format';
import { names } from './health.svelte';
import type { Affected } from './types';

export function feltBy({ clients, waiting, blocked, refused, unanswered, failed }: Felt, affected: Affected[]): string {
  if (clients === 0) return 'no client is affected yet';
  const parts = [waiting ? `${count(waiting)} waiting` : '', blocked ? `${count(blocked)} behind a lock` : '', refused ? `${count(refused)} refused` : '', unanswered ? `${count(unanswered)} without an answer` : '', failed ? `${count(failed)} with errors` : ''];
  const who = names(affected, clients);
  return `${plural(clients, 'client')} affected: ${parts.filter((part) => part).join(', ')}${who && `; ${who}`}`;
}
