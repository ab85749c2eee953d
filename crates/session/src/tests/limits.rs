//! What a client's statements may cost others: memory is bounded and charged, and time grows with the bytes sent.

use std::time::{Duration, Instant};

use weir_base::PoolMode;
use weir_pgwire::sql::steps_taken;
use weir_pgwire::{HEAD, backend};

use super::rig::*;
use crate::from_client::ClientOutcome;
use crate::undo_log::MAX_UNDO_BYTES;
use crate::{
    CancelKey, Client, Interner, MAX_HELD_PARSE, MAX_HELD_UNNAMED, ReplyWait, Server, StatementMemory, StopReason,
};

/// A link whose statements may take this much: per client, per pool, per process.
fn limited(client: u64, pool: u64, process: u64) -> Link {
    let mut link = Link::transaction();
    link.interner = Interner::new([3; 16], &StatementMemory::default(), process);
    link.statements = link.interner.pool("app", "joe", pool);
    link.rules.client_memory = client;
    link
}

/// The severity, the SQLSTATE and the text of an error.
fn words(message: &[u8]) -> [String; 3] {
    let fields = backend::error_fields(&message[HEAD..]).expect("an error");
    [b'V', b'C', b'M'].map(|code| String::from_utf8_lossy(fields.get(code).expect("a field")).into_owned())
}

/// The server answers the replacement of a refused request, and a Sync.
fn refused(link: &mut Link) -> [String; 3] {
    let reply = link.tell(&[error("26000", "prepared statement \"weir_x\" does not exist"), ready()]);
    assert_eq!(tags(&reply), "EZ");
    words(&each(&reply)[0])
}

#[test]
fn a_limit_on_statements_fails_the_request_and_not_the_connection() {
    let long = "x".repeat(10_000);
    let cases = [
        (Link::transaction(), 1, "too many prepared statements (client_statements)"),
        (limited(9_000, 1 << 20, 1 << 20), 9, "prepared statements of one client exceed client_statement_memory"),
        (limited(1 << 20, 9_000, 1 << 20), 9, "prepared statements of one pool exceed pool_statement_memory"),
        (limited(1 << 20, 1 << 20, 9_000), 9, "prepared statements exceed statement_memory"),
    ];
    for (mut link, most, text) in cases {
        link.rules.client_statements = most;
        link.prepared("a", "select 1");
        let sent = link.ask(&[parse("b", &long), bind("b"), execute(), sync()]);
        assert_eq!(tags(&sent), "DBES", "the request that the server can only refuse is sent");
        let reply = link.outcome_of(&[error("26000", "prepared statement \"weir_x\" does not exist"), ready()]);
        let unusual = reply.unusual.unwrap();
        assert_eq!((&unusual.refused[..], &unusual.errors[..]), (&[text][..], &[*b"54000"][..]));
        let received = std::mem::take(&mut link.to_client);
        assert_eq!(
            (tags(&received).as_str(), words(&each(&received)[0])),
            ("EZ", ["ERROR", "54000", text].map(str::to_owned))
        );
        assert!(!link.has("b") && link.server().is_quiet());
        assert_eq!(tags(&link.ask(&[bind("a"), execute(), sync()])), "BES", "{text}: what was there is trusted");
        link.tell(&[bound(), complete("SELECT 1"), ready()]);
        // What came before the server broke the protocol counts all the same.
        link.ask(&[parse("b", &long), bind("b"), execute(), sync()]);
        let missing = error("26000", "prepared statement \"weir_x\" does not exist");
        let violated = link.feed_server(&[missing, ready(), ready()].concat(), true).unwrap_err();
        let (before, unusual) = (violated.before.queries, violated.before.unusual.unwrap());
        assert_eq!((before, &unusual.refused[..]), (1, &[text][..]), "{:?}", violated.violation);
        link.ask(&[close("a"), sync()]);
        link.tell(&[ready()]);
        link.prepared("c", "select 2");
    }
}

