//! A client as bytes, and back: so that it can move to another worker or process.
//!
//! Owns the format and its version. What freezes is a client without a server and without a message half-way to one;
//! the sockets and what was sent but not yet read travel by other means. Statements go as their texts and are interned
//! again where the client thaws, under the same names if the process's key is the same. What it is charged for them is
//! counted anew there.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_base::PoolMode;
use weir_pgwire::Dirty;

use crate::cancelled::Cancelled;
use crate::client::{Client, HeldText, Unnamed};
use crate::drawn_values::ClientSequences;
use crate::frame_reader::FrameReader;
use crate::judged::Judged;
use crate::names::{Given, Name};
use crate::params::ParamTable;
use crate::shape::{GivenShape, Shape};
use crate::statements::{Interner, ParseEnvironment, PoolStatements};

/// The version of the format; a client of another one is not thawed.
const VERSION: u8 = 6;

#[derive(Serialize, Deserialize)]
struct Frozen {
    id: u64,
    mode: u8,
    params: Vec<(String, String)>,
    /// What the client asked for at its login, and the names of the parameters that are its own, tracked or not.
    asked: Vec<(String, String)>,
    own: Vec<String>,
    held: Vec<u8>,
    /// Name, what follows it in a Parse, by which reading, and the shape that the client was given.
    statements: Vec<(Vec<u8>, Vec<u8>, u64, FrozenShape)>,
    unnamed: Option<(Vec<u8>, FrozenShape)>,
    streamed: bool,
    unnamed_count: u32,
    warned: u8,
    skipping: bool,
    cancelled: bool,
    channels: Vec<String>,
    sequences: u8,
}

/// The two hashes of a shape, and the number of the preparation that it was given of.
type FrozenShape = ((u64, u64), u64);

fn freeze_shape(given: GivenShape) -> FrozenShape {
    (given.shape.hashes(), given.of)
}

fn thaw_shape((hashes, of): FrozenShape, pool: &PoolStatements) -> GivenShape {
    pool.raise_preparations(of);
    GivenShape { shape: Shape::of_hashes(hashes), of }
}

/// Why bytes are not a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotThawed {
    /// The bytes were written by another version.
    Version,
    /// The bytes are damaged.
    Damaged,
}

impl fmt::Display for NotThawed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotThawed::Version => "a client frozen by another version",
            NotThawed::Damaged => "a damaged frozen client",
        })
    }
}

impl std::error::Error for NotThawed {}

/// Writes a client that has no server. `None` while a message of its is half-way.
pub fn freeze(client: &Client, table: &ParamTable) -> Option<Vec<u8>> {
    let notified = client.channels().is_some_and(|channels| channels.is_waiting() || channels.awaits_own());
    if client.stream.is_in_rest() || client.fails.is_some() || notified {
        return None;
    }
    let text = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let frozen = Frozen {
        id: client.id,
        mode: client.mode as u8,
        params: table.iter(&client.params).map(text).collect(),
        asked: table.iter(&client.start.asked).map(text).collect(),
        own: table.names_of(client.start.own, &client.params).map(str::to_owned).collect(),
        held: client.stream.held().to_vec(),
        statements: client
            .statements
            .iter()
            .flat_map(|s| s.iter())
            .map(|(name, Given { statement, shape, .. })| {
                (name.to_vec(), statement.rest().to_vec(), statement.environment().0, freeze_shape(*shape))
            })
            .collect(),
        unnamed: if let Unnamed::Held(held) = &client.unnamed {
            Some((held.bytes().to_vec(), freeze_shape(held.shape())))
        } else {
            None
        },
        streamed: matches!(client.unnamed, Unnamed::Streamed),
        unnamed_count: client.unnamed_count,
        warned: client.warned.bits(),
        skipping: client.cancelled == Cancelled::Segment,
        cancelled: client.cancelled == Cancelled::Next,
        channels: client.channels().iter().flat_map(|it| it.names()).map(|name| name.to_string()).collect(),
        sequences: client.sequences.to_bits(),
    };
    let mut bytes = vec![VERSION];
    bytes.extend(postcard::to_stdvec(&frozen).ok()?);
    Some(bytes)
}

