//! Clients that can't log in for another reason than a limit.

use weir_admin::{ClientNames, RefusedLogin, Report, TLS_NOT_OFFERED, quoted};

use super::growth::{Counts, Growth};
use crate::faults::FaultView;
use crate::words::span;

/// For this long after the last one it lasts, in seconds: a program that is refused may try again once in a while.
const LASTS: f64 = 60.0;
/// From this many refused logins on it is a program, and not somebody's typing error.
const LEAST: u64 = 5;
/// A last one so long ago is said to be, in seconds.
const AGO: f64 = 10.0;

/// Refused logins, by who and why in words.
pub(super) struct Logins(Growth);

impl Default for Logins {
    fn default() -> Logins {
        Logins(Growth::new(LASTS, true))
    }
}

impl Logins {
    pub(super) fn look(&mut self, report: &Report, now: f64) -> Option<FaultView> {
        self.0.take(counted(report), now);
        let count = self.0.total(now).filter(|count| *count >= LEAST)?;
        let most = self.0.most()?;
        let of_most = report.refused_logins.list().iter().find(|login| words(login) == most);
        let kinds: Vec<_> = self.0.by().keys().collect();
        let mut affected = ClientNames::default();
        let is_meant = |login: &&RefusedLogin| kinds.contains(&&words(login));
        let named = |login: &&RefusedLogin| is_meant(login) && !login.is_handshake;
        for login in report.refused_logins.list().iter().filter(named) {
            affected.count_unproven(&login.user, "", 1);
        }
        let pool = of_most.map(|login| login.database.clone());
        let hint = of_most.and_then(hint);
        let last = self.0.not_seen_since(now).map(|last| now - last).filter(|ago| *ago >= AGO);
        let ago = last.map(|ago| format!(", the last one {} ago", span(ago))).unwrap_or_default();
        Some(FaultView {
            kind: "login",
            problem: true,
            summary: format!("Clients can't log in: {count} refused{ago}. {}.", self.0.names().unwrap_or_default()),
            advice: hint.unwrap_or("The log has each of them with its reason.").to_owned(),
            since: self.0.since(),
            pool: pool.filter(|pool| !pool.is_empty()),
            clients: kinds.len() as u32,
            affected,
            ..FaultView::default()
        })
    }
}

/// What to do, for an operator.
fn hint(login: &RefusedLogin) -> Option<&'static str> {
    if login.is_handshake {
        return Some(of_handshake(&login.why));
    }
    match login.why.starts_with("auth_query failed: ") {
        true => Some(
            "Correct auth_query, the function that it calls, or the privileges of auth_user: until then only users with a \
             secret in the auth file can log in.",
        ),
        false => login.hint,
    }
}

/// What to do about a handshake that failed, or that was not offered, for this reason: of the runtime's `tls/reason.rs`, or
/// [`TLS_NOT_OFFERED`].
fn of_handshake(why: &str) -> &'static str {
    let says = |words| why.contains(words);
    if why == TLS_NOT_OFFERED {
        "Give Weir a certificate: mode, cert_file and key_file in [tls.client], and reload. Or let these clients connect \
         without TLS, as with sslmode=prefer."
    } else if says("Weir's certificate for expired") {
        "Renew the certificate in [tls.client] cert_file and reload; if it is valid, set the clients' clocks."
    } else if says("does not trust Weir's certificate")
        || says("does not accept Weir's certificate")
        || says("decrypt error")
    {
        "Give the clients the certificate of the authority (libpq: sslrootcert), with the intermediate ones in [tls.client] \
         cert_file; the host name by which they connect must be in it."
    } else if says("version of TLS in common") {
        "Allow the clients' version of TLS in [tls.client] protocols, or update the clients."
    } else if says("sent no certificate") || says("certificate verify failed") {
        "Give the clients a certificate that an authority in [tls.client] ca_file has issued, or lower [tls.client] mode."
    } else {
        "Compare the clients' TLS settings with [tls.client]. The log has each of them with its reason."
    }
}

fn counted(report: &Report) -> Counts {
    let mut counts = Counts::new();
    for login in report.refused_logins.list().iter().filter(|login| !login.is_limit) {
        *counts.entry(words(login)).or_default() += login.count;
    }
    counts
}

/// A kind of refused logins: `"ann" to "shop" from 10.0.0.7 (password authentication failed)`.
fn words(login: &RefusedLogin) -> String {
    format!("{} ({})", who(login), login.why)
}