#[test]
fn a_statement_that_must_be_prepared_again_in_another_environment_is_not_refused() {
    for (pool, process) in [(1 << 20, 1 << 20), (0, 1 << 20), (1 << 20, 0)] {
        let mut link = Link::transaction();
        link.tell(&[parameter("DateStyle", "ISO")]);
        let name = link.prepared("s", "select 1");
        link.prepared("full", &"x".repeat(9_000));
        link.interner.set_limit(process);
        link.statements.set_limit(pool);
        link.tell(&[parameter("DateStyle", "German")]);
        link.server().statements.clear();
        let sent = link.ask(&[bind("s"), execute(), sync()]);
        assert_eq!(tags(&sent), "PBES", "it is held, whatever the limit has become");
        let again = names(&sent).remove(0);
        assert_ne!(again, name);
        link.tell(&[parsed(), bound(), complete("SELECT 1"), ready(), parameter("DateStyle", "ISO")]);
        link.server().statements.clear();
        let sent = link.ask(&[query("execute s")]);
        assert_eq!((tags(&sent).as_str(), names(&sent)), ("PQS", vec![name]));
        link.tell(&[parsed(), complete("SELECT 1"), ready(), ready()]);
        let refused = link.ask(&[parse("new", "select 2"), sync()]);
        assert_eq!(tags(&refused), if pool.min(process) == 0 { "DS" } else { "PS" });
    }
}

#[test]
fn what_follows_a_refused_parse_is_skipped_and_what_stands_before_it_is_answered() {
    let mut link = Link::transaction();
    link.rules.client_statements = 1;
    link.prepared("a", "select 1");
    link.ask(&[bind("a"), execute(), parse("b", "select 2"), close("a"), parse("", "select 3"), sync()]);
    assert_eq!(tags(&link.tell(&[bound(), complete("SELECT 1")])), "2C");
    assert_eq!(refused(&mut link)[1], "54000");
    assert!(link.has("a"), "the Close was skipped");
    assert_eq!(tags(&link.ask(&[bind("a"), sync()])), "BS");
    // An error before it comes from the server.
    link.tell(&[bound(), ready()]);
    link.ask(&[bind("nothing"), parse("b", "select 2"), sync()]);
    let reply = link.tell(&[error("26000", "prepared statement \"nothing\" does not exist"), ready()]);
    assert_eq!(words(&each(&reply)[0])[1], "26000");
    link.ask(&[parse("b", "select 2"), sync()]);
    let fatal = fatal("57P01", "terminating connection");
    assert_eq!(link.tell(std::slice::from_ref(&fatal)), fatal, "nor do our words hide the end of a server");
}

#[test]
fn a_named_parse_of_more_than_16_mib_fails_and_an_unnamed_one_of_more_than_one_streams() {
    let mut link = Link::transaction();
    let asked = [parse("s", &"x".repeat(MAX_HELD_PARSE)), sync()].concat();
    for piece in asked.chunks(1 << 20) {
        link.ask(&[piece.to_vec()]);
        assert!(link.client.stream.held().len() < 64, "nothing of it is held");
    }
    assert_eq!(refused(&mut link)[2], "a prepared statement of more than 16 MiB");
    let asked = parse("", &"x".repeat(MAX_HELD_UNNAMED));
    for piece in asked.chunks(1 << 18) {
        assert_eq!(link.ask(&[piece.to_vec()]).len(), piece.len());
        assert!(link.client.stream.held().len() < 64, "nothing of it is held");
    }
    assert!(link.client.is_between_messages());
    assert_eq!(link.statements.used(), 0);
}

#[test]
fn a_long_text_costs_each_turn_what_arrives_in_it() {
    const PIECE: usize = 64 << 10;
    let words = ["x ", "execute ", "'' ", "prepare a as ", "set local a = 1; ", "select set_config('a', 'b', true), "];
    for unit in words {
        let mut link = Link::transaction();
        let text = format!("select 1 -- {}", unit.repeat((2 << 20) / unit.len()));
        let asked = [parse("s", &text), sync()].concat();
        for piece in asked.chunks(PIECE) {
            let before = steps_taken();
            link.ask(&[piece.to_vec()]);
            let steps = steps_taken() - before;
            assert!(steps <= 8 * PIECE as u64, "{unit:?}: {steps} steps");
        }
        assert!(link.client.arriving.is_none() && link.client.is_between_messages());
        link.tell(&[parsed(), ready()]);
        assert!(link.has("s"));
        // Another client, which sends all at once, has the same statement.
        let first = link.client.statement(b"s").map(|statement| statement.key());
        link.client = Client::new(2, PoolMode::Transaction, link.client.params().clone());
        link.ask(&[asked]);
        link.tell(&[ready()]);
        assert_eq!(link.client.statement(b"s").map(|statement| statement.key()), first);
    }
}

