//! `mode = "auto"`: functions whose bodies say that they leave state, and that leave it in some of their executions.

use weir_tests::{Mode, Setup, Site};

use crate::dirty::{LISTENING, LOCKED, PREPARED, SETTING, TEMPORARY};

/// As one that takes a job with its lock, or finds none. Its texts are not asked about ever more rarely.
#[test]
fn in_auto_what_a_function_leaves_now_and_then_is_found_where_its_body_says_so() {
    let site =
        Site::with(Setup::new(Mode::Auto).size(3).limit("server_round_robin = true\nmax_pinned = 100"), Mode::Auto);
    let function = |name: &str, does: &str| {
        format!(
            "CREATE FUNCTION {name}(int) RETURNS int LANGUAGE plpgsql AS \
             $$ BEGIN IF $1 = 1 THEN {does}; END IF; RETURN 1; END $$"
        )
    };
    let functions = [
        ("locks", "PERFORM pg_try_advisory_lock(42)", LOCKED),
        ("listens", "LISTEN gossip", LISTENING),
        ("keeps", "CREATE TEMP TABLE scratch (n int)", TEMPORARY),
        ("sets", "PERFORM set_config('work_mem', '77MB', false)", SETTING),
        ("assigns", "SET work_mem = '77MB'", SETTING),
        ("prepares", "EXECUTE 'PREPARE mine AS SELECT 1'", PREPARED),
    ];
    functions.iter().for_each(|(name, does, _)| drop(site.superuser().query_all(&function(name, does)).unwrap()));
    let calls = |name: &str, question: &str| {
        let mut other = site.connect();
        for turn in 0..30 {
            let leaves = turn % 7 == 5;
            let mut client = site.connect();
            client.query(&format!("SELECT {name}({})", i32::from(leaves))).unwrap();
            for _ in 0..3 {
                let others = other.value(question).unwrap();
                assert_eq!(others.as_deref(), Some("0"), "{name}, {turn}: another client has it");
                let own = client.value(question).unwrap();
                assert_eq!(own.as_deref() != Some("0"), leaves, "{name}, {turn}: {own:?}");
            }
        }
    };
    functions.iter().for_each(|(name, _, question)| calls(name, question));
    // One that is created later, by a client.
    site.connect().query_all(&function("locks_later", "PERFORM pg_advisory_lock(43)")).unwrap();
    calls("locks_later", LOCKED);
    // A client that listens keeps no server, but it is asked about such a text, too.
    let (mut client, mut other) = (site.connect(), site.connect());
    client.query("LISTEN gossip").unwrap();
    for turn in 0..30 {
        client.query(&format!("SELECT locks({})", i32::from(turn == 29))).unwrap();
        assert_eq!(other.value(LOCKED).unwrap().as_deref(), Some("0"), "{turn}");
    }
    assert_eq!(client.value(LOCKED).unwrap().as_deref(), Some("1"));
}