/// Reads a client that [`freeze`] wrote. What it holds was accepted where it came from: it is charged here, and no limit
/// refuses it.
///
/// # Errors
/// When the bytes are of another version, or damaged.
pub fn thaw(
    bytes: &[u8],
    table: &ParamTable,
    interner: &mut Interner,
    pool: &PoolStatements,
) -> Result<Client, NotThawed> {
    let (version, rest) = bytes.split_first().ok_or(NotThawed::Damaged)?;
    if *version != VERSION {
        return Err(NotThawed::Version);
    }
    let frozen: Frozen = postcard::from_bytes(rest).map_err(|_| NotThawed::Damaged)?;
    let mode = PoolMode::ALL.into_iter().find(|mode| *mode as u8 == frozen.mode);
    let mut params = table.unknown();
    // What is not the client's own and not tracked here stays what the servers have.
    let is_kept = |name: &String| table.is_tracked(name) || frozen.own.contains(name);
    for (name, value) in frozen.params.iter().filter(|(name, _)| is_kept(name)) {
        // So does what can't follow a client.
        let _ = table.restore(&mut params, name, value);
    }
    let mut asked = table.unknown();
    frozen.asked.iter().for_each(|(name, value)| drop(table.restore(&mut asked, name, value)));
    let mode = mode.ok_or(NotThawed::Damaged)?;
    let mut client = Client::logged_in(frozen.id, mode, Arc::new(params), Arc::new(asked));
    client.start.own = table.places_of(&frozen.own);
    client.stream = FrameReader::thaw(frozen.held);
    for (name, rest, environment, shape) in frozen.statements {
        let restored = interner.restore(pool, &rest, ParseEnvironment(environment));
        let statement = restored.map_err(|_| NotThawed::Damaged)?;
        let by = client.count_change();
        client.statements_mut().insert(Name::new(&name), Given { statement, by, shape: thaw_shape(shape, pool) });
    }
    client.statements.as_deref_mut().into_iter().for_each(|statements| statements.charge_anyway(pool.account()));
    client.stream.charge(pool.account());
    client.unnamed = match (frozen.unnamed, frozen.streamed) {
        (Some((rest, shape)), _) => {
            let judged = Judged::in_parse(&rest);
            let mut held = HeldText::anyway(rest, judged, pool.account());
            held.set_shape(thaw_shape(shape, pool));
            Unnamed::Held(held)
        }
        (None, true) => Unnamed::Streamed,
        (None, false) => Unnamed::None,
    };
    client.unnamed_count = frozen.unnamed_count;
    client.warned = Dirty::from_bits(frozen.warned);
    client.cancelled = match (frozen.skipping, frozen.cancelled) {
        (true, _) => Cancelled::Segment,
        (false, true) => Cancelled::Next,
        (false, false) => Cancelled::Nothing,
    };
    client.sequences = ClientSequences::of_bits(frozen.sequences);
    client.listen(frozen.channels.into_iter().map(Arc::from).collect());
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::StatementMemory;

    #[test]
    fn a_client_thaws_as_it_was_and_damage_is_noticed() {
        let table = ParamTable::new([]);
        let mut interner = Interner::new([1; 16], &StatementMemory::default(), 1 << 20);
        let pool = interner.pool("app", "joe", 1 << 20);
        let mut params = table.unknown();
        table.set(&mut params, "TimeZone", "UTC").unwrap();
        let mut client = Client::new(7, PoolMode::Transaction, Arc::new(params));
        let statement = interner.intern(&pool, b"select 1\0\0\0", ParseEnvironment(5)).unwrap();
        client.statements_mut().make_room(b"s", pool.account()).unwrap();
        let shape = GivenShape { shape: Shape::of_hashes((0, 77)), of: 5 };
        client.statements_mut().insert(Name::new(b"s"), Given { statement: statement.clone(), by: 0, shape });
        let text = [b"select 2".to_vec(), vec![b' '; 5_000], vec![0; 3]].concat();
        client
            .put_unnamed(Unnamed::Held(HeldText::new(text.clone(), Judged::in_parse(&text), pool.account()).unwrap()));
        client.cancelled = Cancelled::Segment;
        client.sequences = ClientSequences::of_bits(6);
        let (held, unnamed) = (pool.used(), client.unnamed_id());
        assert!(held > 5_000);
        let bytes = freeze(&client, &table).unwrap();
        drop(client.statements.take());
        client.drop_unnamed();
        assert!(pool.used() < 1_000);
        let thawed = thaw(&bytes, &table, &mut interner, &pool).unwrap();
        assert_eq!(pool.used(), held, "it is charged as before");
        assert_eq!((thawed.id, thawed.mode, &thawed.params), (7, PoolMode::Transaction, &client.params));
        assert!(Arc::ptr_eq(thawed.statements.as_ref().unwrap().get(b"s").unwrap(), &statement));
        assert_eq!(thawed.unnamed_id(), unnamed);
        assert_eq!(thawed.given(b"s").unwrap().shape, shape);
        assert!(thawed.cancelled == Cancelled::Segment && thawed.sequences == client.sequences);
        assert!(matches!(&thawed.unnamed, Unnamed::Held(held) if held.bytes() == text));
        let mut fails = |bytes: &[u8]| thaw(bytes, &table, &mut interner, &pool).unwrap_err();
        assert_eq!(fails(&bytes[..bytes.len() - 3]), NotThawed::Damaged);
        assert_eq!(fails(&[9]), NotThawed::Version);
    }

    #[test]
    fn settings_follow_a_client_to_a_process_that_tracks_others() {
        let (one, other) = (ParamTable::new(["my.a", "my.reported"]), ParamTable::new(["my.b"]));
        let mut params = one.unknown();
        one.take_report(&mut params, "my.reported", "of the server");
        one.set(&mut params, "my.a", "1").unwrap();
        one.set_untracked(&mut params, "my.b", "2").unwrap();
        // As many untracked ones as a client may set.
        (0..63).for_each(|n| one.set_untracked(&mut params, &format!("my.n{n}"), "3").unwrap());
        let mut client = Client::new(7, PoolMode::Transaction, Arc::new(params));
        client.start.own = 1 << one.place("my.a").unwrap();
        let bytes = freeze(&client, &one).unwrap();
        let (mut interner, pool) = worker(1 << 20);
        let thawed = thaw(&bytes, &other, &mut interner, &pool).unwrap();
        let mut values: Vec<_> = other.iter(&thawed.params).filter(|(name, _)| !name.starts_with("my.n")).collect();
        values.sort_unstable();
        assert_eq!(values, [("my.a", "1"), ("my.b", "2")], "what is the client's own, and nothing else");
        assert!(["my.a", "my.b", "my.n0", "my.n62"].iter().all(|name| thawed.owns(&other, name)));
        assert_eq!(thawed.start.own, 1 << other.place("my.b").unwrap());
        let back = thaw(&freeze(&thawed, &other).unwrap(), &one, &mut interner, &pool).unwrap();
        assert!(back.params.sets_untracked("my.b") && back.params.sets_untracked("my.n62"));
        assert_eq!((one.get(&back.params, "my.a"), back.start.own), (Some("1"), client.start.own));
    }

    /// A worker whose limits are `limit`, with a pool.
    fn worker(limit: u64) -> (Interner, PoolStatements) {
        let interner = Interner::new([1; 16], &StatementMemory::default(), limit);
        let pool = interner.pool("app", "joe", limit);
        (interner, pool)
    }

    #[test]
    fn a_client_thaws_with_all_that_it_holds_where_there_is_no_room_for_it() {
        let table = ParamTable::new([]);
        let (mut interner, pool) = worker(1 << 20);
        let mut client = Client::new(7, PoolMode::Transaction, Arc::new(table.unknown()));
        for n in 0..20_u8 {
            let text = [&[b'a' + n; 3_000][..], &[0; 3]].concat();
            let statement = interner.intern(&pool, &text, ParseEnvironment(5)).unwrap();
            let (by, shape) = (client.count_change(), GivenShape::none(u64::from(n)));
            client.statements_mut().insert(Name::new(&[b'a' + n]), Given { statement, by, shape });
        }
        let text = [vec![b' '; 5_000], vec![0; 3]].concat();
        client.put_unnamed(Unnamed::Held(HeldText::new(text, Judged::default(), pool.account()).unwrap()));
        client.stream = FrameReader::thaw(vec![b'P'; 20_000]);
        let bytes = freeze(&client, &table).unwrap();
        for limit in [0, 1, 10_000, 60_000] {
            let (mut interner, pool) = worker(limit);
            let thawed = thaw(&bytes, &table, &mut interner, &pool).unwrap();
            assert_eq!(freeze(&thawed, &table).as_ref(), Some(&bytes), "{limit}");
            assert!(pool.used() > 85_000 && interner.used() > 85_000, "it counts: {} {}", pool.used(), interner.used());
            assert!(
                interner.intern(&pool, b"new\0\0\0", ParseEnvironment(5)).is_err(),
                "the limit holds for what is new"
            );
            drop(thawed);
            assert_eq!((pool.used(), interner.used()), (0, 0));
        }
    }
}
