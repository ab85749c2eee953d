//! What was made, for as long as it counts: one of each kind is made at a time, and all who want it wait for it.
//!
//! A newer one is made when one is due, shortly before the present one ends to count. Where that fails, the present one
//! counts until its end, and the next attempt follows after a pause. After a jump of the calendar's clock nothing that
//! was made before counts.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clocks::ClockReading;

/// More keys than this are remembered only while their values count.
const REMEMBERED: usize = 1000;
/// The pause after an attempt to make a newer one that has failed.
const PAUSE: Duration = Duration::from_secs(5);
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
    /// Whether it was made by this call.
    pub is_new: bool,
    /// Why there is no newer one, where one is due and was tried.
    pub overdue: Option<String>,
}

/// See the head of the file.
pub struct Cache<K, V>(Mutex<HashMap<K, Place<V>>>);

type Place<V> = Arc<Mutex<Option<Made<V>>>>;

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

    /// The age; `None` if it does not count any more.
    fn age(&self, now: ClockReading) -> Option<Duration> {
        now.since(self.at).filter(|age| *age < self.counts)
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty one.
    pub fn new() -> Cache<K, V> {
        Cache(Mutex::default())
    }

    /// What is kept `now`, or else what `make` makes. One that is `refused` is not returned; `make` is told whether it
    /// was kept. Blocks for as long as `make`, and while it runs for another caller.
    ///
    /// # Errors
    /// That of `make`, if nothing that counts is left.
    pub fn get(
        &self,
        now: impl Fn() -> ClockReading,
        key: &K,
        refused: impl Fn(&V) -> bool,
        make: impl FnOnce(bool) -> Result<Made<V>, String>,
    ) -> Result<Found<V>, String> {
        let place = self.place(key, now());
        let mut kept = lock(&place);
        // It may have waited for another caller.
        let now = now();
        let was_refused = kept.as_ref().is_some_and(|made| refused(&made.value));
        let old = kept.take().filter(|made| !was_refused && made.age(now).is_some());
        if let Some(made) = &old
            && made.age(now).is_some_and(|age| age < made.due)
        {
            let value = made.value.clone();
            *kept = old;
            return Ok(Found { value, is_new: false, overdue: None });
        }
        match (make(was_refused), old) {
            (Ok(made), _) => {
                let value = made.value.clone();
                *kept = Some(made);
                Ok(Found { value, is_new: true, overdue: None })
            }
            (Err(why), Some(mut made)) => {
                made.due = made.age(now).unwrap_or_default() + PAUSE;
                let value = made.value.clone();
                *kept = Some(made);
                Ok(Found { value, is_new: false, overdue: Some(why) })
            }
            // What can't be made now is tried again for the next caller.
            (Err(why), None) => Err(why),
        }
    }

    fn place(&self, key: &K, now: ClockReading) -> Place<V> {
        let mut all = lock(&self.0);
        if all.len() >= REMEMBERED && !all.contains_key(key) {
            let counts = |made: &Made<V>| made.age(now).is_some();
            all.retain(|_, place| place.try_lock().map_or(true, |kept| kept.as_ref().is_some_and(counts)));
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
        fails: Cell<bool>,
    }

    impl Stage {
        fn new() -> Stage {
            Stage {
                cache: Cache::new(),
                now: Cell::new(ClockReading::now()),
                made: Cell::new(0),
                fails: Cell::new(false),
            }
        }

        fn pass(&self, seconds: u64) {
            self.now.set(self.now.get().after(Duration::from_secs(seconds)));
        }

        /// The number, whether it is new, and whether a newer one is overdue.
        fn get(&self, refused: u32) -> Result<(u32, bool, bool), String> {
            let make = |_| {
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
    fn one_that_was_refused_is_not_given_again_even_if_none_can_be_made() {
        let stage = Stage::new();
        stage.get(0).unwrap();
        assert_eq!(stage.get(1), Ok((2, true, false)));
        assert_eq!(stage.get(1), Ok((2, false, false)));
        stage.fails.set(true);
        assert_eq!(stage.get(2), Err("away".to_owned()));
    }

    #[test]
    fn after_a_jump_of_the_calendars_clock_nothing_of_before_counts() {
        let stage = Stage::new();
        let jump = |by: i64| {
            let ClockReading { steady, calendar } = stage.now.get();
            let time = Duration::from_secs(by.unsigned_abs());
            let calendar = if by < 0 { calendar - time } else { calendar + time };
            stage.now.set(ClockReading { steady, calendar });
        };
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
