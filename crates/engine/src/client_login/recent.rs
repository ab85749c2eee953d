//! The last few values of something, where a new one replaces the oldest.

/// At most `MOST` values. A lookup costs a look at each, so `MOST` is small.
pub(super) struct Recent<T, const MOST: usize> {
    values: Vec<T>,
    /// The next to be replaced.
    next: usize,
}

impl<T, const MOST: usize> Default for Recent<T, MOST> {
    fn default() -> Self {
        Recent { values: Vec::new(), next: 0 }
    }
}

impl<T, const MOST: usize> Recent<T, MOST> {
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }

    /// Adds a value, in the place of the oldest if there is no room.
    pub(super) fn push(&mut self, value: T) {
        match self.values.get_mut(self.next) {
            Some(oldest) => *oldest = value,
            None => self.values.push(value),
        }
        self.next = (self.next + 1) % MOST;
    }

    pub(super) fn clear(&mut self) {
        *self = Recent::default();
    }
}
