//! The shape of a statement: the types of its parameters and the columns of its rows, as a client was given them.
//!
//! Owns what of a ParameterDescription and a RowDescription is a part of it: what PostgreSQL compares when it plans a
//! statement again (`RevalidateCachedQuery` in `plancache.c`), as far as the messages show it: names, types and type
//! modifiers. Not the table that a column comes from, and not its format. A shape is kept as hashes, and a description
//! is read as it streams.

use std::hash::Hasher;
use std::num::NonZeroU64;
use std::ops::Range;

use siphasher::sip::SipHasher13;

use crate::parameter_types::MOST_BYTES;

/// A shape, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shape {
    parameters: Option<NonZeroU64>,
    rows: Option<NonZeroU64>,
}

/// A shape that a client was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct GivenShape {
    pub(crate) shape: Shape,
    /// Which preparation the shape is of ([`crate::PoolStatements`] counts them): a later one is of a later definition.
    /// While nothing of the shape is known, how many there were when the client prepared the statement.
    pub(crate) of: u64,
}

impl GivenShape {
    /// Nothing was given yet of a statement that was prepared after so many preparations.
    pub(crate) fn none(since: u64) -> GivenShape {
        GivenShape { shape: Shape::default(), of: since }
    }

    /// The client was given a description of this preparation.
    pub(crate) fn learn(&mut self, shape: Shape, of: u64) {
        self.shape.learn(shape);
        self.of = of;
    }
}

/// A client's shape beside that of a server's statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compared {
    /// The shapes are the same.
    Same,
    /// The shapes differ.
    Other,
    /// The server's shape is not known.
    Unknown,
}

/// What a message describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// The types of parameters: ParameterDescription.
    Parameters,
    /// The columns of rows: RowDescription, or NoData.
    Rows,
}

impl Shape {
    /// Whether nothing of the shape is known.
    #[inline]
    pub(crate) fn is_unknown(self) -> bool {
        self == Shape::default()
    }

    /// The types of parameters, if the other shape has others.
    pub(crate) fn other_parameters(self, than: Shape) -> Option<NonZeroU64> {
        self.parameters.filter(|own| than.parameters.is_some_and(|other| other != *own))
    }

    /// Whether the shape's rows are known.
    #[inline]
    pub(crate) fn has_rows(self) -> bool {
        self.rows.is_some()
    }

    /// Whether all of the shape is known.
    pub(crate) fn is_whole(self) -> bool {
        self.parameters.is_some() && self.rows.is_some()
    }

    /// Compares what a client was given with what a server has.
    pub(crate) fn compared_with(self, server: Shape) -> Compared {
        let parts = [(self.parameters, server.parameters), (self.rows, server.rows)];
        let mut given = parts.into_iter().filter_map(|(given, has)| Some((given?, has)));
        let differs = |(given, has): (NonZeroU64, Option<NonZeroU64>)| has.is_some_and(|has| has != given);
        match () {
            () if given.clone().any(differs) => Compared::Other,
            () if given.any(|(_, has)| has.is_none()) => Compared::Unknown,
            () => Compared::Same,
        }
    }

    /// Takes in what is known of another description of the same statement.
    pub(crate) fn learn(&mut self, other: Shape) {
        self.parameters = other.parameters.or(self.parameters);
        self.rows = other.rows.or(self.rows);
    }

    /// The shape's two hashes, 0 where there is none.
    pub(crate) fn hashes(self) -> (u64, u64) {
        let hash = |part: Option<NonZeroU64>| part.map_or(0, NonZeroU64::get);
        (hash(self.parameters), hash(self.rows))
    }

    /// A shape with these hashes.
    pub(crate) fn of_hashes((parameters, rows): (u64, u64)) -> Shape {
        Shape { parameters: NonZeroU64::new(parameters), rows: NonZeroU64::new(rows) }
    }

    fn set(&mut self, part: Part, hash: u64) {
        // One of 2^64 hashes is shared with another.
        let hash = NonZeroU64::new(hash).or(NonZeroU64::new(1));
        match part {
            Part::Parameters => self.parameters = hash,
            Part::Rows => self.rows = hash,
        }
    }
}

/// The body of a description, read as it arrives.
#[derive(Debug)]
pub(crate) struct DescriptionReader {
    part: Part,
    hasher: SipHasher13,
    /// The types of parameters, with their count; empty where there are more than are kept.
    types: Vec<u8>,
    /// Where the next byte is.
    at: Place,
}

/// A place in the body of a description.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// The count of columns or parameters: bytes still to come.
    Count(u8),
    /// A column's name.
    Name,
    /// What follows a column's name: bytes read.
    Column(u8),
    /// The types of parameters.
    Types,
}

/// What follows the name in a column: its table, its number there, type, width, modifier, format.
const COLUMN: u8 = 18;

/// The type and its modifier, in what follows a column's name.
const TYPE: Range<u8> = 6..10;
const MODIFIER: Range<u8> = 12..16;

impl DescriptionReader {
    /// Begins to read a message that describes this, with the process's key.
    pub(crate) fn begin(part: Part, key: &[u8; 16]) -> DescriptionReader {
        DescriptionReader { part, hasher: SipHasher13::new_with_key(key), types: Vec::new(), at: Place::Count(2) }
    }

