//! Rules as people read them: the columns of a line, without its options, which may hold a password.

use super::address::Address;
use super::{Channel, Reach, Rule, RuleMethod};

/// The columns of a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShownRule {
    /// The rule's line in the file, from 1.
    pub line: usize,
    /// `local`, `host`, `hostssl` or `hostnossl`.
    pub connection: &'static str,
    /// Keywords, then names.
    pub databases: Vec<String>,
    /// Keywords, then names.
    pub users: Vec<String>,
    /// `all`, `address/bits`, or an address and its mask; `None` for `local`.
    pub address: Option<String>,
    /// The method.
    pub method: &'static str,
    /// The ident map.
    pub map: Option<String>,
}

impl Rule {
    /// The rule's columns. Copies all of its names.
    pub fn shown(&self) -> ShownRule {
        let (connection, address) = match &self.reach {
            Reach::Local => ("local", None),
            Reach::Host { channel: Channel::Any, from } => ("host", Some(from)),
            Reach::Host { channel: Channel::Tls, from } => ("hostssl", Some(from)),
            Reach::Host { channel: Channel::Plain, from } => ("hostnossl", Some(from)),
        };
        ShownRule {
            line: self.line,
            connection,
            databases: self.databases.shown(),
            users: self.users.shown(),
            address: address.map(Address::shown),
            method: self.method.as_str(),
            map: self.map().map(str::to_owned),
        }
    }

    /// Whether the rule's list of users has `user`; its other columns may still exclude a login.
    pub fn is_about(&self, user: &str) -> bool {
        self.users.hold(user, user)
    }
}

impl RuleMethod {
    /// The method's name in a rule.
    pub const fn as_str(self) -> &'static str {
        match self {
            RuleMethod::Trust => "trust",
            RuleMethod::Reject => "reject",
            RuleMethod::Md5 => "md5",
            RuleMethod::Plain => "password",
            RuleMethod::ScramSha256 => "scram-sha-256",
            RuleMethod::Cert => "cert",
            RuleMethod::Peer => "peer",
            RuleMethod::Ldap => "ldap",
            RuleMethod::Pam => "pam",
            RuleMethod::Oauth => "oauth",
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Hba;

    #[test]
    fn a_rule_is_shown_as_its_columns_without_its_options() {
        let text = "local all all peer map=staff\n\
                    hostssl shop,\"all\" ann,bob 10.1.2.3/8 cert\n\
                    host sameuser all 10.0.0.7 255.0.0.255 md5\n\
                    hostnossl replication all ff20::1/12 reject\n\
                    host all all all ldap ldapserver=dir.example ldapbinddn=\"cn=a\" ldapbindpasswd=hush ldapbasedn=\"o=x\"\n";
        let hba = Hba::parse(text, &|_| Err("no file".to_owned())).unwrap();
        let shown: Vec<String> = hba.rules().iter().map(|rule| format!("{:?}", rule.shown())).collect();
        for (rule, parts) in shown.iter().zip([
            vec!["line: 1", "\"local\"", "address: None", "\"peer\"", "Some(\"staff\")"],
            vec![
                "line: 2",
                "\"hostssl\"",
                "[\"\\\"all\\\"\", \"shop\"]",
                "[\"ann\", \"bob\"]",
                "\"10.0.0.0/8\"",
                "\"cert\"",
            ],
            vec!["line: 3", "\"host\"", "[\"sameuser\"]", "\"10.0.0.7 255.0.0.255\"", "\"md5\""],
            vec!["line: 4", "\"hostnossl\"", "[\"replication\"]", "\"ff20::/12\"", "\"reject\""],
            vec!["line: 5", "\"host\"", "[\"all\"]", "Some(\"all\")", "\"ldap\""],
        ]) {
            assert!(parts.iter().all(|part| rule.contains(part)), "{rule} has not {parts:?}");
        }
        assert!(!shown.concat().contains("hush"));
        let about = |user| hba.rules().iter().map(|rule| rule.is_about(user)).collect::<Vec<_>>();
        assert_eq!(about("ann"), [true, true, true, true, true]);
        assert_eq!(about("joe"), [true, false, true, true, true]);
    }
}
