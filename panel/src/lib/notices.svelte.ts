// What was done, or failed, said once at the foot of the page, and to screen readers; with an undo where there is one.
import { ApiError } from './api';
import type { Changed } from './types';

export interface Notice {
  id: number;
  text: string;
  detail: string | null;
  bad: boolean;
  undo: (() => Promise<void>) | null;
  /** What it is about. An undo goes once the next change of the same is done: it would take back both. */
  about: string | null;
}

const LASTS = 8000;
/** One that can be undone stays longer: its effect shows later. */
const LASTS_WITH_UNDO = 30000;

class Notices {
  list = $state<Notice[]>([]);
  private last = 0;

  say(text: string, detail: string | null = null) {
    this.add({ text, detail, bad: false, undo: null, about: null }, LASTS);
  }

  /** Says a change of something, and offers the way back where there is one. */
  changed(about: string, text: string, undo: Notice['undo'], detail: string | null = null) {
    this.list = this.list.filter((notice) => notice.about !== about);
    this.add({ text, detail, bad: false, undo, about }, undo ? LASTS_WITH_UNDO : LASTS);
  }

  fail(what: string, error: unknown) {
    const failure = error instanceof ApiError ? error : new ApiError(0, String(error));
    const detail = [failure.detail, failure.hint].filter((part) => part).join(' · ') || null;
    this.add({ text: `${what}: ${failure.message}`, detail, bad: true, undo: null, about: null }, LASTS * 2);
  }

  /** Says why something could not be set back. */
  notSetBack(what: string, error: unknown) {
    const overtaken = error instanceof ApiError && error.status === 409;
    if (!overtaken) return this.fail(`${what} was not set back`, error);
    const detail = `${error.message}. The page History has who changed what, and the way back.`;
    this.add({ text: `${what} was not set back: the configuration was changed since`, detail, bad: true, undo: null, about: null }, LASTS * 2);
  }

  dismiss(id: number) {
    this.list = this.list.filter((notice) => notice.id !== id);
  }

  private add(notice: Omit<Notice, 'id'>, lasts: number) {
    const id = ++this.last;
    this.list = [...this.list.slice(-3), { ...notice, id }];
    setTimeout(() => this.dismiss(id), lasts);
  }
}

/** What is to be said of a change that the file does not have. */
export function untilRestart({ persisted, reason }: Pick<Changed, 'persisted' | 'reason'>): string | null {
  return persisted ? null : `Until the restart only: ${reason}`;
}

export const notices = new Notices();
