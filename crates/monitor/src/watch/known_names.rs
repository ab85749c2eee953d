//! Which applications of which pools are known: a bounded number, of which names that change all the time push out no
//! other program's.

use std::collections::BTreeMap;

use weir_admin::{gives_way, stem};

/// The most names of a pool, and of all.
const MOST: usize = 128;
const MOST_OF_ALL: usize = 10_000;
/// From this many new names on, in [`HOUR`], of one program or of programs that were not known, they change all the time.
pub(super) const RESTLESS: usize = 12;
const HOUR: f64 = 3600.0;

#[derive(Default)]
pub(super) struct KnownNames {
    pools: BTreeMap<String, Pool>,
    count: usize,
}

#[derive(Default)]
struct Pool {
    /// In the order in which they came.
    names: Vec<String>,
    /// When new ones came in the last hour, in seconds since 1970, and of which program; none where that was not known.
    new: Vec<(f64, Option<String>)>,
}

impl KnownNames {
    pub(super) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    pub(super) fn of(&self, pool: &str) -> &[String] {
        self.pools.get(pool).map_or(&[], |pool| &pool.names)
    }

    /// Whether another name of the pool pushes out none.
    pub(super) fn has_room(&self, pool: &str) -> bool {
        self.of(pool).len() < MOST
    }

    /// Adds a name; returns whether it was not known.
    pub(super) fn add(&mut self, pool: &str, name: &str) -> bool {
        if self.of(pool).iter().any(|known| known == name) {
            return false;
        }
        if !self.has_room(pool) {
            self.drop_one(pool);
        } else if self.count >= MOST_OF_ALL {
            let largest = self.pools.iter().max_by_key(|(_, pool)| pool.names.len());
            if let Some(largest) = largest.map(|(pool, _)| pool.clone()) {
                self.drop_one(&largest);
            }
        }
        self.pools.entry(pool.to_owned()).or_default().names.push(name.to_owned());
        self.count += 1;
        true
    }

    /// Notes that a name is new, before it is added; returns whether that is worth a record.
    pub(super) fn note_new(&mut self, pool: &str, name: &str, now: f64) -> bool {
        let Pool { names, new } = self.pools.entry(pool.to_owned()).or_default();
        let program = stem(name);
        let program = names.iter().any(|known| stem(known) == program).then_some(program);
        new.retain(|(at, _)| now - at < HOUR);
        let is_calm = new.iter().filter(|(_, of)| *of == program).count() < RESTLESS;
        if is_calm {
            new.push((now, program));
        }
        is_calm
    }

    fn drop_one(&mut self, pool: &str) {
        let Some(of) = self.pools.get_mut(pool) else { return };
        if let Some(at) = gives_way(of.names.iter().map(String::as_str)) {
            of.names.remove(at);
            self.count -= 1;
        }
        if of.names.is_empty() && of.new.is_empty() {
            self.pools.remove(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_bounded_for_a_pool_and_for_all_and_other_programs_stay() {
        let mut known = KnownNames::default();
        assert!(known.add("shop", "web/1.3") && !known.add("shop", "web/1.3"));
        for n in 0..1000 {
            known.add("shop", &format!("worker-{n}"));
        }
        assert_eq!(known.of("shop").len(), MOST);
        assert!(known.of("shop").iter().any(|name| name == "web/1.3"));
        for pool in 0..2 * MOST_OF_ALL / MOST {
            for n in 0..MOST {
                known.add(&format!("pool{pool}"), &format!("app{n}"));
            }
        }
        assert_eq!(known.count, known.pools.values().map(|pool| pool.names.len()).sum::<usize>());
        assert!(known.count <= MOST_OF_ALL && known.of("shop").iter().any(|name| name == "web/1.3"));
    }

    #[test]
    fn of_names_that_change_all_the_time_only_the_first_of_an_hour_are_worth_a_record() {
        let mut known = KnownNames::default();
        known.add("shop", "web/1.3");
        let mut worth = |name: &str, now| known.note_new("shop", name, now);
        let first = (0..100).filter(|n| worth(&format!("web/2.{n}"), 1.0)).count();
        let alphabetic =
            |n: u32| char::from_u32(97 + n % 26).expect("a character").to_string().repeat(1 + n as usize / 26);
        let unknown = (0..100).filter(|n| worth(&alphabetic(*n), 1.0)).count();
        assert_eq!((first, unknown), (RESTLESS, RESTLESS));
        assert!(!worth("mail", 3000.0) && worth("mail", 3602.0));
    }
}
