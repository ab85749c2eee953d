//! What was made, for as long as it counts: one of each kind is made at a time, and all who want it wait for it.
//!
//! A newer one is made when one is due: shortly before the present one ends to count, after a jump of the calendar's
//! clock, or when a server has refused the present one. Where that fails, the present one counts until its end for all
//! whom it was not refused, and the next attempt follows after a pause. What one server refuses may be right at others,
//! so a refusal drops nothing, and leads to one attempt in each pause.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clocks::ClockReading;

/// More keys than this are remembered only while their values count.
const REMEMBERED: usize = 1000;
/// The pause after an attempt to make a newer one that has failed, and after one that a refusal has led to.
const PAUSE: Duration = Duration::from_secs(5);
/// How long something without an end counts while it can't be made again: Vault's longest lease, if it is not configured.
pub(crate) const UNLIMITED: Duration = Duration::from_secs(32 * 86_400);
/// The longest part of a lifetime in which a newer one is due.
const MARGIN: Duration = Duration::from_secs(300);

/// What was made, and how long it counts.
#[derive(Clone, Debug)]
pub struct Made<V> {
    /// What was made.
    pub value: V,
    /// When it was made, or asked for.
    pub at: ClockReading,
    /// A newer one is due after this time.
    pub due: Duration,
    /// It counts for so long.
    pub counts: Duration,
}

/// What a cache has, or has made.
pub struct Found<V> {
    /// The value.
    pub value: V,
    /// Whether it was made by this call, or so shortly before that another one is not made yet.
    pub is_new: bool,
    /// Why there is no newer one, where one is due and was tried.
    pub overdue: Option<String>,
}

/// See the head of the file.
pub struct Cache<K, V>(Mutex<HashMap<K, Arc<Mutex<Place<V>>>>>);

/// What is kept for a key.
struct Place<V> {
    made: Option<Made<V>>,
    /// The last attempt that a refusal has led to, and why it failed.
    replaced: Option<(ClockReading, Option<String>)>,
}

impl<V> Made<V> {
    /// What counts until a service says so; a newer one is due in the last fifth of that time, at most five minutes
    /// before.
    pub fn expiring(value: V, at: ClockReading, counts: Duration) -> Made<V> {
        Made { value, at, due: counts - (counts / 5).min(MARGIN), counts }
    }

    /// What counts for a time, and then is made again.
    pub fn lasting(value: V, at: ClockReading, counts: Duration) -> Made<V> {
        Made { value, at, due: counts, counts }
    }

    /// What is made again after some time, and counts for longer where that fails.
    pub fn renewed(value: V, at: ClockReading, due: Duration, counts: Duration) -> Made<V> {
        Made { value, at, due: due.min(counts), counts }
    }

    fn counts(&self, now: ClockReading) -> bool {
        now.age_of(self.at) < self.counts
    }

    /// Whether a newer one is due.
    fn is_due(&self, now: ClockReading) -> bool {
        now.has_jumped_since(self.at) || now.age_of(self.at) >= self.due
    }

    /// There is no newer one: the next attempt follows after a pause.
    fn defer(&mut self, now: ClockReading) {
        self.counts = self.counts.saturating_sub(now.age_of(self.at));
        (self.at, self.due) = (now, PAUSE);
    }
}

