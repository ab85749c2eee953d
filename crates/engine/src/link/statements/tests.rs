//! The table of statements, without sessions.

use super::*;

fn table(capacity: u32) -> Statements {
    let mut config = crate::world::config(1);
    config.track_statements = capacity;
    let mut statements = Statements::default();
    statements.apply_config(&config, 7);
    enter(&mut statements, 0, "app");
    statements
}

fn enter(statements: &mut Statements, ix: PoolIx, database: &str) {
    let (database, user) = (database.into(), "joe".into());
    statements.watch(|| Fed { now: Time::START, pool: ix, database: &database, user: &user, mode: PoolMode::Session });
}

/// What counts for the pool that was entered.
fn watch(statements: &mut Statements) -> &mut dyn StatementWatch {
    statements
}

fn run(statements: &mut Statements, text: &str, took: u64) -> StatementId {
    let watch = watch(statements);
    let statement = watch.id_of(text.as_bytes());
    watch.executed(Executed { statement, failed: false, rows: 1, bytes: 10, rolled_back: false });
    statements.record(ConnId::NONE, (took, 0), "psql", 0, |_| {});
    statement
}

fn shown(statements: &Statements) -> Vec<StatementRecord> {
    let mut records = statements.records(|at| at.micros()).0;
    StatementRecord::merge(&mut records);
    records
}

#[test]
fn texts_that_differ_in_values_are_one_statement_of_their_pool() {
    let mut statements = table(10);
    let one = run(&mut statements, "select 1", 5);
    assert_eq!(run(&mut statements, "SELECT 2 -- two", 7), one);
    assert_eq!(run(&mut statements, "select $1", 7), one);
    assert_eq!(run(&mut statements, "select 1", 5), one);
    enter(&mut statements, 1, "other");
    assert_ne!(run(&mut statements, "select 1", 5), one);
    let records = shown(&statements);
    assert_eq!(
        (records.len(), &*records[0].text, records[0].counts.calls, records[0].counts.run),
        (2, "select ?", 4, 24)
    );
    assert_eq!((records[0].counts.rows, records[0].counts.bytes), (4, 40));
    assert_eq!(records[0].id, records[1].id);
    assert_eq!(statements.totals(), StatementTotals { tracked: 2, capacity: 10, calls: 5, run: 29, evicted: 0 });
    statements.reset();
    assert!(shown(&statements).is_empty());
}

#[test]
fn a_full_table_keeps_the_statements_with_the_most_time_and_says_how_much_it_may_have_missed() {
    let mut statements = table(20);
    let (mut all, mut next) = (0, 0);
    for round in 0..500_u64 {
        for heavy in 0..5 {
            run(&mut statements, &format!("select * from heavy_{heavy}"), 1000);
            all += 1001;
        }
        for _ in 0..20 {
            next += 1;
            run(&mut statements, &format!("select * from light_{next}"), round % 20);
            all += round % 20 + 1;
        }
    }
    let records = shown(&statements);
    for heavy in &records[..5] {
        assert!(heavy.text.contains("heavy"), "{}", heavy.text);
        assert_eq!((heavy.counts.calls, heavy.counts.run, heavy.missed), (500, 500_000, 0));
    }
    assert_eq!(records.len(), 20);
    assert!(records.iter().all(|record| record.missed <= all / 20), "space-saving's bound");
    assert!(statements.totals().evicted > 9_000);
}

#[test]
fn a_statement_that_still_runs_keeps_its_place_and_an_answer_to_a_lost_one_counts_nowhere() {
    let mut statements = table(3);
    let running = watch(&mut statements).id_of(b"select slow()");
    let mut last = StatementId::NONE;
    for light in 0..100 {
        last = run(&mut statements, &format!("select * from light_{light}"), 1);
    }
    let watch = watch(&mut statements);
    watch.executed(Executed { statement: running, failed: true, rows: 0, bytes: 0, rolled_back: false });
    watch.executed(Executed {
        statement: StatementId(last.0 + (1 << 16)),
        failed: true,
        rows: 0,
        bytes: 0,
        rolled_back: false,
    });
    statements.record(ConnId::NONE, (2_000_000, 5), "", 1, |slow| {
        assert_eq!((slow.text, slow.run, slow.waited), ("select slow()", 1_000_000, 5));
    });
    let records = shown(&statements);
    assert_eq!((&*records[0].text, records[0].counts.errors, records[0].counts.wait), ("select slow()", 1, 5));
    assert_eq!(records.iter().map(|record| record.counts.errors).sum::<u64>(), 1);
}

#[test]
fn the_memory_of_an_entry_is_bounded_whatever_its_text_and_its_clients() {
    let mut statements = table(2);
    let names: Vec<String> = (0..100).map(|n| format!("{n}{}", "é".repeat(1000))).collect();
    for name in &names {
        let watch = watch(&mut statements);
        let statement = watch.id_of(format!("select {}", "é, b,".repeat(5000)).as_bytes());
        watch.executed(Executed { statement, failed: false, rows: 0, bytes: 0, rolled_back: false });
        statements.record(ConnId::NONE, (1, 0), name, 0, |_| {});
    }
    let table = statements.table.as_ref().expect("on");
    let entry = &table.entries[0];
    let names: usize = entry.applications.iter().map(|used| used.name.len() + size_of::<Application>()).sum();
    let shares = size_of::<(u64, PoolIx)>() + 8 + 4 * size_of::<(u64, StatementId)>() + 16;
    let bytes = size_of::<Entry>() + entry.text.len() + names + shares;
    assert!(bytes as u64 <= ENTRY_BYTES, "{bytes}");
    let records = shown(&statements);
    assert_eq!(records[0].applications.len(), MAX_APPLICATIONS + 1);
    assert_eq!(records[0].applications.iter().map(|used| used.calls).sum::<u64>(), 100);
}

#[test]
fn a_pool_that_takes_the_index_of_another_has_statements_of_its_own() {
    let mut statements = table(10);
    run(&mut statements, "select 1", 5);
    enter(&mut statements, 0, "later");
    run(&mut statements, "select 1", 5);
    let names: Vec<String> = shown(&statements).into_iter().map(|record| record.database).collect();
    assert_eq!(names, ["app", "later"]);
}
