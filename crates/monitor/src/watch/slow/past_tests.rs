//! The rule of slow queries with modelled windows: what is slow, and what varies as it does every day.

use super::*;

/// Windows that are slow.
const NONE: [u64; 0] = [];
/// Seconds of a window.
const WINDOW: f64 = 5.0;

/// Numbers that look random, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About normally distributed, with a variance of 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// Plays windows of calls: `calls` fills the histogram of window `number`, and returns the requests without an answer. Each
/// window in which the pool is slow, with what is said.
fn play(windows: u64, mut calls: impl FnMut(u64, &mut Histogram) -> u32) -> Vec<(u64, Slower)> {
    let mut past = Past::default();
    let mut found = Vec::new();
    for number in 0..windows {
        let mut times = Histogram::default();
        let unanswered = calls(number, &mut times);
        let from = 1e9 + number as f64 * WINDOW;
        let slower = past.take(&Window { times, unanswered, from, to: from + WINDOW }, true);
        found.extend(slower.map(|slower| (number, slower)));
    }
    found
}

fn many(times: &mut Histogram, count: u64, micros: f64) {
    times.count_many(micros as u64, count);
}

fn numbers(found: &[(u64, Slower)]) -> Vec<u64> {
    found.iter().map(|(number, _)| *number).collect()
}

#[test]
fn queries_that_take_thirty_times_as_long_are_slow_from_the_second_window_on_until_they_are_not() {
    let found = play(200, |number, times| {
        let slow = (100..120).contains(&number);
        // Each client sends its next query when it has the answer.
        many(times, if slow { 166 } else { 5_000 }, if slow { 30_000.0 } else { 1_000.0 });
        0
    });
    assert_eq!(numbers(&found), (101..120).collect::<Vec<_>>());
    let (_, first) = found[0];
    assert_eq!(first.since, 1e9 + 100.0 * WINDOW);
    assert!((20.0..45.0).contains(&(first.now / first.usual)), "{first:?}");
}

#[test]
fn queries_that_end_no_more_are_slow_too() {
    let found = play(130, |number, times| {
        let stuck = (100..110).contains(&number);
        if !stuck {
            many(times, 300, 2_000.0);
        }
        if stuck { 8 } else { 0 }
    });
    assert_eq!(numbers(&found), (101..110).collect::<Vec<_>>());
    assert!(found[0].1.now >= 10_000.0);
}

#[test]
fn a_pool_is_not_slow_before_its_past_is_known_and_an_idle_one_never() {
    let found = play(60, |number, times| {
        many(times, 100, if number < 8 { 1_000.0 } else { 100_000.0 });
        0
    });
    assert_eq!(numbers(&found), NONE, "eight windows are no past");
    let found = play(400, |number, times| {
        if number % 7 == 0 {
            many(times, 1, if number % 21 == 0 { 900_000.0 } else { 500.0 });
        }
        0
    });
    assert_eq!(numbers(&found), NONE);
}

#[test]
fn what_varies_as_it_does_every_day_is_not_slow() {
    let mut random = Numbers(7);
    let found = play(17_280, |number, times| {
        // A day: few calls at night, calls of a wide spread, whole windows of two to three times the usual.
        let day = (1.0 - (number as f64 / 17_280.0 * std::f64::consts::TAU).cos()) / 2.0;
        let count = (2.0 + 300.0 * day * (0.4 * random.normal()).exp()) as u64;
        let level = 800.0 * (0.5 * random.normal()).exp();
        for _ in 0..count.min(60) {
            many(times, count / 60 + 1, level * random.normal().exp());
        }
        // A report now and then.
        if number % 50 == 3 {
            many(times, 1, 40_000_000.0);
        }
        u32::from(number % 50 > 40)
    });
    assert_eq!(numbers(&found), NONE);
}

#[test]
fn a_batch_is_not_slow_beside_other_work_nor_alone_at_night() {
    // Eight clients with long queries, beside twenty fast queries a second.
    let beside = play(200, |number, times| {
        many(times, 100, 1_500.0);
        if number >= 100 {
            many(times, 80, 400_000.0);
        }
        if number >= 100 { 8 } else { 0 }
    });
    assert_eq!(numbers(&beside), NONE);
    // The last ones go home ten minutes before.
    let alone = play(600, |number, times| {
        let (usual, at_night) = (number < 300, number >= 420);
        many(times, if usual { 100 } else { u64::from(number % 3 == 0) }, 1_500.0);
        if at_night {
            many(times, 80, 400_000.0);
        }
        if at_night { 8 } else { 0 }
    });
    assert_eq!(numbers(&alone), NONE);
}

#[test]
fn an_application_that_leaves_the_slower_ones_is_not_slow() {
    let found = play(300, |number, times| {
        if number < 150 {
            many(times, 400, 500.0);
        }
        many(times, 90 + number % 20, 60_000.0);
        0
    });
    assert_eq!(numbers(&found), NONE);
}

#[test]
fn what_comes_every_five_minutes_is_told_the_first_time_only() {
    let found = play(1_200, |number, times| {
        let slow = number % 60 > 54;
        many(times, 200, if slow { 40_000.0 } else { 1_000.0 });
        0
    });
    assert!(numbers(&found).iter().all(|number| *number < 120), "{:?}", numbers(&found));
    assert!(!found.is_empty());
}

#[test]
fn one_slow_window_is_none_and_a_pause_between_slow_ones_is_one_time() {
    let one = play(200, |number, times| {
        many(times, 100, if number == 150 { 80_000.0 } else { 1_000.0 });
        0
    });
    assert_eq!(numbers(&one), NONE);
    let pauses = play(200, |number, times| {
        let slow = (150..170).contains(&number) && number % 5 != 4;
        many(times, 100, if slow { 80_000.0 } else { 1_000.0 });
        0
    });
    assert!(pauses.iter().all(|(_, slower)| slower.since == 1e9 + 150.0 * WINDOW), "{pauses:?}");
    assert!(numbers(&pauses).contains(&168));
}

#[test]
fn what_lasts_for_an_hour_is_usual() {
    let found = play(2_000, |number, times| {
        many(times, 100, if number < 100 { 1_000.0 } else { 80_000.0 });
        0
    });
    let last = numbers(&found).pop().expect("it was slow");
    assert!((815..=825).contains(&last), "{last}");
}

#[test]
fn a_start_in_the_middle_of_an_incident_does_not_hide_the_next_one() {
    let found = play(80, |number, times| {
        let slow = (6..10).contains(&number) || number >= 40;
        many(times, 300, if slow { 36_000.0 } else { 2_000.0 });
        0
    });
    assert_eq!(numbers(&found), (41..80).collect::<Vec<_>>());
}
