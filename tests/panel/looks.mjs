// A page in each theme and width: its accessibility errors there, and its picture in the folder SHOTS.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const LOOKS = [['light', 1280], ['dark', 1280], ['dark', 360]];
const HEIGHT = 900;

/** The errors of the page as it is now, by theme and width. */
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

/** In the page: scrolls down to its end and back, since graphs are drawn when they come into view, in the current width. */
async function wander() {
  const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  for (let at = 0; at <= document.documentElement.scrollHeight; at += innerHeight) {
    scrollTo(0, at);
    await frames();
  }
  scrollTo(0, 0);
  await frames();
}

/** The violations that axe-core finds. */
async function flaws(page) {
  // Through the debugger, which the page's content security policy does not restrict; the page can't load it.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' | ')}`);
}
