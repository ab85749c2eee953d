//! A pool's figures in a fixed number of bytes: the last hour by the second, and the last days by the minute.
//!
//! Owns the layout. A moment has one place, its number of steps since 1970 modulo the number of places, and overwrites
//! the record of one round ago; each record contains its moment. So no record ever moves, a crash loses only the
//! record that was being written, and the size is fixed. A figure takes two bytes: the upper part of an `f32` without
//! its sign, which is exact to a fifth of a per cent.
//!
//! Layout, little-endian: a head of [`HEAD`] bytes ([`MAGIC`], the name's length in two bytes, the name), the records
//! of seconds, those of minutes. A record: the moment in seconds since 1970 (4 bytes), the figures, the sum of all
//! that.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::series::{COUNT, Sample, UNKNOWN};

/// The first bytes of a file; another layout has another number.
const MAGIC: &[u8; 16] = b"weir history 1\n\0";
const HEAD: usize = 4096;
/// The longest name of a pool that a head can store.
const MOST_NAME: usize = HEAD - MAGIC.len() - 2;
const RECORD: usize = 4 + 2 * COUNT + 2;

/// The resolution and the range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// A record a second, of the last minutes.
    Seconds,
    /// A record a minute, of the last days.
    Minutes,
}

impl Scale {
    /// Seconds from a record to the next.
    pub fn step(self) -> u64 {
        match self {
            Scale::Seconds => 1,
            Scale::Minutes => 60,
        }
    }
}

/// An hour of seconds.
const SECONDS: u64 = 3_600;
/// A day of minutes, in memory.
const MINUTES_IN_MEMORY: u64 = 24 * 60;
/// A month of minutes, in a file.
const MINUTES_IN_FILE: u64 = 30 * 24 * 60;

/// The bytes that a ring takes in a file.
pub(super) const IN_FILE: u64 = HEAD as u64 + (SECONDS + MINUTES_IN_FILE) * RECORD as u64;

/// The figures of one pool.
pub(super) struct Ring {
    store: Store,
    minutes: u64,
}

enum Store {
    Memory(Vec<u8>),
    /// From this place on.
    File(Arc<File>, u64),
}

impl Ring {
    /// A ring that ends with the process.
    pub(super) fn in_memory() -> Ring {
        let length = HEAD + (SECONDS + MINUTES_IN_MEMORY) as usize * RECORD;
        Ring { store: Store::Memory(vec![0; length]), minutes: MINUTES_IN_MEMORY }
    }

    /// A new ring at its place in a file; overwrites what was there.
    pub(super) fn create(file: &Arc<File>, place: usize, name: &str) -> io::Result<Ring> {
        if name.len() > MOST_NAME {
            return Err(io::Error::other("the pool's name is too long"));
        }
        let start = place as u64 * IN_FILE;
        let empty = vec![0; 64 << 10];
        for from in (0..IN_FILE).step_by(empty.len()) {
            let length = (IN_FILE - from).min(empty.len() as u64) as usize;
            file.write_all_at(&empty[..length], start + from)?;
        }
        let length = (name.len() as u16).to_le_bytes();
        file.write_all_at(&[&MAGIC[..], &length, name.as_bytes()].concat(), start)?;
        Ok(Ring { store: Store::File(file.clone(), start), minutes: MINUTES_IN_FILE })
    }

    /// A ring with the figures of an earlier process; none if there is none at this place.
    pub(super) fn open(file: &Arc<File>, place: usize) -> io::Result<Option<(String, Ring)>> {
        let start = place as u64 * IN_FILE;
        let mut head = [0; HEAD];
        file.read_exact_at(&mut head, start)?;
        let Some(rest) = head.strip_prefix(MAGIC) else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        let name = rest.get(2..2 + length).and_then(|name| std::str::from_utf8(name).ok());
        let ring = Ring { store: Store::File(file.clone(), start), minutes: MINUTES_IN_FILE };
        Ok(name.map(|name| (name.to_owned(), ring)))
    }

    /// Stores the figures of a moment.
    pub(super) fn put(&mut self, scale: Scale, time: u64, sample: &Sample) -> io::Result<()> {
        let time = time - time % scale.step();
        let place = self.place(scale, time);
        let record = encode(time, sample);
        match &mut self.store {
            Store::Memory(bytes) => bytes[place..place + RECORD].copy_from_slice(&record),
            Store::File(file, start) => file.write_all_at(&record, *start + place as u64)?,
        }
        Ok(())
    }

    /// The figures of each moment from `from` on, `moments` of them; `from` is a whole step.
    pub(super) fn get(&self, scale: Scale, from: u64, moments: u64) -> io::Result<Vec<Sample>> {
        let from = from - from % scale.step();
        let first = self.place(scale, from);
        let behind = self.place(scale, 0) + self.places(scale) as usize * RECORD;
        let until_end = ((behind - first) / RECORD).min(moments as usize);
        let mut bytes = self.read(first, until_end * RECORD)?;
        let beginning = self.place(scale, 0);
        let rest = (moments as usize - until_end).min((first - beginning) / RECORD);
        bytes.extend(self.read(beginning, rest * RECORD)?);
        let mut samples: Vec<Sample> = bytes
            .chunks_exact(RECORD)
            .zip(0..)
            .map(|(record, number)| decode(record, from + number * scale.step()).unwrap_or(UNKNOWN))
            .collect();
        samples.resize(moments as usize, UNKNOWN);
        Ok(samples)
    }

    fn places(&self, scale: Scale) -> u64 {
        match scale {
            Scale::Seconds => SECONDS,
            Scale::Minutes => self.minutes,
        }
    }

