// The same request for many things.

/** Requests that wait for their answers at the same time. */
const AT_ONCE = 6;

export interface Outcome {
  done: number;
  failed: number;
  /** The first. */
  error: unknown;
}

/** Does it for each, some at a time; one that fails stops none of the others. */
export async function inTurn<Row>(rows: Row[], act: (row: Row) => Promise<unknown>): Promise<Outcome> {
  const outcome: Outcome = { done: 0, failed: 0, error: null };
  const left = [...rows];
  const one = async () => {
    for (let row = left.shift(); row !== undefined; row = left.shift()) {
      try {
        await act(row);
        outcome.done += 1;
      } catch (error) {
        outcome.failed += 1;
        outcome.error ??= error;
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return outcome;
}
