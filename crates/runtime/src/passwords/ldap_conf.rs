//! The system's settings for LDAP: `ldap.conf` of OpenLDAP's library, as far as TLS is concerned (its ldap.conf(5)).
//!
//! Read at each login, so a change needs no reload. What the environment says (`LDAPTLS_CACERT`, `LDAPTLS_REQCERT`)
//! goes before the file that `LDAPCONF` names, and that before the system's.

use std::env;
use std::path::{Path, PathBuf};

use weir_fetch::read_text;

/// The paths where distributions have the file.
const FILES: [&str; 2] = ["/etc/ldap/ldap.conf", "/etc/openldap/ldap.conf"];

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// How a server's certificate is checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LdapConf {
    /// The authorities; `None`: those that this machine trusts.
    pub(super) ca_file: Option<PathBuf>,
    /// Whether a certificate that these authorities did not sign ends the connection.
    pub(super) verify: bool,
}

impl LdapConf {
    /// Reads the settings as they are now.
    pub(super) fn load() -> LdapConf {
        let mut conf = LdapConf { ca_file: None, verify: true };
        let named = env::var("LDAPCONF").ok();
        for file in FILES.into_iter().chain(named.as_deref()) {
            conf.read(&read_text(Path::new(file), LONGEST).unwrap_or_default());
        }
        for (name, variable) in [("TLS_CACERT", "LDAPTLS_CACERT"), ("TLS_REQCERT", "LDAPTLS_REQCERT")] {
            env::var(variable).into_iter().for_each(|value| conf.set(name, &value));
        }
        conf
    }

    fn read(&mut self, text: &str) {
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            if let Some((name, value)) = line.split_once(char::is_whitespace) {
                self.set(name, value.trim());
            }
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        if name.eq_ignore_ascii_case("TLS_CACERT") {
            self.ca_file = Some(PathBuf::from(value)).filter(|file| !file.as_os_str().is_empty());
        } else if name.eq_ignore_ascii_case("TLS_REQCERT") {
            self.verify = !["never", "allow"].iter().any(|word| value.eq_ignore_ascii_case(word));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_checked_unless_the_settings_say_otherwise() {
        let read = |text: &str| {
            let mut conf = LdapConf { ca_file: None, verify: true };
            conf.read(text);
            (conf.ca_file.map(|file| file.display().to_string()), conf.verify)
        };
        assert_eq!(read(""), (None, true));
        assert_eq!(read("# TLS_REQCERT never\nBASE dc=x\n"), (None, true));
        assert_eq!(read("tls_reqcert\tNever\n"), (None, false));
        assert_eq!(
            read("TLS_REQCERT allow\nTLS_REQCERT demand\n  TLS_CACERT  /a b.pem \n"),
            (Some("/a b.pem".into()), true)
        );
    }
}
