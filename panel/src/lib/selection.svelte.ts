// Rows of a list that are selected, by their ids.

type Id = string | number;

export class Selection {
  private ids = $state.raw(new Set<Id>());
  /** Where a range begins. */
  private last: Id | null = null;

  has(id: Id): boolean {
    return this.ids.has(id);
  }

  get size(): number {
    return this.ids.size;
  }

  set(ids: Id[]) {
    this.ids = new Set(ids);
    this.last = null;
  }

  clear() {
    this.set([]);
  }

  /** `range`: all from the one before to this one, in the order in which they are shown. */
  toggle(id: Id, range: boolean, shown: Id[]) {
    const next = new Set(this.ids);
    const [from, to] = [this.last === null ? -1 : shown.indexOf(this.last), shown.indexOf(id)];
    if (range && from >= 0) shown.slice(Math.min(from, to), Math.max(from, to) + 1).forEach((one) => next.add(one));
    else if (!next.delete(id)) next.add(id);
    this.last = id;
    this.ids = next;
  }
}
