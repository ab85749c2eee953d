// What was done, or failed, said once at the foot of the page, and to screen readers; with an undo where there is one.
import { ApiError } from './api';

export interface Notice {
  id: number;
  text: string;
  detail: string | null;
  bad: boolean;
  undo: (() => Promise<void>) | null;
}

const LASTS = 8000;
/** One that can be undone stays longer: its effect shows later. */
const LASTS_WITH_UNDO = 120000;

class Notices {
  list = $state<Notice[]>([]);
  private last = 0;

  say(text: string, undo: Notice['undo'] = null, detail: string | null = null) {
    this.add({ text, detail, bad: false, undo }, undo ? LASTS_WITH_UNDO : LASTS);
  }

  fail(what: string, error: unknown) {
    const told = error instanceof ApiError ? error : new ApiError(0, String(error));
    const detail = [told.detail, told.hint].filter((part) => part).join(' · ') || null;
    this.add({ text: `${what}: ${told.message}`, detail, bad: true, undo: null }, LASTS * 2);
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

export const notices = new Notices();
