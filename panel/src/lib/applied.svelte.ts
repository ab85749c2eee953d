// Advice that was taken, until somebody has seen what came of it: what was there before, and how long clients waited then.
// Kept in the browser, so that a reload does not lose the way back.
import { patch, poolPath } from './api';
import type { PoolConfig } from './types';

export interface Applied {
  pool: string;
  change: PoolConfig;
  before: PoolConfig;
  /** Seconds since 1970. */
  at: number;
  /** 95 % of waits were shorter, in milliseconds. */
  wait: number | null;
}

const KEY = 'weir-applied';
/** Waits that have grown by this factor, and by so many milliseconds, have grown. */
const GROWN = 1.25;
const FELT = 1;

function stored(): Applied[] {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? '[]') as Applied[];
  } catch {
    return [];
  }
}

class AppliedAdvice {
  list = $state.raw<Applied[]>(stored());

  add(applied: Applied) {
    this.keep([...this.list.filter(({ pool }) => pool !== applied.pool), applied]);
  }

  /** It has proven itself, or is of no interest any more. */
  forget(applied: Applied) {
    this.keep(this.list.filter((other) => other !== applied));
  }

  async undo(applied: Applied) {
    await patch(poolPath(applied.pool), applied.before);
    this.forget(applied);
  }

  private keep(list: Applied[]) {
    this.list = list;
    try {
      localStorage.setItem(KEY, JSON.stringify(list));
    } catch {
      // It holds for this page then.
    }
  }
}

export const applied = new AppliedAdvice();

export function grew(before: number | null, now: number | null): boolean {
  return before !== null && now !== null && now > before * GROWN && now > before + FELT;
}
