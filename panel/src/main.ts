// The page's beginning: styles, then the shell.
import { mount } from 'svelte';
import './style/font.css';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import App from './App.svelte';
import { prefetch } from './pages/later';
import { pools } from './lib/pools.svelte';
import { shown } from './lib/feed';
import { router } from './lib/router.svelte';
import { session } from './lib/session.svelte';

/** What comes sooner than this is in the first picture, instead of a second one; milliseconds. */
const SOON = 400;

// Most come for the overview: the user and the first pools are requested while it is being made.
const questions = [session.load()];
if (router.route.page === 'pools' && router.route.rest.length === 0) {
  void pools.refresh();
  questions.push(pools.begun);
}

const target = document.getElementById('app');
const late = new Promise((done) => setTimeout(done, SOON));
void Promise.race([Promise.all(questions), late]).then(() => {
  if (target) mount(App, { target });
  // Not while the first rows are on their way.
  const idle = globalThis.requestIdleCallback ?? ((then: () => void) => setTimeout(then, 1000));
  void shown().then(() => idle(prefetch));
});
