//! A record of what the clients of a pool do with session state, and what it means for the pool's mode (the dry run).
//!
//! Plain data of a worker, the merging over workers, and the rules: what mode transaction and mode auto would do with
//! each recorded statement. Texts are without values. Must not know how traffic is recorded.

use weir_base::{PoolMode, STATE_KINDS, StateKinds};
use weir_config::{Config, ListenBy};

/// The places of channels, and of what was drawn of sequences, among the kinds of state.
const LISTEN: u8 = 1;
const SEQUENCES: u8 = 6;

/// What a recorded statement did with session state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RecordedUse {
    /// Left state of a kind, by its place in [`STATE_KINDS`].
    Left(u8),
    /// Changed a setting that follows its client in every mode.
    SetFollowed,
    /// Changed a setting that keeps its client at its server in mode auto.
    SetKept,
    /// Changed who the session is: it follows its client, and yet keeps it at its server in mode auto.
    SetIdentity,
    /// Needed state of a kind that an earlier transaction had left, by its place in [`STATE_KINDS`].
    Found(u8),
    /// Asked for the value of a sequence that an earlier transaction had drawn.
    FoundSequence,
    /// Did what its text does not tell.
    Unjudged,
}

/// What would become of a recorded statement in another mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModeOutcome {
    /// The client finds what a session finds.
    Kept,
    /// As kept, and the client keeps its server as long as the state is there.
    Pinned,
    /// The statement is refused, or its client is disconnected (`pin_refuse`).
    Refused,
    /// The state is removed at the end of the transaction, and the client is warned.
    Lost,
    /// The state is not there, or is another client's.
    ReadFromAnother,
    /// The server is asked afterwards.
    Asked,
    /// Nobody asks.
    Unknown,
}

/// One statement of one application, for one use of session state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrafficLine {
    /// The application_name; `None` stands for several.
    pub application: Option<String>,
    /// The hash of the statement's fingerprint, as in [`crate::StatementRecord`].
    pub id: u64,
    /// The fingerprint; a long one is cut.
    pub text: String,
    /// What it did.
    pub does: RecordedUse,
    /// How often, in transactions that were not rolled back.
    pub times: u64,
    /// How many clients did it.
    pub clients: u64,
    /// When it was first and last seen: microseconds since 1970.
    pub first: u64,
    /// See `first`.
    pub last: u64,
}

/// How many of something there were at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UseLevel {
    /// The most.
    pub peak: u64,
    /// What was not exceeded in 99 % of the time in which there was any.
    pub p99: u64,
}

/// What the clients of a pool did at the same time. Of several workers each level is the sum: not less than it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TrafficLevels {
    /// Clients that have used a server and are connected: the servers of mode session.
    pub sessions: UseLevel,
    /// Clients in a transaction, or waiting for a server: the servers of mode transaction.
    pub transactions: UseLevel,
    /// Clients that hold state which would keep them at a server in mode auto.
    pub holders: UseLevel,
    /// Clients of either kind: the servers of mode auto.
    pub either: UseLevel,
}

/// The record of one pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrafficRecord {
    /// The database as clients name it.
    pub database: String,
    /// The user on the server.
    pub user: String,
    /// The pool's mode.
    pub mode: PoolMode,
    /// Whether it is being recorded.
    pub active: bool,
    /// From when and until when: microseconds since 1970.
    pub since: u64,
    /// See `since`.
    pub until: u64,
    /// What statements did; statements that do nothing with session state are left out.
    pub lines: Vec<TrafficLine>,
    /// Executions that are not in the lines, since the record was full.
    pub missed: u64,
    /// Clients that were not followed, since the record was full.
    pub unfollowed: u64,
    /// The record's size, in bytes.
    pub bytes: u64,
    /// How many clients did what at the same time.
    pub levels: TrafficLevels,
}