    /// Reads more of the message's body.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        if self.part == Part::Parameters {
            self.keep_types(bytes);
        }
        while !bytes.is_empty() {
            let taken = match self.at {
                Place::Count(left) => {
                    let first = if self.part == Part::Parameters { Place::Types } else { Place::Name };
                    self.at = if left == 1 { first } else { Place::Count(left - 1) };
                    self.hasher.write(&bytes[..1]);
                    1
                }
                Place::Name => {
                    let end = bytes.iter().position(|byte| *byte == 0);
                    self.at = if end.is_some() { Place::Column(0) } else { Place::Name };
                    let name = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
                    self.hasher.write(name);
                    name.len()
                }
                Place::Column(at) => {
                    let part = &bytes[..bytes.len().min(usize::from(COLUMN - at))];
                    for counted in [TYPE, MODIFIER] {
                        let within = |place: u8| usize::from(place.saturating_sub(at)).min(part.len());
                        self.hasher.write(&part[within(counted.start)..within(counted.end)]);
                    }
                    let at = at + part.len() as u8;
                    self.at = if at == COLUMN { Place::Name } else { Place::Column(at) };
                    part.len()
                }
                Place::Types => {
                    self.hasher.write(bytes);
                    bytes.len()
                }
            };
            bytes = &bytes[taken..];
        }
    }

    fn keep_types(&mut self, bytes: &[u8]) {
        let begins = matches!(self.at, Place::Count(2));
        if self.types.len() + bytes.len() > MOST_BYTES {
            self.types.clear();
        } else if begins || !self.types.is_empty() {
            self.types.extend_from_slice(bytes);
        }
    }

    /// The types of parameters that the message has described, which is at its end, with their hash.
    pub(crate) fn types(&self) -> Option<(NonZeroU64, &[u8])> {
        let mut shape = Shape::default();
        self.finish(&mut shape);
        shape.parameters.filter(|_| !self.types.is_empty()).map(|hash| (hash, &*self.types))
    }

    /// What the message describes.
    pub(crate) fn part(&self) -> Part {
        self.part
    }

    /// The message is at its end: `shape` has what it described.
    pub(crate) fn finish(&self, shape: &mut Shape) {
        shape.set(self.part, self.hasher.finish());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A column: name, table, type, modifier, format.
    type Column<'a> = (&'a str, u32, u32, i32, u16);

    fn rows(columns: &[Column<'_>]) -> Vec<u8> {
        let mut body = (columns.len() as u16).to_be_bytes().to_vec();
        for (name, table, oid, modifier, format) in columns {
            body.extend([name.as_bytes(), &[0], &table.to_be_bytes(), &1u16.to_be_bytes()].concat());
            body.extend([&oid.to_be_bytes()[..], &4u16.to_be_bytes(), &modifier.to_be_bytes()].concat());
            body.extend(format.to_be_bytes());
        }
        body
    }

    fn shape(part: Part, body: &[u8], piece: usize) -> Shape {
        let mut reader = DescriptionReader::begin(part, &[1; 16]);
        body.chunks(piece).for_each(|piece| reader.feed(piece));
        let mut shape = Shape::default();
        reader.finish(&mut shape);
        shape
    }

    #[test]
    fn names_types_and_modifiers_are_its_shape_and_tables_and_formats_are_not() {
        let of = |columns: &[Column<'_>]| shape(Part::Rows, &rows(columns), 1000);
        let first = of(&[("id", 16384, 23, -1, 0), ("name", 16384, 25, -1, 0)]);
        assert_eq!(first, of(&[("id", 16999, 23, -1, 1), ("name", 7, 25, -1, 1)]));
        let others: [&[Column<'_>]; 5] = [
            &[("id", 16384, 23, -1, 0)],
            &[("name", 16384, 25, -1, 0), ("id", 16384, 23, -1, 0)],
            &[("id", 16384, 20, -1, 0), ("name", 16384, 25, -1, 0)],
            &[("id", 16384, 23, -1, 0), ("name", 16384, 25, 7, 0)],
            &[("id", 16384, 23, -1, 0), ("mail", 16384, 25, -1, 0)],
        ];
        others.into_iter().for_each(|other| assert_eq!(first.compared_with(of(other)), Compared::Other, "{other:?}"));
    }

    #[test]
    fn it_does_not_depend_on_the_pieces_in_which_a_description_arrives() {
        let body = rows(&[("id", 1, 23, -1, 0), ("", 0, 25, 260, 1), ("a longer name", 3, 1700, 655366, 0)]);
        (1..body.len()).for_each(|piece| assert_eq!(shape(Part::Rows, &body, piece), shape(Part::Rows, &body, 1000)));
        let types = [&[0, 2][..], &23u32.to_be_bytes(), &25u32.to_be_bytes()].concat();
        assert_eq!(shape(Part::Parameters, &types, 3), shape(Part::Parameters, &types, 1000));
        let other = [&[0, 2][..], &23u32.to_be_bytes(), &26u32.to_be_bytes()].concat();
        assert_ne!(shape(Part::Parameters, &types, 3), shape(Part::Parameters, &other, 1000));
    }

    #[test]
    fn only_what_a_client_was_given_is_compared() {
        let rows = shape(Part::Rows, &rows(&[("id", 1, 23, -1, 0)]), 9);
        let mut both = rows;
        both.learn(shape(Part::Parameters, &[0, 0], 9));
        assert_eq!(rows.compared_with(both), Compared::Same);
        assert_eq!(both.compared_with(rows), Compared::Unknown);
        assert_eq!(Shape::default().compared_with(both), Compared::Same);
        assert_eq!(both.compared_with(Shape::default()), Compared::Unknown);
        assert_eq!(Shape::of_hashes(both.hashes()), both);
    }
}
