//! The list of users in a file of its own (`file` in `[auth]`), as a change leaves it: its other lines stay.

use std::collections::BTreeMap;
use std::path::PathBuf;

use aws_lc_rs::rand;
use weir_admin::ChangeError;
use weir_config::{Config, Edit, Edits, SALT, Users, rewrite_userlist};

use crate::load;
use crate::replace::{NewText, ReplaceError, replace};

type Secrets = BTreeMap<String, Option<String>>;

/// The text of the list before and after a change.
pub(super) struct UserList {
    pub(super) path: PathBuf,
    before: String,
    pub(super) after: String,
    /// What differs.
    secrets: Secrets,
}

/// Secrets that could not be written, and why.
#[derive(Default)]
pub(super) struct Left {
    pub(super) secrets: Secrets,
    pub(super) why: Option<String>,
}

/// The change with passwords in the form in which they are stored.
pub(super) fn stored(edit: &Edit, config: &Config) -> Result<Edit, ChangeError> {
    let mut salt = [0; SALT];
    rand::fill(&mut salt).map_err(|_| ChangeError::Unfit("the system has no randomness for a salt".to_owned()))?;
    weir_config::with_verifiers(edit.clone(), config, salt).map_err(|why| ChangeError::Unfit(why.to_owned()))
}

impl UserList {
    /// Takes the secrets of users out of changes, if they are listed in a file. `unwritten`: the earlier changes that are in
    /// no file.
    pub(super) fn plan(config: &Config, unwritten: &Edits, edits: &mut Edits) -> Result<Option<UserList>, ChangeError> {
        let Some(path) = &config.auth.file else { return Ok(None) };
        // PgBouncer's list may be missing; then there is nothing to write to.
        let Some(before) = load::read(path).ok().filter(|_| !edits.secrets().is_empty()) else { return Ok(None) };
        let listed = Users::parse(&before).map(|users| users.with(unwritten.secrets()));
        if listed.is_ok_and(|users| users != *config.auth.users) {
            return Err(ChangeError::ChangedByHand(path.display().to_string()));
        }
        let secrets = edits.take_secrets();
        let after = rewrite_userlist(&before, &secrets)
            .map_err(|why| ChangeError::Unfit(format!("the user {why}: list it in [auth.users] instead")))?;
        Ok(Some(UserList { path: path.clone(), before, after, secrets }))
    }

    /// Whether it is to be written before the file, or after it.
    pub(super) fn in_order(self) -> (Option<UserList>, Option<UserList>) {
        if self.secrets.values().all(Option::is_none) { (Some(self), None) } else { (None, Some(self)) }
    }
}

impl Left {
    /// Writes a list, or keeps what was to be written.
    pub(super) fn write(&mut self, list: UserList) {
        let UserList { path, before, after, secrets } = list;
        if before == after {
            return;
        }
        match replace(&path, &before, NewText { text: &after, secret: true }) {
            Ok(()) => {}
            Err(ReplaceError::Refused(why)) => *self = Left { secrets, why: Some(why) },
            Err(ReplaceError::Changed) => {
                let why = format!("{} was changed by somebody else meanwhile", path.display());
                *self = Left { secrets, why: Some(why) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::net::Ipv4Addr;
    use std::os::unix::fs::PermissionsExt;

    use weir_admin::{Author, ChangeRequest, Persisted};
    use weir_config::{EntryKind, Keys, Operation, Value};

    use super::super::ConfigStore;

    use super::*;

    /// A store of a file with this text, which everybody can read.
    fn store(name: &str, text: &str) -> (PathBuf, ConfigStore) {
        let folder = std::env::temp_dir().join(format!("weir-users-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("weir.toml");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let (store, config) = ConfigStore::open(&file, |_| {}, |_| Ok(None)).unwrap();
        assert_eq!(config.web.addresses, [Ipv4Addr::LOCALHOST]);
        (folder, store)
    }

    fn user(name: &str, password: &str) -> Edit {
        let mut keys = Keys::of(EntryKind::User);
        keys.set("password", Some(Value::Text(password.to_owned())));
        Edit::User(name.to_owned(), Operation::Create(keys))
    }

    fn make(store: &ConfigStore, edit: Edit) -> Persisted {
        let wanted = ChangeRequest { edit, latest: None };
        store.change(&wanted, &Author::signal(), &|config| Ok(config)).unwrap().1
    }

    #[test]
    fn an_empty_file_has_its_panel_after_the_first_change_too_and_is_its_owners_alone() {
        let (folder, store) = store("empty", "# later\n");
        assert_eq!(make(&store, user("ann", "hush")), Persisted::InFile);
        let text = fs::read_to_string(store.file()).unwrap();
        assert!(text.starts_with("# later\n") && text.contains("[web]\naddress = [\"127.0.0.1\"]\n"), "{text}");
        assert!(text.contains("[auth.users]\nann = \"SCRAM-SHA-256$") && !text.contains("hush"), "{text}");
        assert_eq!(fs::metadata(store.file()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(make(&store, user("bob", "hush")), Persisted::InFile);
        let again = fs::read_to_string(store.file()).unwrap();
        assert_eq!(again.matches("[web]").count(), 1, "{again}");
        assert_eq!(load::load(store.file()).unwrap().web.addresses, [Ipv4Addr::LOCALHOST]);
        fs::remove_dir_all(folder).unwrap();
    }
}
