// The page's beginning: styles, then the shell.
import { mount } from 'svelte';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import App from './App.svelte';
import { prefetch } from './pages/later';
import { pools } from './lib/pools.svelte';
import { shown } from './lib/feed';
import { router } from './lib/router.svelte';

// Most come for the overview: its pools are asked for while it is being made.
if (router.route.page === 'pools' && router.route.rest.length === 0) void pools.refresh();

const target = document.getElementById('app');
if (target) mount(App, { target });
// Not while the first rows are on their way.
const idle = globalThis.requestIdleCallback ?? ((then: () => void) => setTimeout(then, 1000));
void shown().then(() => idle(prefetch));
