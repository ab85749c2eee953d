// The pages in the order of the navigation: their names, groups and titles, and who may open them. The navigation, the search and
// the window's title take them from here.
import type { IconName } from '../parts/Icon.svelte';
import type { Me } from './types';
import { session } from './session.svelte';

export interface Page {
  /** The first part of its address. */
  page: string;
  label: string;
  /** What the search says of it. */
  note: string;
  icon: IconName;
  /** Of its window, where that differs from its name. */
  title?: string;
  role?: Me['role'];
}

export const GROUPS: { title: string; pages: Page[] }[] = [
  {
    title: 'Monitor',
    pages: [
      { page: 'pools', label: 'Pools', note: 'the overview', icon: 'pools' },
      { page: 'incidents', label: 'Incidents', note: 'why is it slow?', icon: 'incidents', title: 'What is broken or slow?' },
      { page: 'statements', label: 'Statements', note: 'what takes the time', icon: 'statements' },
      { page: 'advice', label: 'Advice', note: 'sizes of pools', icon: 'advice' },
      { page: 'alerts', label: 'Alerts', note: 'what fires, targets, silences', icon: 'alerts' },
      { page: 'log', label: 'Log', note: 'the last lines', icon: 'log' },
    ],
  },
  {
    title: 'Configure',
    pages: [
      { page: 'databases', label: 'Databases', note: 'servers and their connections', icon: 'databases' },
      { page: 'users', label: 'Users', note: 'who may connect', icon: 'users' },
      { page: 'cluster', label: 'Cluster', note: 'nodes and their shares', icon: 'cluster' },
      { page: 'settings', label: 'Settings', note: 'of the process', icon: 'settings' },
      { page: 'history', label: 'History', note: 'versions of the configuration', icon: 'history', title: 'Configuration history' },
      { page: 'audit', label: 'Audit', note: 'who changed what', icon: 'audit', role: 'operator' },
    ],
  },
  {
    title: 'Learn',
    pages: [
      { page: 'docs', label: 'Documentation', note: 'for operators', icon: 'docs' },
      { page: 'lab', label: 'Lab', note: 'experiments', icon: 'lab' },
    ],
  },
];

const PAGES = GROUPS.flatMap(({ pages }) => pages);

/** Whether it is of use here, to who looks. */
export const isOpen = ({ page, role = 'viewer' }: Page) => session.may(role) && session.has(page);

export const openPages = () => PAGES.filter(isOpen);

/** Forms belong to the page of what they make. */
const FORMS: Record<string, { of: string; title: string }> = {
  new: { of: 'pools', title: 'Create pool' },
  'new-user': { of: 'users', title: 'Create user' },
};

/** The page that an address belongs to. */
export const pageOf = (first: string) => PAGES.find(({ page }) => page === (FORMS[first]?.of ?? first));

export function titleOf(first: string): string {
  const page = pageOf(first);
  return FORMS[first]?.title ?? page?.title ?? page?.label ?? 'Not found';
}