#[test]
fn a_long_text_is_judged_alike_however_it_arrives() {
    for word in ["x", "create", "advisory_lock", "execute a", "u&\"", "set_config"] {
        for at in [0, 32_760, 65_530, 98_304, 120_000] {
            let text = format!("select {} {word} {}", "x".repeat(at), "y ".repeat((130_000 - at) / 2));
            let judged = |size: usize| {
                let mut link = Link::transaction();
                for piece in parse("s", &text).chunks(size) {
                    link.ask(&[piece.to_vec()]);
                }
                link.ask(&[sync()]);
                link.tell(&[parsed(), ready()]);
                let judged = link.client.statement(b"s").expect("it was prepared").judged();
                (judged.effects, judged.harmless)
            };
            let whole = judged(1 << 20);
            assert_eq!(whole.1, matches!(word, "x" | "execute a"), "{word}");
            assert!([1000, 32 << 10, 65_536, 100_001].into_iter().all(|size| judged(size) == whole), "{word} at {at}");
        }
    }
}

#[test]
fn a_long_query_that_mentions_deallocate_is_sent_once() {
    let text = format!("select 1 {} -- ; execute a; deallocate a", " ".repeat(130_000));
    let mut link = Link::transaction();
    link.ask(&[parse("s", &text), sync()]);
    link.tell(&[parsed(), ready()]);
    for _ in 0..2 {
        assert_eq!(tags(&link.ask(&[bind("s"), execute(), sync()])), "BES");
        link.tell(&[bound(), complete("SELECT 1"), ready()]);
    }
}

#[test]
fn an_unnamed_statement_is_charged_and_streams_where_there_is_no_room_to_hold_it() {
    let text = "x".repeat(50_000);
    let mut link = limited(1 << 20, 1 << 20, 1 << 20);
    link.ask(&[parse("", &text), sync()]);
    link.tell(&[parsed(), ready()]);
    assert!(link.statements.used() >= 50_000 && link.interner.used() >= 50_000);
    link.client = Client::new(2, PoolMode::Transaction, link.client.params().clone());
    assert_eq!(link.statements.used(), 0, "it goes with its client");
    for mut link in
        [limited(40_000, 1 << 20, 1 << 20), limited(1 << 20, 40_000, 1 << 20), limited(1 << 20, 1 << 20, 40_000)]
    {
        assert_eq!(tags(&link.ask(&[parse("", &text), bind(""), execute(), sync()])), "PBES");
        link.tell(&[parsed(), bound(), complete("SELECT 1"), ready()]);
        assert_eq!(link.statements.used(), 0);
        assert_eq!(tags(&link.ask(&[bind(""), execute(), sync()])), "BES", "it is where it was parsed");
        link.tell(&[bound(), complete("SELECT 1"), ready()]);
        link.server = Some(Server::new(link.client.params().clone(), CancelKey::default()));
        assert_eq!(tags(&link.ask(&[bind(""), sync()])), "CBS", "and nowhere else");
    }
}

#[test]
fn a_parse_that_is_half_there_is_charged_and_fails_when_the_room_is_gone() {
    let mut link = limited(1 << 20, 300_000, 1 << 20);
    let asked = parse("s", &"x".repeat(200_000));
    for piece in asked[..100_000].chunks(1000) {
        assert_eq!(link.ask(&[piece.to_vec()]), b"");
    }
    assert!((100_000..150_000).contains(&link.statements.used()), "{}", link.statements.used());
    // Other clients take the room.
    let mut other = Client::new(2, PoolMode::Transaction, link.client.params().clone());
    std::mem::swap(&mut other, &mut link.client);
    link.ask(&[parse("t", &"y".repeat(120_000)), sync()]);
    link.tell(&[parsed(), ready()]);
    std::mem::swap(&mut other, &mut link.client);
    let sent: Vec<u8> = asked[100_000..].chunks(1000).flat_map(|piece| link.ask(&[piece.to_vec()])).collect();
    assert_eq!(tags(&[sent, link.ask(&[sync()])].concat()), "DS");
    assert_eq!(refused(&mut link)[2], "a prepared statement for which there is no memory");
    drop(other);
    assert_eq!(link.statements.used(), 0);
    link.prepared("s", "select 1");
}

