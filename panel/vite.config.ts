// Builds the panel into crates/web/panel, where the binary takes it from, and writes there what it was built of, so that
// a test can tell when the two have drifted apart (crates/web/tests/panel.rs). A build that is too large is none.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

const here = dirname(fileURLToPath(import.meta.url));
const out = join(here, '../crates/web/panel');
const weir = process.env.WEIR ?? 'http://127.0.0.1:8432';
const proxy = { '/api': weir, '/docs': weir };
/** What the build is made of; the test walks the same. */
const SOURCES = ['index.html', 'package-lock.json', 'package.json', 'public', 'src', 'tsconfig.json', 'vite.config.ts'];

function filesOf(path: string): string[] {
  try {
    const entries = readdirSync(path, { withFileTypes: true });
    return entries.flatMap((entry) => filesOf(join(path, entry.name)));
  } catch {
    return [path];
  }
}

function digest(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex');
}

/** A line a file: its SHA-256 and its path, sorted by path. */
function lines(root: string, files: string[]): string {
  const named = files.map((file) => [relative(root, file), file]).sort(([a], [b]) => (a < b ? -1 : 1));
  return named.map(([name, file]) => `${digest(file)}  ${name}\n`).join('');
}

/** What all of it may weigh, compressed, in bytes; and its typeface, which is compressed by itself. */
const MOST = 208 * 1024;
const MOST_FONT = 50 * 1024;

function weigh(files: string[]) {
  const sum = (some: string[]) => some.reduce((sum, file) => sum + gzipSync(readFileSync(file)).length, 0);
  for (const [what, bytes, most] of [
    ['panel', sum(files.filter((file) => !isFont(file))), MOST],
    ['typeface', sum(files.filter(isFont)), MOST_FONT],
  ] as const) {
    if (bytes > most) throw new Error(`the ${what} has grown to ${bytes} bytes, and may have ${most}`);
  }
}

const isFont = (file: string) => file.endsWith('.woff2');

/** The typeface is requested beside the program, not once the styles are read: texts are drawn once. */
function earlyFont(): Plugin {
  return {
    name: 'early-font',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      handler: (_html, { bundle = {} }) => Object.keys(bundle).filter(isFont).map((file) => ({
        tag: 'link',
        attrs: { rel: 'preload', as: 'font', type: 'font/woff2', href: `./${file}`, crossorigin: true },
        injectTo: 'head',
      })),
    },
  };
}

function provenance(): Plugin {
  return {
    name: 'provenance',
    apply: 'build',
    closeBundle() {
      const sources = lines(here, SOURCES.flatMap((name) => filesOf(join(here, name))));
      const files = filesOf(out).filter((file) => !file.endsWith('built-of.txt'));
      weigh(files);
      const built = lines(out, files);
      writeFileSync(join(out, 'built-of.txt'), `${sources}\n${built}`);
    },
  };
}

export default defineConfig({
  plugins: [svelte(), earlyFont(), provenance()],
  base: './',
  build: {
    outDir: out,
    emptyOutDir: true,
    target: ['chrome123', 'firefox120', 'safari17.5'],
    // The chunks that the first one imports are asked for at once. Browsers that lack it need no replacement.
    modulePreload: { polyfill: false },
    // Styles are little, and are there before a page that is fetched later.
    cssCodeSplit: false,
    // Everything is a file of its own: the policy allows no data: scripts or styles.
    assetsInlineLimit: 0,
    reportCompressedSize: true,
  },
  // For work on the page: the API of a Weir that runs, which wants to be asked by its own name.
  server: { proxy },
  preview: { proxy },
});
