// A list that keeps its place while somebody works in it: as long as the pointer or the keys are in it, or a row is selected, rows
// do not change their order, what has ended stays where it was, and what is new comes last.
import { untrack } from 'svelte';

/** The rows of before in their places with their present values, or their last ones; then the new ones. */
export function inPlace<Row>(before: Row[], now: Row[], id: (row: Row) => string | number): Row[] {
  const present = new Map(now.map((row) => [id(row), row]));
  const kept = before.map((row) => {
    const current = present.get(id(row)) ?? row;
    present.delete(id(row));
    return current;
  });
  return [...kept, ...present.values()];
}

export class Still<Row> {
  /** Whether the pointer is in the list. */
  private inside = $state(false);
  /** Whether keys have brought the focus there; a click leaves it behind. */
  private focused = $state(false);
  readonly rows: Row[];
  private kept: Row[] = [];
  private present: Set<string | number>;

  /** `also`: another reason to hold still, as a selection. */
  constructor(given: () => Row[], private id: (row: Row) => string | number, also: () => boolean = () => false) {
    this.rows = $derived.by(() => {
      const now = given();
      return (this.kept = this.inside || this.focused || also() ? untrack(() => inPlace(this.kept, now, id)) : now);
    });
    this.present = $derived(new Set(given().map(id)));
  }

  /** Whether it is shown only because the list holds still. */
  ended(row: Row): boolean {
    return !this.present.has(this.id(row));
  }

  /** For the element around the list. A finger does not hover, and leaves nothing held. */
  readonly events = {
    onpointerenter: (event: PointerEvent) => {
      if (event.pointerType === 'mouse') this.inside = true;
    },
    onpointerleave: () => (this.inside = false),
    onfocusin: (event: FocusEvent) => (this.focused = (event.target as HTMLElement).matches(':focus-visible')),
    onfocusout: () => (this.focused = false),
  };
}