impl<V> Default for Place<V> {
    fn default() -> Place<V> {
        Place { made: None, replaced: None }
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty one.
    pub fn new() -> Cache<K, V> {
        Cache(Mutex::default())
    }

    /// What is kept `now`, or else what `make` makes: also if what is kept is `refused`, as `make` then learns. Blocks
    /// for as long as `make`, and while it runs for another caller.
    ///
    /// # Errors
    /// That of `make`, if nothing that counts is left, or only what is refused.
    pub fn get(
        &self,
        now: impl Fn() -> ClockReading,
        key: &K,
        refused: impl Fn(&V) -> bool,
        make: impl FnOnce(bool) -> Result<Made<V>, String>,
    ) -> Result<Found<V>, String> {
        let place = self.place(key, now());
        let mut place = lock(&place);
        // It may have waited for another caller.
        let clock = now;
        let now = clock();
        place.made.take_if(|made| !made.counts(now));
        let Place { made: kept, replaced } = &mut *place;
        let was_refused = kept.as_ref().is_some_and(|made| refused(&made.value));
        if let Some(made) = kept {
            let found = |is_new| Found { value: made.value.clone(), is_new, overdue: None };
            let recent = replaced.as_ref().filter(|(at, _)| was_refused && now.age_of(*at) < PAUSE);
            match recent {
                Some((_, Some(why))) => return Err(why.clone()),
                Some((_, None)) => return Ok(found(true)),
                None if !was_refused && !made.is_due(now) => return Ok(found(false)),
                None => {}
            }
        }
        let result = make(was_refused);
        // What is made may take longer than the pause, which is between two of these.
        let now = clock();
        if was_refused {
            *replaced = Some((now, result.as_ref().err().cloned()));
        }
        match (result, kept) {
            (Ok(made), kept) => {
                let value = made.value.clone();
                *kept = Some(made);
                Ok(Found { value, is_new: true, overdue: None })
            }
            (Err(why), Some(made)) if !was_refused => {
                made.defer(now);
                Ok(Found { value: made.value.clone(), is_new: false, overdue: Some(why) })
            }
            // Without one that counts the next caller tries again.
            (Err(why), _) => Err(why),
        }
    }

    fn place(&self, key: &K, now: ClockReading) -> Arc<Mutex<Place<V>>> {
        let mut all = lock(&self.0);
        if all.len() >= REMEMBERED && !all.contains_key(key) {
            let counts = |place: &Place<V>| place.made.as_ref().is_some_and(|made| made.counts(now));
            all.retain(|_, place| place.try_lock().map_or(true, |place| counts(&place)));
        }
        all.entry(key.clone()).or_default().clone()
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Default for Cache<K, V> {
    fn default() -> Cache<K, V> {
        Cache::new()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A cache of one number that counts for 100 s, and a clock that is set by hand.
    struct Stage {
        cache: Cache<u8, u32>,
        now: Cell<ClockReading>,
        made: Cell<u32>,
        tried: Cell<u32>,
        fails: Cell<bool>,
    }

    impl Stage {
        fn new() -> Stage {
            Stage {
                cache: Cache::new(),
                now: Cell::new(ClockReading::now()),
                made: Cell::new(0),
                tried: Cell::new(0),
                fails: Cell::new(false),
            }
        }

        fn pass(&self, seconds: u64) {
            self.now.set(self.now.get().after(Duration::from_secs(seconds)));
        }

        /// The calendar's clock is set.
        fn jump(&self, by: i64) {
            let ClockReading { steady, calendar } = self.now.get();
            let time = Duration::from_secs(by.unsigned_abs());
            let calendar = if by < 0 { calendar - time } else { calendar + time };
            self.now.set(ClockReading { steady, calendar });
        }

        /// The number, whether it is new, and whether a newer one is overdue.
        fn get(&self, refused: u32) -> Result<(u32, bool, bool), String> {
            let make = |_| {
                self.tried.set(self.tried.get() + 1);
                if self.fails.get() {
                    return Err("away".to_owned());
                }
                self.made.set(self.made.get() + 1);
                Ok(Made::expiring(self.made.get(), self.now.get(), Duration::from_secs(100)))
            };
            let found = self.cache.get(|| self.now.get(), &0, |value| *value == refused, make)?;
            Ok((found.value, found.is_new, found.overdue.is_some()))
        }
    }

    #[test]
    fn a_newer_one_is_made_shortly_before_the_old_one_ends() {
        let stage = Stage::new();
        assert_eq!(stage.get(0), Ok((1, true, false)));
        stage.pass(79);
        assert_eq!(stage.get(0), Ok((1, false, false)));
        stage.pass(1);
        assert_eq!(stage.get(0), Ok((2, true, false)));
    }

    #[test]
    fn the_old_one_counts_until_its_end_while_none_can_be_made_and_attempts_have_a_pause() {
        let stage = Stage::new();
        stage.get(0).unwrap();
        stage.fails.set(true);
        stage.pass(80);
        assert_eq!(stage.get(0), Ok((1, false, true)));
        assert_eq!(stage.get(0), Ok((1, false, false)), "it is not tried again at once");
        stage.pass(5);
        assert_eq!(stage.get(0), Ok((1, false, true)));
        stage.pass(15);
        assert_eq!(stage.get(0), Err("away".to_owned()));
        stage.fails.set(false);
        assert_eq!(stage.get(0), Ok((2, true, false)));
    }

    #[test]
    fn one_that_was_refused_is_replaced_once_in_each_pause() {
        let stage = Stage::new();
        stage.get(0).unwrap();
        assert_eq!(stage.get(1), Ok((2, true, false)));
        assert_eq!(stage.get(1), Ok((2, false, false)), "another login had the first one, too");
        for _ in 0..10 {
            assert_eq!(stage.get(2), Ok((2, true, false)), "another one would not help");
            assert_eq!(stage.get(0), Ok((2, false, false)));
        }
        stage.pass(5);
        assert_eq!(stage.get(2), Ok((3, true, false)));
    }

    #[test]
    fn one_that_is_refused_to_one_counts_for_others_while_none_can_be_made() {
        let stage = Stage::new();
        stage.get(0).unwrap();
        stage.fails.set(true);
        for _ in 0..3 {
            assert_eq!(stage.get(1), Err("away".to_owned()));
            assert_eq!(stage.get(0), Ok((1, false, false)));
        }
        assert_eq!(stage.tried.get(), 2, "it is not tried again at once");
        stage.pass(5);
        assert_eq!(stage.get(1), Err("away".to_owned()));
        assert_eq!((stage.tried.get(), stage.get(0)), (3, Ok((1, false, false))));
        stage.fails.set(false);
        stage.pass(5);
        assert_eq!(stage.get(1), Ok((2, true, false)));
    }

    #[test]
    fn what_is_made_again_in_time_counts_for_longer_where_that_fails() {
        let (cache, now) = (Cache::<u8, u32>::new(), ClockReading::now());
        let get = |after: u64, made: Option<u32>| {
            let at = now.after(Duration::from_secs(after));
            let make = |_| {
                let value = made.ok_or("away")?;
                Ok(Made::renewed(value, at, Duration::from_secs(300), Duration::from_secs(1000)))
            };
            cache.get(|| at, &0, |_| false, make).map(|found| (found.value, found.overdue.is_some()))
        };
        assert_eq!(get(0, Some(1)), Ok((1, false)));
        assert_eq!(get(299, Some(2)), Ok((1, false)));
        assert_eq!(get(300, None), Ok((1, true)));
        assert_eq!(get(302, None), Ok((1, false)));
        assert_eq!(get(999, None), Ok((1, true)));
        assert_eq!(get(1000, None), Err("away".to_owned()));
        assert_eq!(get(1000, Some(3)), Ok((3, false)));
    }

    #[test]
    fn after_a_jump_of_the_calendars_clock_a_newer_one_is_made_and_without_one_the_present_one_counts() {
        for by in [3600, -3600, 86_400 * 365] {
            let stage = Stage::new();
            stage.get(0).unwrap();
            stage.fails.set(true);
            stage.pass(20);
            stage.jump(by);
            assert_eq!(stage.get(0), Ok((1, false, true)), "{by}: nobody is locked out");
            assert_eq!(stage.get(0), Ok((1, false, false)), "{by}: it is not tried again at once");
            stage.pass(79);
            assert_eq!(stage.get(0), Ok((1, false, true)), "{by}");
            stage.pass(1);
            assert_eq!(stage.get(0), Err("away".to_owned()), "{by}: it counts no longer than without the jump");
        }
    }

    #[test]
    fn after_a_jump_of_the_calendars_clock_a_newer_one_is_made() {
        let stage = Stage::new();
        let jump = |by: i64| stage.jump(by);
        for (by, expected) in [(3600, (2, true, false)), (-7200, (3, true, false)), (86_400 * 365, (4, true, false))] {
            stage.get(0).unwrap();
            jump(by);
            assert_eq!(stage.get(0), Ok(expected), "{by}");
        }
        for small in [3, -4] {
            jump(small);
            assert_eq!(stage.get(0), Ok((4, false, false)), "{small}");
        }
    }

    #[test]
    fn keys_that_do_not_count_any_more_make_room() {
        let (cache, now) = (Cache::<usize, ()>::new(), ClockReading::now());
        let later = now.after(Duration::from_secs(200));
        let made = |at| move |_| Ok(Made::lasting((), at, Duration::from_secs(100)));
        for key in 0..REMEMBERED {
            cache.get(|| now, &key, |()| false, made(now)).unwrap();
        }
        cache.get(|| later, &REMEMBERED, |()| false, made(later)).unwrap();
        assert_eq!(lock(&cache.0).len(), 1);
    }
}