#[test]
fn a_parse_that_is_not_held_takes_no_server_before_its_end() {
    let mut link = limited(100_000, 1 << 20, 1 << 20);
    let server = link.server.take();
    let asked = parse("s", &"x".repeat(200_000));
    for piece in asked[..150_000].chunks(10_000) {
        assert_eq!(link.ask(&[piece.to_vec()]), b"");
    }
    assert!(link.statements.used() < 20_000, "nor memory");
    let rest = [&asked[150_000..], &sync()].concat();
    let fed = link.feed_client(&rest);
    assert_eq!(fed, ClientOutcome { used: asked.len() - 150_000, stop: StopReason::NeedServer });
    link.server = server;
    assert_eq!(tags(&link.ask(&[sync()])), "DS");
    assert_eq!(refused(&mut link)[2], "a prepared statement for which there is no memory");
    // The server skips, and so do we.
    link.ask(&[bind("nothing")]);
    link.tell(&[error("26000", "no such statement")]);
    assert_eq!(tags(&link.ask(&[asked, sync()])), "S");
    link.tell(&[ready()]);
}

#[test]
fn seventeen_parses_of_15_mb_do_not_take_the_room_of_others() {
    let mut link = limited(32 << 20, 128 << 20, 256 << 20);
    for number in 0..17 {
        let text = format!("{number:?}{}", "x".repeat(15 << 20));
        link.ask(&[parse(&format!("s{number}"), &text), sync()]);
        let fits = number < 2;
        let reply = link.outcome_of(&[if fits { parsed() } else { error("26000", "no") }, ready()]);
        assert_eq!(reply.unusual.is_none_or(|unusual| unusual.refused.is_empty()), fits);
        link.to_client.clear();
    }
    assert!(link.interner.used() < 40 << 20);
    link.client = Client::new(2, PoolMode::Transaction, link.client.params().clone());
    link.prepared("s", "select 1");
}

/// A statement runs for long, and after it the client sends messages that change its names, without a Sync.
fn at_length(link: &mut Link, message: impl Fn(usize) -> Vec<u8>) -> (Vec<u8>, usize) {
    link.ask(&[parse("", "select pg_sleep(20)"), bind(""), execute()]);
    let all: Vec<u8> = (0..200_000).flat_map(message).collect();
    let mut used = 0;
    while used < all.len() {
        let fed = link.feed_client(&all[used..all.len().min(used + 65_536)]);
        used += fed.used;
        match fed.stop {
            StopReason::EndOfInput => {}
            StopReason::AwaitReplies(_) => break,
            stop => panic!("{stop:?}"),
        }
    }
    (all, used)
}

#[test]
fn a_deep_pipeline_of_closes_waits_at_its_bound_and_is_answered_in_full() {
    let began = Instant::now();
    let mut link = Link::transaction();
    let (all, mut used) = at_length(&mut link, |n| close(&format!("weir_{n}")));
    assert!(used < all.len() / 20, "what is outstanding is bounded");
    let sent = std::mem::take(&mut link.to_server);
    assert_eq!(tags(&sent), "H", "the server receives a Flush");
    assert!(
        (MAX_UNDO_BYTES as u64..2 * MAX_UNDO_BYTES as u64).contains(&link.statements.used()),
        "{}",
        link.statements.used()
    );
    assert_eq!(
        link.feed_client(&all[used..used + 100]),
        ClientOutcome { used: 0, stop: StopReason::AwaitReplies(ReplyWait::QueueFull) }
    );
    assert_eq!(link.to_server, b"", "once is enough");
    let mut reply = link.tell(&[parsed(), bound(), complete("SELECT 1")]);
    while used < all.len() {
        let fed = link.feed_client(&all[used..all.len().min(used + 65_536)]);
        assert!(fed.used > 0 || fed.stop == StopReason::EndOfInput);
        used += fed.used;
        reply.append(&mut link.to_client);
    }
    assert_eq!(tags(&reply).bytes().filter(|tag| *tag == b'3').count(), 200_000);
    assert_eq!(link.statements.used(), 0);
    assert!(began.elapsed() < Duration::from_secs(60), "each Close looked at all others: {:?}", began.elapsed());
}

#[test]
fn what_a_pipeline_takes_back_and_may_give_again_is_bounded_too() {
    let text = "x".repeat(500_000);
    let mut link = Link::transaction();
    let unnamed = |n: usize| parse("", &format!("{n}{text}"));
    link.ask(&[parse("", "select pg_sleep(20)"), bind(""), execute()]);
    for limit in 0..10 {
        let fed = link.feed_client(&unnamed(limit));
        if matches!(fed.stop, StopReason::AwaitReplies(_)) {
            return assert!(link.statements.used() < 3 << 20, "{}", link.statements.used());
        }
    }
    panic!("all were taken");
}