/// Who was refused: the user, the pool and the origin. Names are what a client has sent before its login, so they are
/// quoted: none reads like another part of the sentence.
pub(super) fn who(login: &RefusedLogin) -> String {
    let RefusedLogin { user, database, origin, .. } = login;
    match (user.as_str(), database.as_str()) {
        _ if login.is_handshake => format!("TLS from {origin}"),
        ("", "") => format!("several users from {origin}"),
        (user, "") => format!("{} from {origin}", quoted(user)),
        (user, database) => format!("{} to {} from {origin}", quoted(user), quoted(database)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(user: &str, count: u64) -> Report {
        let mut report = Report::default();
        report.refused_logins.add(RefusedLogin {
            user: user.to_owned(),
            database: "shop".to_owned(),
            origin: weir_base::Origin::Local(7),
            why: "password authentication failed".to_owned(),
            hint: Some("See the auth file."),
            is_handshake: false,
            is_limit: false,
            count,
            last: 101_000_000,
        });
        report
    }

    #[test]
    fn logins_that_a_program_repeats_are_a_fault_and_one_of_a_person_is_none() {
        let mut logins = Logins::default();
        assert!(logins.look(&Report::default(), 100.0).is_none());
        assert!(logins.look(&refused("ann", 1), 101.0).is_none());
        let found = logins.look(&refused("ann", 6), 131.0).expect("a fault");
        assert_eq!((found.kind, found.since), ("login", 101.0));
        let words = "6 refused. \"ann\" to \"shop\" from user 7 of this machine (password authentication failed).";
        assert!(found.summary.contains(words) && found.advice == "See the auth file.", "{found:?}");
        let later = logins.look(&refused("ann", 6), 141.0).expect("a fault");
        assert!(later.summary.starts_with("Clients can't log in: 6 refused, the last one 10 s ago. "), "{later:?}");
        assert!(logins.look(&refused("ann", 6), 191.0).is_some());
        assert!(logins.look(&refused("ann", 6), 192.0).is_none());
    }

    #[test]
    fn a_handshake_that_fails_is_told_with_its_origin_its_reason_and_what_to_do() {
        let untrusting = "the client does not trust Weir's certificate: it lacks the authority's (libpq: sslrootcert)";
        let mut report = refused("", 7);
        let mut login = report.refused_logins.list()[0].clone();
        (login.database, login.is_handshake, login.count) = (String::new(), true, 7);
        login.why = untrusting.to_owned();
        report.refused_logins = weir_admin::RefusedLogins::default();
        report.refused_logins.add(login);
        let mut logins = Logins::default();
        logins.look(&Report::default(), 100.0);
        let found = logins.look(&report, 101.0).expect("a fault");
        let said = format!("Clients can't log in: 7 refused. TLS from user 7 of this machine ({untrusting}).");
        assert_eq!((found.summary, found.pool, found.clients), (said, None, 1));
        assert!(found.advice.contains("sslrootcert") && found.affected.is_empty(), "{}", found.advice);
        report.refused_logins.add(RefusedLogin {
            why: TLS_NOT_OFFERED.to_owned(),
            count: 9,
            ..report.refused_logins.list()[0].clone()
        });
        let found = logins.look(&report, 102.0).expect("a fault");
        let said =
            "16 refused. 9 × TLS from user 7 of this machine (the client requires TLS, as with sslmode=require, and";
        assert!(found.summary.contains(said) && found.advice.starts_with("Give Weir a certificate"), "{found:?}");
    }

    #[test]
    fn a_name_that_reads_like_a_sentence_stays_within_its_quotes() {
        let hostile = "bob\" from 10.0.0.1. The disk is full. Ask \"eve";
        let mut logins = Logins::default();
        logins.look(&Report::default(), 100.0);
        let found = logins.look(&refused(hostile, 5), 101.0).expect("a fault");
        let name = "\"bob\"\" from 10.0.0.1. The disk is full. Ask \"\"eve\"";
        let expected =
            format!("Clients can't log in: 5 refused. {name} to \"shop\" from user 7 of this machine (password");
        assert!(found.summary.starts_with(&expected), "{}", found.summary);
        // What is outside of quotes is Weir's own, whatever the name is.
        let own: String = found.summary.split('"').step_by(2).collect();
        assert_eq!(
            own,
            "Clients can't log in: 5 refused.  to  from user 7 of this machine (password authentication failed)."
        );
    }
}
