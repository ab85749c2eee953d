// The built site in the folder SITE: its links, and its search, which runs here as in a browser.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { dirname, extname, join, relative, resolve } from 'node:path';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import { QUESTIONS } from './questions.mjs';

const { SITE } = process.env;
/** An answer further down is not found by a reader who looks at the first results only. */
const FIRST = 3;

const files = readdirSync(SITE, { recursive: true }).filter((name) => statSync(join(SITE, name)).isFile());
const pages = files.filter((name) => extname(name) === '.html');

/** The ids of a page, which links name after `#`. */
const idsOf = (() => {
  const known = new Map();
  return (file) => {
    if (!known.has(file)) known.set(file, new Set([...readFileSync(file, 'utf8').matchAll(/ id="([^"]*)"/g)].map(([, id]) => id)));
    return known.get(file);
  };
})();

test('every link of every page leads to a file of the site, and to a heading of it', () => {
  assert.ok(pages.length > 40, `${pages.length} pages`);
  const wrong = [];
  // mdBook's page for addresses that do not exist has links from the root of its host.
  for (const page of pages.filter((name) => name !== '404.html')) {
    const html = readFileSync(join(SITE, page), 'utf8');
    for (const [, link] of html.matchAll(/ (?:href|src|srcset)="([^"]*)"/g)) {
      if (/^([a-z]+:|\/\/|#$|$)/.test(link)) continue;
      const [target, anchor] = decodeURI(link.replaceAll('&amp;', '&')).split('#');
      const file = target === '' ? join(SITE, page) : resolve(SITE, dirname(page), target);
      if (!existsSync(file) || !statSync(file).isFile()) wrong.push(`${page}: ${link}: no such file`);
      else if (anchor && extname(file) === '.html' && !idsOf(file).has(anchor)) wrong.push(`${page}: ${link}: no such heading`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('the site has a page for each of its contents, and a picture for each of the pages', () => {
  assert.ok(files.includes('index.html'));
  for (const name of ['how-it-works.svg', 'transaction-mode.svg', 'direct-and-pooled.svg', 'panel-pool-dark.webp']) {
    assert.ok(files.includes(join('docs', 'pictures', name)), name);
  }
});

/** The search as the page's own script does it: results are headings, the best first. */
const search = (() => {
  const named = (start) => {
    const found = files.filter((name) => name.startsWith(start) && name.endsWith('.js'));
    assert.equal(found.length, 1, `${start}: ${found}`);
    return readFileSync(join(SITE, found[0]), 'utf8');
  };
  const window = { search: {} };
  const context = createContext({ window, console });
  runInContext(named('elasticlunr'), context);
  runInContext(named('searchindex'), context);
  const index = runInContext('(window.elasticlunr ?? elasticlunr).Index.load(window.search.index)', context);
  return (words) => index.search(words, window.search.search_options).map(({ ref }) => window.search.doc_urls[ref]);
})();

for (const [question, ...answers] of QUESTIONS) {
  test(`the search answers: ${question}`, () => {
    const first = search(question).slice(0, FIRST);
    const found = first.some((url) => answers.includes(url.replace(/^docs\//, '')));
    assert.ok(found, `the first results are ${first.join(' ')}; the answers are in ${answers.join(' ')}`);
  });
}

test('every answer is a heading that the site has', () => {
  const wrong = QUESTIONS.flatMap(([, ...answers]) => answers).filter((answer) => {
    const [page, anchor] = answer.split('#');
    const file = [join(SITE, 'docs', page), join(SITE, page)].find(existsSync) ?? page;
    return !existsSync(file) || (anchor && !idsOf(file).has(anchor));
  });
  assert.deepEqual(wrong, [], relative(SITE, 'docs'));
});
