//! The accounting of replies, one rule per test.

use super::*;

fn replies(queue: &mut PendingReplies, tags: &[u8]) -> Vec<Result<Reply, UnexpectedReply>> {
    tags.iter().map(|tag| queue.reply(*tag)).collect()
}

#[test]
fn a_simple_query_is_answered_by_ready() {
    let mut q = PendingReplies::default();
    assert!(q.request(Expected::Query));
    assert!(!q.is_clean());
    assert!(replies(&mut q, b"TDDC").iter().all(|r| r.as_ref().is_ok_and(|r| r.to == Expected::Query && !r.last)));
    assert_eq!(q.reply(b'Z').map(|r| (r.to, r.last)), Ok((Expected::Query, true)));
    assert!(q.is_clean());
    assert_eq!(q.reply(b'Z'), Err(UnexpectedReply));
}

#[test]
fn a_pipeline_without_sync_keeps_the_server() {
    let mut q = PendingReplies::default();
    for what in [Expected::Parse, Expected::Bind, Expected::DescribeStatement, Expected::Execute] {
        q.request(what);
    }
    q.flush();
    assert!(replies(&mut q, b"12tTDC").iter().all(Result::is_ok));
    assert!(q.is_empty() && !q.is_clean(), "the implicit transaction is open until Sync");
    q.request(Expected::Sync);
    assert!(q.reply(b'Z').is_ok());
    assert!(q.is_clean());
}

#[test]
fn a_flush_alone_keeps_no_server() {
    let mut q = PendingReplies::default();
    q.flush();
    assert!(q.is_clean() && q.is_at_boundary());
    for what in [Expected::Parse, Expected::Sync] {
        q.request(what);
    }
    q.flush();
    assert!(q.reply(b'1').is_ok() && q.reply(b'Z').is_ok());
    assert!(q.is_clean(), "PostgreSQL opens nothing for it");
}

#[test]
fn it_is_known_who_must_move_next() {
    let whose = |q: &PendingReplies| (q.is_working(), q.awaits_client());
    let mut q = PendingReplies::default();
    for what in [Expected::Parse, Expected::DescribeStatement] {
        q.request(what);
        assert_eq!(whose(&q), (true, true), "the server works, and may keep its answer to itself");
    }
    q.flush();
    assert_eq!(whose(&q), (true, false));
    assert!(replies(&mut q, b"1tn").iter().all(Result::is_ok));
    assert_eq!(whose(&q), (false, true), "all is answered, and no Sync was sent");
    q.request(Expected::Execute);
    q.request(Expected::Sync);
    assert_eq!(whose(&q), (true, false));
    assert!(q.reply(b'G').is_ok());
    assert_eq!(whose(&q), (true, true), "COPY data is awaited");
    q.request(Expected::CopyEnd);
    assert_eq!(whose(&q), (true, false));
    assert!(q.reply(b'C').is_ok());
}

#[test]
fn the_server_does_not_work_on_half_a_request() {
    let whose = |q: &PendingReplies| (q.is_working(), q.awaits_client());
    let mut q = PendingReplies::default();
    q.request(Expected::Query);
    q.set_half(true);
    assert_eq!(whose(&q), (false, true));
    q.set_half(false);
    assert_eq!(whose(&q), (true, false));
    assert!(q.reply(b'Z').is_ok());
    q.request(Expected::Parse);
    q.request(Expected::Query);
    q.set_half(true);
    assert_eq!(whose(&q), (true, true), "the Parse need not be answered before the query is there");
    q.set_half(false);
    assert_eq!(whose(&q), (true, false));
    assert!(replies(&mut q, b"1Z").iter().all(Result::is_ok));
    q.request(Expected::DescribeStatement);
    assert!(q.reply(b't').is_ok());
    assert_eq!(whose(&q), (true, true), "what is answered in part is still to be requested");
}

#[test]
fn an_error_cuts_to_the_next_sync_and_a_query_before_it_goes_unanswered() {
    let mut q = PendingReplies::default();
    for what in [Expected::Parse, Expected::Bind, Expected::Query, Expected::Sync, Expected::Query] {
        q.request(what);
    }
    let mut dropped = Vec::new();
    assert_eq!(q.error(|e| dropped.push(e)), Some(Expected::Parse));
    assert_eq!(dropped, [Expected::Parse, Expected::Bind, Expected::Query]);
    assert_eq!(q.reply(b'Z').map(|r| (r.to, r.last)), Ok((Expected::Sync, true)));
    assert_eq!(q.reply(b'Z').map(|r| (r.to, r.last)), Ok((Expected::Query, true)));
    assert!(q.is_clean());
}

