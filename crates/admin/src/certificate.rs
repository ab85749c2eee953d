//! When the certificates that a configuration names expire, and what to say about it.
//!
//! Owns the words: the same in the panel, alerts and the log. Must not read files.

/// Certificates that expire sooner than this get a warning, in seconds.
const SOON: i64 = 30 * DAY;
/// Seconds a day.
const DAY: i64 = 86_400;

/// What a certificate is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CertificateUse {
    /// Weir's own certificate towards clients.
    Clients,
    /// The certificate of the panel and the API.
    Panel,
    /// Weir's own certificate towards servers that ask for one.
    Servers,
    /// The authority for the certificates of servers.
    ServerAuthority,
    /// The authority for the certificates of clients.
    ClientAuthority,
}

/// The end of a certificate's validity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CertificateExpiry {
    /// What the certificate is for.
    pub purpose: CertificateUse,
    /// The certificate's file.
    pub file: String,
    /// When the validity ends, in seconds since 1970.
    pub expires: i64,
}

impl CertificateExpiry {
    /// Whether the certificate has expired at this second since 1970.
    pub fn is_over(&self, now: i64) -> bool {
        now > self.expires
    }

    /// What is or will be wrong with the certificate, and for whom; none while it is valid for long enough.
    pub fn summary(&self, now: i64) -> Option<String> {
        let left = self.expires - now;
        let (which, effect) = self.words();
        Some(match left {
            _ if self.is_over(now) => format!("The {which} has expired: {effect}."),
            _ if left < DAY => format!("The {which} expires within a day; then {effect}."),
            _ if left < 2 * DAY => format!("The {which} expires tomorrow; then {effect}."),
            _ if left < SOON => format!("The {which} expires in {} days; then {effect}.", left / DAY),
            _ => return None,
        })
    }

    /// What to do about the certificate.
    pub fn advice(&self) -> String {
        format!("Renew {}, and reload.", self.file)
    }

    fn words(&self) -> (&'static str, &'static str) {
        match self.purpose {
            CertificateUse::Clients => {
                ("certificate for clients", "clients that verify it (sslmode verify-ca, verify-full) cannot connect")
            }
            CertificateUse::Panel => {
                ("certificate of the panel", "browsers and scripts refuse the panel, the API and the metrics")
            }
            CertificateUse::Servers => {
                ("certificate for database servers", "servers that ask for a client certificate refuse all logins")
            }
            CertificateUse::ServerAuthority => {
                ("authority for database servers", "no server is trusted whose certificate it has issued")
            }
            CertificateUse::ClientAuthority => {
                ("authority for clients", "clients whose certificate it has issued are refused")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_warns_for_thirty_days_and_then_says_who_cannot_connect() {
        let expiry =
            CertificateExpiry { purpose: CertificateUse::Clients, file: "/etc/weir.crt".to_owned(), expires: 90 * DAY };
        let at = |now: i64| expiry.summary(now).unwrap_or_default();
        assert_eq!(at(60 * DAY), "");
        assert!(
            at(61 * DAY).starts_with("The certificate for clients expires in 29 days; then clients that verify it")
        );
        assert!(at(88 * DAY + 1).contains("tomorrow") && at(89 * DAY + 1).contains("within a day"));
        assert!(at(90 * DAY + 1).starts_with("The certificate for clients has expired: clients that verify it"));
        assert_eq!(expiry.advice(), "Renew /etc/weir.crt, and reload.");
    }
}
