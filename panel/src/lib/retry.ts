// Has pools that cannot connect try at once, and pools that are paused go on.
import { inTurn } from './bulk';
import { poolPath, post } from './api';
import { plural } from './format';
import { notices } from './notices.svelte';
import type { Cause } from './causes';

export async function tryNow({ title, pools }: Cause) {
  const outcome = await inTurn(pools, ({ pool }) => post(poolPath(pool, '/retry')));
  const who = pools.length === 1 ? title : plural(outcome.done, 'pool');
  if (outcome.done > 0) notices.say(`${who} ${outcome.done === 1 ? 'tries' : 'try'} to connect`, 'The state shows the result within a second or two.');
  if (outcome.error) notices.fail(outcome.failed === 1 ? `${title}: try now` : `${plural(outcome.failed, 'pool')} of ${title}: try now`, outcome.error);
}

export async function resumeNow({ title, pools }: Cause) {
  const outcome = await inTurn(pools, ({ pool }) => post(poolPath(pool, '/resume')));
  if (outcome.done > 0) notices.say(outcome.done === 1 ? `${title} is resumed` : `${plural(outcome.done, 'pool')} are resumed`);
  if (outcome.error) notices.fail(`${title}: resume`, outcome.error);
}