#[test]
fn after_an_error_without_sync_requests_are_owed_nothing() {
    let mut q = PendingReplies::default();
    q.request(Expected::Bind);
    q.error(|_| ());
    assert!(!q.is_clean());
    assert!(!q.request(Expected::Execute));
    assert!(!q.request(Expected::Query));
    assert!(q.request(Expected::Sync));
    assert!(q.reply(b'Z').is_ok());
    assert!(q.is_clean());
}

#[test]
fn an_error_at_sync_or_in_a_query_waits_for_ready() {
    for what in [Expected::Sync, Expected::Query, Expected::FunctionCall] {
        let mut q = PendingReplies::default();
        q.request(what);
        assert_eq!(q.error(|_| panic!("nothing is dropped")), Some(what));
        assert!(q.reply(b'Z').is_ok());
        assert!(q.is_clean());
    }
}

#[test]
fn our_own_answers_wait_for_their_turn() {
    let mut q = PendingReplies::default();
    q.request(Expected::Bind);
    q.request(Expected::LocalParse);
    q.request(Expected::Sync);
    assert_eq!(q.take_local(), None);
    assert!(q.reply(b'2').is_ok());
    assert_eq!(q.take_local(), Some(Expected::LocalParse));
    assert_eq!(q.take_local(), None);
    assert!(q.reply(b'Z').is_ok());
}

#[test]
fn a_sync_behind_a_copy_is_swallowed_by_it() {
    let mut q = PendingReplies::default();
    for what in [Expected::Bind, Expected::Execute, Expected::Sync] {
        q.request(what);
    }
    assert!(replies(&mut q, b"2G").iter().all(Result::is_ok));
    assert!(q.in_copy_in());
    q.request(Expected::CopyEnd);
    q.request(Expected::Sync);
    assert!(replies(&mut q, b"CZ").iter().all(Result::is_ok));
    assert!(q.is_clean());
}

#[test]
fn a_copy_sent_ahead_of_the_servers_answer_is_counted_right() {
    let mut q = PendingReplies::default();
    for what in [Expected::Query, Expected::CopyEnd, Expected::Query] {
        q.request(what);
    }
    assert!(replies(&mut q, b"GCZTCZ").iter().all(Result::is_ok));
    assert!(q.is_clean());
}

#[test]
fn late_copy_ends_open_no_request() {
    let mut q = PendingReplies::default();
    q.request(Expected::CopyEnd);
    assert!(q.is_clean());
    q.request(Expected::Query);
    assert!(q.reply(b'G').is_ok());
    q.error(|_| ());
    q.request(Expected::CopyEnd);
    assert!(q.reply(b'Z').is_ok());
    assert_eq!(q.take_local(), None);
    assert!(q.is_clean());
}

#[test]
fn a_copy_that_fails_after_a_swallowed_sync_leaves_the_server_in_doubt() {
    let mut q = PendingReplies::default();
    q.request(Expected::Execute);
    q.request(Expected::Sync);
    assert!(q.reply(b'G').is_ok());
    q.error(|_| ());
    q.request(Expected::Sync);
    assert!(replies(&mut q, b"ZZ").iter().all(Result::is_ok), "one ReadyForQuery more is possible");
    assert!(q.is_doubtful(), "and the server is not used again");
    q.request(Expected::Query);
    assert!(q.will_be_ready(), "no less comes than is counted");
}

#[test]
fn a_copy_that_has_swallowed_a_sync_and_ends_well_leaves_no_doubt() {
    for copy in [Expected::Execute, Expected::Query] {
        let mut q = PendingReplies::default();
        q.request(copy);
        assert!(q.reply(b'G').is_ok());
        q.request(Expected::Sync);
        q.request(Expected::CopyEnd);
        if copy == Expected::Execute {
            q.request(Expected::Sync);
        }
        assert!(replies(&mut q, b"CZ").iter().all(Result::is_ok));
        q.request(Expected::Query);
        q.error(|_| ());
        assert!(q.will_be_ready() && !q.is_doubtful(), "{copy:?}: that is an error of another request");
    }
}

#[test]
fn a_reply_while_the_server_reads_copy_data_is_a_surprise() {
    for (what, tags) in [(Expected::Query, b"ZCTG"), (Expected::Execute, b"CsDG")] {
        for tag in tags {
            let mut q = PendingReplies::default();
            q.request(what);
            assert!(q.reply(b'G').is_ok());
            assert_eq!(q.reply(*tag), Err(UnexpectedReply), "{what:?} {:?}", char::from(*tag));
        }
    }
}

#[test]
fn a_reply_of_the_wrong_kind_is_a_surprise() {
    let mut q = PendingReplies::default();
    q.request(Expected::Parse);
    assert_eq!(q.reply(b'2'), Err(UnexpectedReply));
}