#[test]
fn statements_that_are_dropped_again_and_again_cost_what_is_dropped() {
    let began = Instant::now();
    let mut link = Link::transaction();
    link.rules.client_statements = 100_000;
    link.rules.max_prepared = 100_000;
    let drops = 2_000;
    let mut asked = vec![parse("", "DEALLOCATE ALL")];
    (0..drops).for_each(|_| asked.extend([bind(""), execute()]));
    asked.extend((0..2_500).map(|n| parse(&format!("s{n}"), &format!("select {n}"))));
    link.ask(&asked);
    link.tell(&[parsed()]);
    for _ in 0..drops {
        link.tell(&[bound(), complete("DEALLOCATE ALL")]);
    }
    assert_eq!(link.client.prepared(), 2_500, "those behind it are there");
    (0..2_500).for_each(|_| drop(link.tell(&[parsed()])));
    link.ask(&[bind(""), execute(), sync()]);
    link.tell(&[parsed(), bound(), complete("DEALLOCATE ALL"), ready()]);
    assert_eq!(link.client.prepared(), 0);
    assert!(link.statements.used() < 300_000, "what is left is what was kept for the next: {}", link.statements.used());
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_error_far_behind_takes_back_all_that_was_skipped() {
    let began = Instant::now();
    let mut link = Link::transaction();
    link.rules.client_statements = 10_000;
    link.rules.max_prepared = 10_000;
    (0..1_000).for_each(|n| drop(link.prepared(&format!("old{n}"), &format!("select {n}"))));
    for _ in 0..20 {
        let mut asked = vec![bind("nothing")];
        asked.extend((0..1_000).flat_map(|n| {
            let (old, text) = (format!("old{n}"), format!("select {n}, {n}"));
            [close(&old), parse(&old, &text)]
        }));
        asked.push(sync());
        link.ask(&asked);
        link.tell(&[error("26000", "prepared statement \"nothing\" does not exist"), ready()]);
        assert_eq!(link.client.prepared(), 1_000);
    }
    let ours = link.client.statements.as_ref().and_then(|s| s.get(b"old7")).unwrap().name().to_vec();
    let name = String::from_utf8(ours).unwrap();
    link.ask(&[bind("old7"), sync()]);
    let reply = link.outcome_of(&[error("08P01", &format!("prepared statement \"{name}\" requires 2")), ready()]);
    assert_eq!(reply.unusual.unwrap().errors.len(), 1);
    let received = std::mem::take(&mut link.to_client);
    assert_eq!(words(&each(&received)[0])[2], "prepared statement \"old7\" requires 2");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_bind_of_few_bytes_does_not_write_megabytes_at_once() {
    let text = "x".repeat(200_000);
    let mut link = Link::transaction();
    (0..10).for_each(|n| drop(link.prepared(&format!("s{n}"), &format!("{n}{text}"))));
    link.rules.max_prepared = 5;
    link.server = Some(Server::new(link.client.params().clone(), CancelKey::default()));
    // Statements of which the server keeps too few, and the unnamed one, which may be skipped with the segment before.
    let named: Vec<u8> = (0..1_000).flat_map(|n| bind(&format!("s{}", n % 10))).collect();
    link.ask(&[parse("", &text), sync()]);
    link.tell(&[parsed(), ready()]);
    let unnamed: Vec<u8> = (0..1_000).flat_map(|_| [bind(""), sync()].concat()).collect();
    for asked in [named, unnamed] {
        let fed = link.feed_client(&asked);
        assert!(
            matches!(fed.stop, StopReason::AwaitReplies(_)) && fed.used > 0 && link.to_server.len() < 2 << 20,
            "{fed:?}"
        );
        let sent = std::mem::take(&mut link.to_server);
        assert!(tags(&sent).ends_with('H'));
        link.ask(&[sync()]);
        let answers: Vec<Vec<u8>> = tags(&sent).chars().chain(['S']).filter_map(answer).collect();
        link.tell(&answers);
    }
}

/// A server's answers to a message.
fn answer(tag: char) -> Option<Vec<u8>> {
    match tag {
        'P' => Some(parsed()),
        'B' => Some(bound()),
        'C' => Some(closed()),
        'S' => Some(ready()),
        _ => None,
    }
}
