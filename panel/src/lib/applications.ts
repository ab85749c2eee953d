// Which applications and users connections have, in words: those with the most.
import { identifier, quoted } from './quote';

const NAMED = 4;

/** `3 × "web" (app), 1 × no name (app)`. */
export function applications(of: { application_name?: string | null; user?: string | null }[]): string {
  const sums = new Map<string, number>();
  for (const { application_name, user } of of) {
    const name = `${application_name ? quoted(application_name) : 'no name'} (${user ? identifier(user) : '?'})`;
    sums.set(name, (sums.get(name) ?? 0) + 1);
  }
  return [...sums].sort(([, a], [, b]) => b - a).slice(0, NAMED).map(([name, count]) => `${count} × ${name}`).join(', ');
}
