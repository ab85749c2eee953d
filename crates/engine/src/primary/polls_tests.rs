//! When Patroni is asked, with answers that a test gives.

use std::path::Path;

use weir_base::Host;
use weir_config::SessionAttrs;

use super::*;

fn host(name: &str) -> Target {
    Target { host: Host::parse(name), port: 5432 }
}

fn at(millis: u64) -> Time {
    Time::START + Span::from_millis(millis)
}

/// A configuration with pools of these names, which want this of `a` and `b`.
fn config(pools: &[&str], attrs: SessionAttrs) -> Config {
    let mut text = "[auth.users]\nu = \"p\"\n".to_owned();
    for pool in pools {
        text += &format!(
            "[pools.{pool}]\nhost = [\"a\", \"b\"]\ntarget_session_attrs = \"{attrs}\"\n\
             patroni_api = [\"http://a:8008\", \"http://b:8008/\"]\n"
        );
    }
    weir_config::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).unwrap()
}

fn asked(polls: &mut Polls, now: Time) -> Vec<String> {
    polls.due(now).iter().map(|question| question.url.clone()).collect()
}

fn answer(polls: &mut Polls, host: &str, status: Result<u16, &str>, seat: Option<&Target>, now: Time) -> bool {
    let find = |question: &&Arc<PatroniQuestion>| question.url.starts_with(&format!("http://{host}:"));
    let question = polls.polls.keys().find(find).unwrap().clone();
    polls.answered(&question, status.map_err(str::to_owned), |_| seat.map(Some), now)
}

#[test]
fn each_host_is_asked_once_for_all_pools_and_again_when_it_has_answered() {
    let mut polls = Polls::default();
    polls.configured(&config(&["one", "two"], SessionAttrs::ReadWrite), at(0));
    assert_eq!(asked(&mut polls, at(0)), ["http://a:8008/primary", "http://b:8008/primary"]);
    assert!(asked(&mut polls, at(60_000)).is_empty(), "an answer is due");
    let a = host("a");
    assert!(answer(&mut polls, "a", Ok(200), Some(&a), at(10)), "a yes is passed on");
    assert!(!answer(&mut polls, "b", Ok(503), Some(&a), at(10)), "a no that was none before is not");
    assert_eq!(polls.next_due(), at(1_010));
    assert_eq!(asked(&mut polls, at(1_010)).len(), 2);
    assert!(answer(&mut polls, "a", Err("refused"), Some(&a), at(1_020)), "a yes is over");
    assert_eq!(polls.records(|at| at.micros())[0].answer, Some(Err("refused".to_owned())));
}

#[test]
fn patroni_is_asked_more_often_while_it_knows_no_primary_or_another_one_but_not_for_long() {
    let mut polls = Polls::default();
    polls.configured(&config(&["one"], SessionAttrs::Primary), at(0));
    let (a, b) = (host("a"), host("b"));
    for (status, seat, hasty) in [(200, &a, false), (200, &b, true), (200, &a, false), (503, &a, true)] {
        answer(&mut polls, "a", Ok(status), Some(seat), at(0));
        assert_eq!(polls.polls.values().next().unwrap().due, at(if hasty { 100 } else { 1_000 }), "{status} {seat}");
    }
    answer(&mut polls, "a", Ok(503), Some(&a), at(59_999));
    assert_eq!(polls.polls.values().next().unwrap().due, at(60_099));
    answer(&mut polls, "a", Ok(503), Some(&a), at(60_000));
    assert_eq!(polls.polls.values().next().unwrap().due, at(61_000));
}

#[test]
fn a_new_configuration_keeps_what_is_known_and_takes_back_what_is_not_asked_any_more() {
    let mut polls = Polls::default();
    polls.configured(&config(&["one"], SessionAttrs::Primary), at(0));
    asked(&mut polls, at(0));
    answer(&mut polls, "a", Ok(200), None, at(0));
    assert!(polls.configured(&config(&["two"], SessionAttrs::ReadWrite), at(1)).is_empty());
    assert_eq!(polls.records(|at| at.micros())[0].answer, Some(Ok(200)));
    assert!(asked(&mut polls, at(1)).is_empty(), "the other answer is still due");
    let gone = polls.configured(&config(&["one"], SessionAttrs::Standby), at(2));
    assert_eq!(gone.iter().map(|question| &*question.url).collect::<Vec<_>>(), ["http://a:8008/primary"]);
    assert_eq!(asked(&mut polls, at(2)), ["http://a:8008/replica", "http://b:8008/replica"]);
    assert_eq!(polls.configured(&config(&[], SessionAttrs::Any), at(3)).len(), 0);
    assert_eq!(polls.next_due(), Time::NEVER);
}