impl RecordedUse {
    /// The kind of state: one of [`STATE_KINDS`], or `unknown`.
    pub fn kind(self) -> &'static str {
        match self {
            RecordedUse::Left(place) | RecordedUse::Found(place) => {
                STATE_KINDS.get(usize::from(place)).copied().unwrap_or("unknown")
            }
            RecordedUse::SetFollowed | RecordedUse::SetKept | RecordedUse::SetIdentity => STATE_KINDS[0],
            RecordedUse::FoundSequence => STATE_KINDS[usize::from(SEQUENCES)],
            RecordedUse::Unjudged => "unknown",
        }
    }

    /// `leaves`, `finds`, or `may leave`.
    pub fn verb(self) -> &'static str {
        match self {
            RecordedUse::Left(_) | RecordedUse::SetFollowed | RecordedUse::SetKept | RecordedUse::SetIdentity => {
                "leaves"
            }
            RecordedUse::Found(_) | RecordedUse::FoundSequence => "finds",
            RecordedUse::Unjudged => "may leave",
        }
    }

    /// What becomes of it in mode transaction.
    pub fn in_transaction(self, rules: &ModeRules) -> ModeOutcome {
        match self {
            RecordedUse::Left(place) | RecordedUse::Found(place) if rules.listens(place, PoolMode::Transaction) => {
                ModeOutcome::Kept
            }
            RecordedUse::SetFollowed | RecordedUse::SetIdentity => ModeOutcome::Kept,
            RecordedUse::Left(_) | RecordedUse::SetKept => ModeOutcome::Lost,
            RecordedUse::Found(_) | RecordedUse::FoundSequence => ModeOutcome::ReadFromAnother,
            RecordedUse::Unjudged => ModeOutcome::Unknown,
        }
    }

    /// What becomes of it in mode auto.
    pub fn in_auto(self, rules: &ModeRules) -> ModeOutcome {
        match self {
            RecordedUse::SetFollowed | RecordedUse::Found(_) => ModeOutcome::Kept,
            RecordedUse::Left(place) => rules.keeps(place),
            RecordedUse::SetKept | RecordedUse::SetIdentity => rules.pins(0),
            RecordedUse::FoundSequence => rules.pins(SEQUENCES),
            RecordedUse::Unjudged => ModeOutcome::Asked,
        }
    }
}

impl ModeOutcome {
    /// The outcome in words, the same everywhere.
    pub fn word(self) -> &'static str {
        match self {
            ModeOutcome::Kept => "kept",
            ModeOutcome::Pinned => "pinned",
            ModeOutcome::Refused => "refused",
            ModeOutcome::Lost => "lost",
            ModeOutcome::ReadFromAnother => "read from another client",
            ModeOutcome::Asked => "asked",
            ModeOutcome::Unknown => "unknown",
        }
    }

    fn breaks(self) -> bool {
        matches!(self, ModeOutcome::Lost | ModeOutcome::ReadFromAnother | ModeOutcome::Refused)
    }
}

/// The settings of a pool on which the outcomes depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeRules {
    listen: ListenBy,
    refuse: StateKinds,
    max_pinned: u32,
}

impl ModeRules {
    /// Those of a database.
    pub fn of(config: &Config, database: &str) -> ModeRules {
        let pool = config.pool(database);
        let limits = pool.as_ref().map_or(&config.limits, |pool| &pool.limits);
        ModeRules { listen: limits.listen, refuse: limits.pin_refuse, max_pinned: limits.max_pinned }
    }

    /// What becomes of state of this kind.
    fn keeps(&self, place: u8) -> ModeOutcome {
        let follows = place == 0 || self.listens(place, PoolMode::Auto);
        if follows { ModeOutcome::Kept } else { self.pins(place) }
    }

    /// Whether state of this kind is channels, on which clients listen through a server that they share.
    fn listens(&self, place: u8, mode: PoolMode) -> bool {
        place == LISTEN && self.listen.is_shared_in(mode)
    }

    fn pins(&self, place: u8) -> ModeOutcome {
        if self.refuse.bits() >> place & 1 == 1 { ModeOutcome::Refused } else { ModeOutcome::Pinned }
    }
}

/// The result of a record: what would become of each statement, and the sizes that a pool needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DryRun {
    /// The record, of all users of a database. The lines that break first.
    pub record: TrafficRecord,
    /// For each line: in mode transaction, and in mode auto.
    pub outcomes: Vec<(ModeOutcome, ModeOutcome)>,
    /// The `size` that mode auto needs, with `max_pinned`.
    pub auto_size: u64,
    /// What to do, in a sentence.
    pub advice: String,
}

impl DryRun {
    /// The results of all records, one for each database.
    pub fn all(records: &[TrafficRecord], config: &Config) -> Vec<DryRun> {
        let mut merged: Vec<TrafficRecord> = records.to_vec();
        merged.iter_mut().for_each(|record| record.user.clear());
        TrafficRecord::merge(&mut merged);
        merged.into_iter().map(|record| DryRun::of(record, config)).collect()
    }

