//! Which settings decide how a statement is parsed and planned.
//!
//! A prepared statement keeps what PostgreSQL has made of its text: constants that were folded, and a plan for all
//! values. Both depend on most settings. In doubt a setting decides.
//!
//! Source: PostgreSQL's documentation, "Client Connection Defaults", "Query Planning", and `RevalidateCachedQuery` in
//! `plancache.c`, which plans again where the role or `row_security` is another.

use super::scan::Scan;

/// Settings that decide nothing, beside those of two parts (`my.own`), in lower case.
const NOT_PLANNED_BY: [&str; 20] = [
    "application_name",
    "client_min_messages",
    "deadlock_timeout",
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lc_messages",
    "lock_timeout",
    "role",
    "row_security",
    "seed",
    "session_authorization",
    "statement_timeout",
    "synchronous_commit",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
    "transaction_timeout",
];

/// Whether plans may depend on a setting, whatever the case of its name.
pub(super) fn decides(name: &[u8]) -> bool {
    !name.contains(&b'.') && !NOT_PLANNED_BY.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether plans may depend on what a single statement sets that begins with SET.
pub(super) fn set_decides(text: &[u8]) -> bool {
    let mut scan = Scan::whole(text);
    scan.statement();
    if !scan.word(b"set") {
        return true;
    }
    let (before, scope) = (scan, scan.word(b"local") || scan.word(b"session"));
    // `local` and `session` may also begin a setting's name.
    if scope && matches!(scan.peek(), Some(b'.' | b'=')) {
        scan = before;
    }
    if [&b"transaction"[..], b"constraints", b"characteristics", b"authorization"].iter().any(|word| scan.word(word)) {
        return matches!(scan.peek(), Some(b'='));
    }
    match scan.name() {
        Some(name) => scan.peek() != Some(b'.') && decides(&name),
        None => true,
    }
}

/// The settings by which PostgreSQL weighs plans ("Query Tuning" in `pg_settings`): how their names begin.
const WEIGHED_BY: [&str; 14] = [
    "constraint_exclusion",
    "cpu_",
    "cursor_tuple_fraction",
    "default_statistics_target",
    "effective_cache_size",
    "enable_",
    "from_collapse_limit",
    "geqo",
    "jit",
    "join_collapse_limit",
    "min_parallel_",
    "parallel_",
    "plan_cache_mode",
    "recursive_worktable_factor",
];

/// Whether PostgreSQL weighs plans by a setting, whose name is in lower case.
pub fn weighs_plans(name: &str) -> bool {
    WEIGHED_BY.iter().any(|known| name.starts_with(known)) || name.ends_with("_page_cost") || name.ends_with("_mem")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_decides_plans_unless_it_is_known_not_to() {
        for (text, want) in [
            ("set enable_seqscan = off", true),
            ("SET LOCAL \"work_mem\" TO '1MB'", true),
            ("set session search_path = a", true),
            ("set time zone 'UTC'", true),
            ("set names 'utf8'", true),
            ("set local = 1", true),
            ("set statement_timeout = 0", false),
            ("SET LOCAL Statement_Timeout TO 5", false),
            ("set session application_name = 'x'", false),
            ("set local my.own = 1", false),
            ("set local.own = 1", false),
            ("set local role a", false),
            ("set session authorization default", false),
            ("set transaction read only", false),
            ("set session characteristics as transaction read only", false),
            ("/* a */ set constraints all deferred", false),
            ("set transaction = 1", true),
        ] {
            assert_eq!(set_decides(text.as_bytes()), want, "{text}");
        }
    }
}
