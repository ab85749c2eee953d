//! Which place in a client's text a place in the edited one is: PostgreSQL's errors give a position in characters, from 1
//! on.

/// Where an edited text has other characters than the client's: the number of those before, of those that were put there,
/// and of those that were there.
#[derive(Debug, Default)]
pub(crate) struct Shifts(Vec<[u32; 3]>);

impl Shifts {
    /// Shifts in the order of their places.
    pub(crate) fn new(shifts: Vec<[u32; 3]>) -> Shifts {
        Shifts(shifts)
    }

    /// The position in the client's text.
    pub(crate) fn original(&self, position: u32) -> u32 {
        let mut original = position;
        for [before, put, cut] in &self.0 {
            if position <= *before {
                break;
            }
            if position <= before + put {
                // In what the client has not written: where that begins.
                return original - (position - before) + 1;
            }
            original = original - put + cut;
        }
        original
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
