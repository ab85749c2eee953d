// Dark or light: the system's choice, until the switch is used; then what it says. Graphs ask here for their colours.

export type Choice = 'system' | 'light' | 'dark';

const KEY = 'weir-theme';
const system = matchMedia('(prefers-color-scheme: dark)');

function stored(): Choice {
  try {
    const choice = localStorage.getItem(KEY);
    return choice === 'light' || choice === 'dark' ? choice : 'system';
  } catch {
    return 'system';
  }
}

class Theme {
  choice = $state<Choice>(stored());
  private systemDark = $state(system.matches);
  readonly dark = $derived(this.choice === 'system' ? this.systemDark : this.choice === 'dark');

  constructor() {
    system.addEventListener('change', (event) => (this.systemDark = event.matches));
  }

  choose(choice: Choice) {
    this.choice = choice;
    const root = document.documentElement;
    if (choice === 'system') delete root.dataset.theme;
    else root.dataset.theme = choice;
    try {
      if (choice === 'system') localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, choice);
    } catch {
      // It holds for this page then.
    }
  }
}

export const theme = new Theme();

/** Colours of a theme, once they were read: each costs the browser a look at all of the page's styles. */
const colours = new Map<string, string>();

/** A token's colour as canvases want it. Read it anew when `theme.dark` changes. */
export function colour(token: string): string {
  const key = `${token} ${theme.dark}`;
  const known = colours.get(key) ?? read(token);
  colours.set(key, known);
  return known;
}

function read(token: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
