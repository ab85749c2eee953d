// The page of a cluster: only there with [cluster]; its figures are those of the API. A node that reaches no etcd has the page, too;
// the answers of a cluster of three are given here, so that no etcd is needed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { looks } from './looks.mjs';
import { inBrowser, words } from './stage.mjs';
import { serve } from './weir.mjs';

/** Nothing listens on port 1. */
const NODE = '[cluster]\netcd = ["http://127.0.0.1:1"]\nname = "demo"\nnode = "node1"\n';
const AUTH = '[auth]\ntype = "trust"\n';

const node = (name, state, revision, refused = '') => ({
  name, version: '1.0.0', state, config_revision: revision, config_refused: refused, heartbeat_unchanged_seconds: state === 'lost' ? 75 : 0,
});
const share = (name, share, shortfall, oldest) => ({ node: name, share, floor: 1, shortfall, oldest_wait_seconds: oldest });
const CLUSTER = {
  cluster: 'demo', node: 'node1', standing: 'member', config_revision: 9, config_refused: '',
  nodes: [node('node1', 'member', 9), node('node2', 'member', 7, 'revision 9: /etc/weir/app.password: No such file or directory'), node('node3', 'lost', 7)],
  pools: [
    { name: 'idle', budget: 20, shares: [share('node1', 2, 0, 0)] },
    { name: 'app', budget: 12, shares: [share('node1', 8, 3, 1.5), share('node2', 3, 1, 65), share('node3', 1, 0, 0)] },
  ],
};

async function withNode(text, then) {
  const weir = await serve(text);
  try {
    await inBrowser({ panel: weir.panel }, then);
  } finally {
    await weir.stop();
  }
}

test('without a cluster neither the bar nor the search has its page', () => withNode(AUTH, async ({ page, goTo }) => {
  await goTo('cluster');
  await page.getByRole('heading', { name: 'This Weir is not part of a cluster' }).waitFor();
  assert.equal(await words(page).link('Cluster').count(), 0);
  await page.keyboard.press('Control+K');
  await page.getByRole('combobox').fill('users');
  await page.getByRole('option', { name: /^Page Users/ }).waitFor();
  await page.getByRole('combobox').fill('cluster');
  await page.getByRole('option', { name: /^Page Users/ }).waitFor({ state: 'detached' });
  assert.equal(await page.getByRole('option', { name: /^Page Cluster/ }).count(), 0);
}));

test('a node has the page in the bar and in the search, before it has reached etcd', () => withNode(AUTH + NODE, async ({ page, goTo }) => {
  await goTo('pools');
  await words(page).link('Cluster').click();
  await page.getByText('This node is joining').waitFor();
  await page.keyboard.press('Control+K');
  await page.getByRole('combobox').fill('cluster');
  await page.getByRole('option', { name: /^Page Cluster/ }).waitFor();
}));

test('nodes and pools are shown with their sums, what is wrong and what lacks the most first', () => withNode(AUTH + NODE, async ({ page, goTo }) => {
  await page.route('**/api/v1/cluster', (route) => route.fulfill({ json: CLUSTER }));
  await goTo('cluster');
  const table = (name) => page.getByRole('table', { name, exact: true }).locator('tbody tr');
  await table('Nodes').first().waitFor();
  const rows = async (name) => (await table(name).allInnerTexts()).map((text) => text.split(/\s+/).filter(Boolean).join(' '));
  assert.deepEqual(await rows('Nodes'), [
    'node3 lost 1.0.0 revision 7 has not adopted revision 9 yet 1 min 15 s ago 1 1 0 none',
    'node1 this one member 1.0.0 revision 9 now 10 2 3 1.5 s',
    'node2 member 1.0.0 revision 7 refused revision 9: /etc/weir/app.password: No such file or directory now 3 1 1 1 min 5 s',
  ]);
  assert.deepEqual(await rows('Pools'), ['app 12 12 3 4 1 min 5 s', 'idle 20 2 1 0 none']);
  assert.deepEqual(await rows('Pools by node'), ['app node1 8 1 3 1.5 s', 'app node2 3 1 1 1 min 5 s', 'app node3 1 1 0 none', 'idle node1 2 1 0 none']);
  await page.getByRole('img', { name: 'node1 8, node2 3, node3 1, 0 free' }).waitFor();
  assert.deepEqual(await looks(page, 'cluster'), []);
  await page.getByLabel('Search: Pools').fill('idle');
  await page.waitForURL(/q=idle/);
  assert.deepEqual(await rows('Pools by node'), ['idle node1 2 1 0 none']);
}));
