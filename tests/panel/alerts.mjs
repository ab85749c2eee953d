// Alerts and the incidents that they belong to: what is red leads to its incident, and both are remembered when they are over.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { client } from './load.mjs';
import { looks } from './looks.mjs';
import { open, server, until, words } from './stage.mjs';
import { serve } from './weir.mjs';

let weir, stage, page, holder, waits;
const all = [];
const connect = async (name) => {
  const one = client(`postgresql://app@127.0.0.1:${weir.port}/shop?sslmode=disable&application_name=${name}`);
  one.on('error', () => {});
  await one.connect();
  all.push(one);
  return one;
};
const get = async (path) => (await fetch(`${weir.panel}api/v1/${path}`)).json();

before(async () => {
  weir = await serve(`[alerts]
for = "1s"
[auth]
type = "trust"
[auth.users]
app = ""
[pools.shop]
host = "127.0.0.1"
port = ${server.port}
database = ${JSON.stringify(server.database)}
user = ${JSON.stringify(server.user)}
password = ${JSON.stringify(server.password)}
size = 1
query_wait_timeout = "120s"
`);
  stage = await open({ panel: weir.panel });
  ({ page } = stage);
  holder = await connect('billing');
  const other = await connect('web');
  await holder.query('BEGIN; SELECT 1');
  waits = other.query('SELECT 1');
});
after(async () => {
  all.forEach((one) => one.connection?.stream?.destroy());
  await stage?.close();
  await weir?.stop();
});

const isCurrent = (of) => until('it is marked', async () => (await of.getAttribute('aria-current')) === 'true');
const query = () => new URLSearchParams(new URL(page.url()).hash.split('?')[1]);

test('what is red on the first screen leads to the incident', async () => {
  const incident = page.getByRole('region', { name: 'Incident of shop' });
  for (const red of [
    () => page.locator('[role=row] .why a').click(),
    () => page.locator('[role=row] .heat a').last().click(),
    () => page.getByRole('region', { name: 'State of all pools' }).getByRole('link', { name: /^shop: / }).click(),
    async () => {
      await page.getByRole('slider', { name: 'The last hour, by the minute' }).focus();
      await page.keyboard.press('Enter');
    },
  ]) {
    await stage.goTo('pools');
    await page.locator('[role=row] .why a').waitFor();
    await red();
    await incident.waitFor();
  }
  // The last one named the moment.
  assert.ok(query().has('at'));
  await isCurrent(incident);
  await stage.goTo('pools');
  await page.locator('[role=row] .heat a').last().waitFor();
  assert.deepEqual(await looks(page, 'alerts-overview'), []);
});

test('an alert that fires leads to its incident', async () => {
  await stage.goTo('alerts');
  const alert = page.getByRole('table', { name: 'Alerts', exact: true }).getByRole('row', { name: /stalled/ });
  await alert.getByRole('link', { name: 'Incident of shop' }).waitFor();
  assert.deepEqual(await looks(page, 'alerts-firing'), []);
  assert.equal(await page.getByRole('table', { name: /^Past alerts/ }).count(), 0);
  await alert.getByRole('link', { name: 'Incident of shop' }).click();
  await isCurrent(page.getByRole('region', { name: 'Incident of shop' }));
  const { alerts } = await get('alerts');
  assert.equal(Number(query().get('incident')), alerts.find(({ rule }) => rule === 'stalled').incident);
  assert.deepEqual(await looks(page, 'alerts-incident'), []);
});

test('an alert that is over is remembered with its times, and leads to the incident that is over', async () => {
  await holder.query('COMMIT');
  await waits;
  await until('both are over', async () => {
    const [{ alerts }, { incidents }] = [await get('alerts/past'), await get('incidents/past')];
    return alerts.length > 0 && incidents.length > 0 && ![...alerts, ...incidents].some(({ lasts }) => lasts);
  });
  const alert = (await get('alerts/past?pool=shop')).alerts.find(({ rule }) => rule === 'stalled');
  assert.deepEqual([alert.rule, alert.pool, alert.clients], ['stalled', 'shop', 1]);
  assert.ok(alert.since <= alert.fired && alert.fired <= alert.until, JSON.stringify(alert));
  assert.deepEqual((await get('alerts/past?pool=blog')).alerts, []);
  await stage.goTo('alerts');
  const row = page.getByRole('table', { name: /^Past alerts/ }).getByRole('row', { name: /stalled/ });
  await row.getByText('1 client', { exact: true }).waitFor();
  assert.deepEqual(await looks(page, 'alerts-past'), []);
  await row.getByRole('link', { name: 'Incident of shop' }).click();
  await isCurrent(page.getByRole('table', { name: /^Past incidents/ }).getByRole('row', { name: /stalled/ }));
  assert.deepEqual(await looks(page, 'alerts-past-incident'), []);
  await stage.goTo('incidents?incident=1');
  await page.getByText('The incident that this link leads to is not known any more.').waitFor();
  await words(page).link('Alerts').click();
});