    /// The position of a moment's record.
    fn place(&self, scale: Scale, time: u64) -> usize {
        let before = if scale == Scale::Seconds { 0 } else { SECONDS };
        HEAD + (before + time / scale.step() % self.places(scale)) as usize * RECORD
    }

    fn read(&self, from: usize, length: usize) -> io::Result<Vec<u8>> {
        match &self.store {
            Store::Memory(bytes) => Ok(bytes[from..from + length].to_vec()),
            Store::File(file, start) => {
                let mut bytes = vec![0; length];
                file.read_exact_at(&mut bytes, *start + from as u64)?;
                Ok(bytes)
            }
        }
    }
}

fn encode(time: u64, sample: &Sample) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD);
    record.extend_from_slice(&(time as u32).to_le_bytes());
    sample.iter().for_each(|value| record.extend_from_slice(&short(*value).to_le_bytes()));
    let sum = check(&record);
    record.extend_from_slice(&sum.to_le_bytes());
    record
}

/// The record's figures, if it is whole and of this moment.
fn decode(record: &[u8], time: u64) -> Option<Sample> {
    let (body, sum) = record.split_last_chunk::<2>()?;
    let (at, values) = body.split_first_chunk::<4>()?;
    let right = check(body) == u16::from_le_bytes(*sum) && u32::from_le_bytes(*at) == time as u32;
    let value = |index: usize| long(u16::from_le_bytes([values[2 * index], values[2 * index + 1]]));
    right.then(|| std::array::from_fn(value))
}

/// Not zero for zeros, so that a place that was never written is no record.
fn check(body: &[u8]) -> u16 {
    body.iter().fold(0x5751, |sum: u16, byte| sum.rotate_left(3).wrapping_add(u16::from(*byte)))
}

/// The exponent and the upper eight bits of the fraction, rounded.
fn short(value: f32) -> u16 {
    if value.is_nan() { u16::MAX } else { (((value.max(0.0).to_bits() << 1) + 0x8000) >> 16) as u16 }
}

fn long(value: u16) -> f32 {
    f32::from_bits(u32::from(value) << 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(value: f32) -> Sample {
        let mut sample = UNKNOWN;
        sample[0] = value;
        sample
    }

    fn firsts(samples: &[Sample]) -> Vec<Option<f32>> {
        samples.iter().map(|sample| Some(sample[0]).filter(|value| !value.is_nan())).collect()
    }

    #[test]
    fn two_bytes_hold_a_figure_to_a_fifth_of_a_per_cent_and_small_counts_exactly() {
        for value in [0.0, 0.001, 0.75, 1.0, 99.0, 511.0, 12_345.6, 1e12] {
            let error = (long(short(value)) - value).abs();
            assert!(error <= value * 0.002, "{value}: {error}");
        }
        (0..=512_u16).for_each(|count| assert_eq!(long(short(f32::from(count))), f32::from(count)));
        assert!(long(short(f32::NAN)).is_nan() && long(short(-1.0)) == 0.0);
    }

    #[test]
    fn a_ring_has_its_last_round_and_nothing_else() {
        let mut ring = Ring::in_memory();
        let start = 1_700_000_000;
        for second in 0..5_000 {
            ring.put(Scale::Seconds, start + second, &of(second as f32)).expect("memory");
        }
        let last = ring.get(Scale::Seconds, start + 4_990, 20).expect("memory");
        let known = (4_990..5_000).map(|second| Some(long(short(second as f32))));
        assert_eq!(firsts(&last), known.chain([None; 10]).collect::<Vec<_>>());
        assert_eq!(firsts(&ring.get(Scale::Seconds, start, 5).expect("memory")), [None; 5], "a round ago");
        let whole = ring.get(Scale::Seconds, start + 5_000 - SECONDS, SECONDS).expect("memory");
        assert!(firsts(&whole).iter().all(Option::is_some));
        assert_eq!(firsts(&ring.get(Scale::Minutes, start, 3).expect("memory")), [None; 3]);
    }

    #[test]
    fn a_ring_in_a_file_is_found_again_with_its_name_and_its_figures_and_leaves_none_to_the_next() {
        let path = std::env::temp_dir().join(format!("weir-ring-{}", std::process::id()));
        let open = || std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = Arc::new(open().expect("a file"));
        file.set_len(3 * IN_FILE).expect("there is room");
        file.write_all_at(b"somebody else's", 2 * IN_FILE).expect("it is written");
        let mut ring = Ring::create(&file, 1, "sales/eu").expect("a file");
        ring.put(Scale::Minutes, 1_700_000_065, &of(7.0)).expect("it is written");
        drop((ring, file));
        let file = Arc::new(open().expect("a file"));
        let found = |place| Ring::open(&file, place).expect("it is read");
        assert!(found(0).is_none() && found(2).is_none());
        let (name, ring) = found(1).expect("ours");
        assert_eq!(name, "sales/eu");
        let minutes = ring.get(Scale::Minutes, 1_700_000_040, 2).expect("it is read");
        assert_eq!(firsts(&minutes), [Some(7.0), None]);
        let again = Ring::create(&file, 1, "another").expect("it is written");
        assert_eq!(firsts(&again.get(Scale::Minutes, 1_700_000_040, 2).expect("it is read")), [None; 2]);
        std::fs::remove_file(&path).expect("it goes");
    }

    #[test]
    fn a_record_that_was_half_written_is_none() {
        let mut record = encode(1_700_000_000, &of(3.0));
        assert!(decode(&record, 1_700_000_000).is_some() && decode(&record, 1_700_000_001).is_none());
        record[9] ^= 1;
        assert!(decode(&record, 1_700_000_000).is_none());
    }
}