    fn of(mut record: TrafficRecord, config: &Config) -> DryRun {
        let rules = ModeRules::of(config, &record.database);
        let both = |line: &TrafficLine| (line.does.in_transaction(&rules), line.does.in_auto(&rules));
        record.lines.sort_by_cached_key(|line| {
            let (transaction, auto) = both(line);
            (!auto.breaks(), !transaction.breaks(), line.application.clone(), line.text.clone(), line.does)
        });
        let outcomes: Vec<_> = record.lines.iter().map(both).collect();
        let levels = &record.levels;
        let share = u64::from(rules.max_pinned.clamp(1, 100));
        let for_pins = if rules.max_pinned == 0 { 0 } else { (levels.holders.peak * 100).div_ceil(share) };
        let auto_size = levels.either.peak.max(for_pins).max(1);
        let advice = advice(&record, &outcomes, auto_size);
        DryRun { record, outcomes, auto_size, advice }
    }

    /// The `size` that mode transaction needs.
    pub fn transaction_size(&self) -> u64 {
        self.record.levels.transactions.peak.max(1)
    }
}

/// What to do, in a sentence.
fn advice(record: &TrafficRecord, outcomes: &[(ModeOutcome, ModeOutcome)], auto_size: u64) -> String {
    let of = |fits: &dyn Fn(&(ModeOutcome, ModeOutcome)) -> bool| {
        let lines = record.lines.iter().zip(outcomes).filter(|(_, outcome)| fits(outcome)).map(|(line, _)| line);
        let mut names: Vec<&str> = lines.map(TrafficLine::application).collect();
        names.sort_unstable();
        names.dedup();
        names.join(", ")
    };
    let any = |fits: &dyn Fn(&(ModeOutcome, ModeOutcome)) -> bool| outcomes.iter().any(fits);
    let size = record.levels.transactions.peak.max(1);
    let asks = if any(&|(_, auto)| *auto == ModeOutcome::Asked) {
        "; some statements can't be judged by their text, and only mode auto asks the server what they leave"
    } else {
        ""
    };
    if !any(&|(transaction, _)| transaction.breaks()) {
        return format!("mode = \"transaction\" with size = {size} loses nothing that was recorded{asks}");
    }
    let losers = of(&|(transaction, _)| transaction.breaks());
    if any(&|(_, auto)| auto.breaks()) {
        let broken = of(&|(_, auto)| auto.breaks());
        return format!(
            "mode transaction breaks statements of {losers}, and mode auto some of {broken}: give these a pool in mode \
             session, or change the statements"
        );
    }
    let holders = record.levels.holders.peak;
    let clients = if holders == 1 { "1 client keeps its server" } else { "clients keep their servers" };
    let kept = if holders == 1 { clients.to_owned() } else { format!("{holders} {clients}") };
    format!(
        "mode transaction breaks statements of {losers}; mode = \"auto\" with size = {auto_size} keeps them, and at most \
         {kept} at the same time{asks}"
    )
}

impl TrafficRecord {
    /// Merges the records of several workers, or users: one for each database and user.
    pub fn merge(records: &mut Vec<TrafficRecord>) {
        records.sort_by(|a, b| (&a.database, &a.user).cmp(&(&b.database, &b.user)));
        records.dedup_by(|other, kept| {
            let same = (&kept.database, &kept.user) == (&other.database, &other.user);
            if same {
                kept.add(other);
            }
            same
        });
    }

    fn add(&mut self, other: &mut TrafficRecord) {
        self.active |= other.active;
        (self.since, self.until) = (self.since.min(other.since), self.until.max(other.until));
        self.missed += other.missed;
        self.unfollowed += other.unfollowed;
        self.bytes += other.bytes;
        self.levels.add(&other.levels);
        self.lines.append(&mut other.lines);
        self.lines.sort_by(|a, b| a.key().cmp(&b.key()));
        self.lines.dedup_by(|line, kept| {
            let same = kept.key() == line.key();
            if same {
                kept.add(line);
            }
            same
        });
    }
}

impl TrafficLine {
    fn key(&self) -> (&Option<String>, u64, RecordedUse) {
        (&self.application, self.id, self.does)
    }

    fn add(&mut self, other: &TrafficLine) {
        self.times += other.times;
        self.clients += other.clients;
        (self.first, self.last) = (self.first.min(other.first), self.last.max(other.last));
    }

    /// The application_name as it is shown.
    pub fn application(&self) -> &str {
        match self.application.as_deref() {
            Some("") => "(none)",
            Some(name) => name,
            None => "(others)",
        }
    }
}

