// A page in each way that it is looked at: what is wrong with it there, and its picture in the folder SHOTS.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const LOOKS = [['light', 1280], ['dark', 1280], ['dark', 360]];
const HEIGHT = 900;

/** What is wrong with the page as it is now, look by look. */
export async function looks(page, name) {
  const found = [];
  for (const [theme, width] of LOOKS) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: HEIGHT });
    await page.evaluate(wander);
    const look = `${name.replaceAll('/', '-')}-${theme}-${width}`;
    found.push(...(await flaws(page)).map((flaw) => `${look}: ${flaw}`));
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    if (over > 0) found.push(`${look} is ${over} pixels too wide`);
    await page.screenshot({ path: join(process.env.SHOTS, `${look}.png`), fullPage: true, animations: 'disabled' });
  }
  await page.setViewportSize({ width: LOOKS[0][1], height: HEIGHT });
  return found;
}

/** In the page: down to its end and back, since graphs are drawn when somebody comes near them, in the width of that moment. */
async function wander() {
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (let at = 0; at <= document.documentElement.scrollHeight; at += innerHeight) {
    scrollTo(0, at);
    await frames();
  }
  scrollTo(0, 0);
  await frames();
}

/** What axe-core finds. */
async function flaws(page) {
  // By the debugger, which the page's policy does not bind; the page itself could not load it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`);
}
