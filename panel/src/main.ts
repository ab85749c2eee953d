// The page's beginning: styles, then the shell.
import { mount } from 'svelte';
import './style/tokens.css';
import './style/base.css';
import './style/parts.css';
import App from './App.svelte';

const target = document.getElementById('app');
if (target) mount(App, { target });