impl TrafficLevels {
    fn add(&mut self, other: &TrafficLevels) {
        for (own, other) in [
            (&mut self.sessions, other.sessions),
            (&mut self.transactions, other.transactions),
            (&mut self.holders, other.holders),
            (&mut self.either, other.either),
        ] {
            own.peak += other.peak;
            own.p99 += other.p99;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: ModeRules = ModeRules { listen: ListenBy::Auto, refuse: StateKinds::NONE, max_pinned: 80 };

    fn line(application: &str, id: u64, does: RecordedUse) -> TrafficLine {
        let (application, text) = (Some(application.to_owned()), format!("statement {id}"));
        TrafficLine { application, id, text, does, times: 2, clients: 1, first: 10, last: 20 }
    }

    fn record(lines: Vec<TrafficLine>) -> TrafficRecord {
        let level = |peak| UseLevel { peak, p99: 1 };
        TrafficRecord {
            database: "app".into(),
            user: "joe".into(),
            mode: PoolMode::Session,
            active: false,
            since: 1,
            until: 2,
            lines,
            missed: 1,
            unfollowed: 0,
            bytes: 9,
            levels: TrafficLevels { sessions: level(9), transactions: level(2), holders: level(4), either: level(4) },
        }
    }

    #[test]
    fn each_use_has_its_outcome_in_both_modes() {
        let refuses = ModeRules { listen: ListenBy::Own, refuse: StateKinds::from_bits(0b11), ..RULES };
        for (does, transaction, auto, refused) in [
            (RecordedUse::SetFollowed, "kept", "kept", "kept"),
            (RecordedUse::Left(0), "lost", "kept", "kept"),
            (RecordedUse::SetKept, "lost", "pinned", "refused"),
            (RecordedUse::SetIdentity, "kept", "pinned", "refused"),
            (RecordedUse::Left(1), "lost", "kept", "refused"),
            (RecordedUse::Left(4), "lost", "pinned", "pinned"),
            (RecordedUse::Found(2), "read from another client", "kept", "kept"),
            (RecordedUse::FoundSequence, "read from another client", "pinned", "pinned"),
            (RecordedUse::Unjudged, "unknown", "asked", "asked"),
        ] {
            let words =
                (does.in_transaction(&RULES).word(), does.in_auto(&RULES).word(), does.in_auto(&refuses).word());
            assert_eq!(words, (transaction, auto, refused), "{does:?}");
        }
        let shares = ModeRules { listen: ListenBy::Shared, ..RULES };
        for (does, word) in
            [(RecordedUse::Left(1), "kept"), (RecordedUse::Found(1), "kept"), (RecordedUse::Left(2), "lost")]
        {
            assert_eq!(does.in_transaction(&shares).word(), word, "{does:?}");
        }
        assert_eq!(STATE_KINDS[usize::from(LISTEN)], "listen");
        assert_eq!(STATE_KINDS[usize::from(SEQUENCES)], "sequences");
    }

    #[test]
    fn the_records_of_workers_and_users_are_one_of_their_database() {
        let mut other = record(vec![line("web", 1, RecordedUse::Left(4)), line("jobs", 1, RecordedUse::Left(4))]);
        other.user = "ann".into();
        let runs = DryRun::all(&[record(vec![line("web", 1, RecordedUse::Left(4))]), other], &Config::default());
        assert_eq!((runs.len(), runs[0].record.lines.len(), runs[0].record.missed), (1, 2, 2));
        assert_eq!((runs[0].record.lines[1].times, runs[0].record.lines[1].clients), (4, 2));
        assert_eq!((runs[0].transaction_size(), runs[0].auto_size), (4, 10), "80 % of 10 are 8");
    }

    #[test]
    fn the_advice_names_who_loses_what_and_the_size() {
        let of = |lines| DryRun::of(record(lines), &Config::default()).advice;
        assert_eq!(of(vec![]), "mode = \"transaction\" with size = 2 loses nothing that was recorded");
        assert!(of(vec![line("web", 1, RecordedUse::Unjudged)]).contains("only mode auto asks the server"));
        let lost = of(vec![line("web", 1, RecordedUse::Left(4)), line("", 2, RecordedUse::Found(4))]);
        assert!(
            lost.starts_with("mode transaction breaks statements of (none), web; mode = \"auto\" with size = 5"),
            "{lost}"
        );
        assert!(lost.contains("at most 4 clients keep their servers"), "{lost}");
        let mut config = Config::default();
        config.limits.pin_refuse = StateKinds::from_bits(1 << SEQUENCES);
        let lines = vec![line("web", 1, RecordedUse::Left(4)), line("jobs", 2, RecordedUse::FoundSequence)];
        let broken = DryRun::of(record(lines), &config).advice;
        assert!(broken.contains("mode auto some of jobs: give these a pool in mode session"), "{broken}");
    }
}
