//! A slab in chunks: values keep their index, growth never moves values, and memory grows by one chunk at a time.

const CHUNK: usize = 64;

/// A table of values by small index; free indices are reused last-in first-out.
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Box<[Option<T>]>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    /// An empty slab; does not allocate.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many values the slab holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the slab holds no value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Inserts `value` and returns its index.
    pub fn insert(&mut self, value: T) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        *self.cell(index).expect("a free index lies in a chunk") = Some(value);
        self.len += 1;
        index
    }

    /// Removes and returns the value at `index`, if there is one.
    pub fn remove(&mut self, index: u32) -> Option<T> {
        let value = self.cell(index)?.take()?;
        self.free.push(index);
        self.len -= 1;
        Some(value)
    }

    /// The value at `index`.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?[index % CHUNK].as_ref()
    }

    /// The value at `index`, to change.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.cell(index)?.as_mut()
    }

    /// All values with their indices, in order of index.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().flat_map(|c| c.iter()).enumerate().filter_map(|(i, v)| Some((i as u32, v.as_ref()?)))
    }

    /// All values with their indices, in order of index, to change.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        self.chunks.iter_mut().flat_map(|c| c.iter_mut()).enumerate().filter_map(|(i, v)| Some((i as u32, v.as_mut()?)))
    }

    #[inline]
    fn cell(&mut self, index: u32) -> Option<&mut Option<T>> {
        let index = index as usize;
        Some(&mut self.chunks.get_mut(index / CHUNK)?[index % CHUNK])
    }

    fn grow(&mut self) -> u32 {
        let first = (self.chunks.len() * CHUNK) as u32;
        self.chunks.push((0..CHUNK).map(|_| None).collect());
        // The lowest index last, so that it is handed out first.
        self.free.extend((first + 1..first + CHUNK as u32).rev());
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_dense_and_reused() {
        let mut slab = Slab::new();
        let indices: Vec<u32> = (0..130).map(|v| slab.insert(v)).collect();
        assert_eq!(indices, (0..130).collect::<Vec<_>>());
        assert_eq!(slab.remove(7), Some(7));
        assert_eq!(slab.remove(7), None);
        assert_eq!(slab.insert(1000), 7);
        assert_eq!(slab.get(7), Some(&1000));
        assert_eq!(slab.len(), 130);
    }
}
