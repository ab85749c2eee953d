//! Which files of a configuration contain secrets, for a check of their permissions.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::model::{Config, WatchFiles};

impl Config {
    /// The settings' file and the files that it refers to, each with the kind of its secrets; none for a settings'
    /// file without secrets.
    pub fn secret_files(&self) -> Vec<(PathBuf, Option<&'static str>)> {
        let mut files: Vec<(PathBuf, Option<&'static str>)> = Vec::new();
        let mut add = |path: &PathBuf, what| {
            if !files.iter().any(|(known, _)| known == path) {
                files.push((path.clone(), what));
            }
        };
        self.password_files.iter().for_each(|path| add(path, Some("passwords")));
        let accounts = &self.web.accounts;
        if !(accounts.users.is_empty() && accounts.tokens.is_empty()) {
            add(&self.locations.file_and_line("web.users", &self.source).0, Some("hashes of passwords"));
        }
        if self.users.values().any(|rules| rules.former_secret.0.is_some()) {
            add(&self.locations.file_and_line("users", &self.source).0, Some("secrets of users"));
        }
        add(&self.source, None);
        self.auth.file.iter().for_each(|path| add(path, Some("secrets of users")));
        let keys =
            [&self.tls.client.key_file, &self.tls.server.key_file, &self.web.tls_key_file, &self.cluster.key_file];
        keys.into_iter().flatten().for_each(|path| add(path, Some("a private key")));
        files
    }

    /// Whether a file has secrets.
    pub fn has_secrets(&self, file: &Path) -> bool {
        self.secret_files().iter().any(|(path, what)| path == file && what.is_some())
    }

    /// The files whose changes are adopted without a RELOAD ([`WatchFiles`]); for the process's watcher.
    pub fn watched_files(&self) -> BTreeSet<PathBuf> {
        self.files_of(self.process.watch_files)
    }

    /// The files that a reload reads besides the settings' own.
    pub fn named_files(&self) -> BTreeSet<PathBuf> {
        self.files_of(WatchFiles::Named)
    }

    fn files_of(&self, watch: WatchFiles) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        if watch >= WatchFiles::Users {
            files.extend(self.auth.file.clone());
        }
        if watch >= WatchFiles::Named {
            let sides = [&self.tls.client, &self.tls.server];
            let tls = sides.into_iter().flat_map(|side| [&side.key_file, &side.cert_file, &side.ca_file]);
            let others = [&self.auth.hba_file, &self.auth.ident_file, &self.web.tls_cert_file, &self.web.tls_key_file];
            files.extend(tls.chain(others).flatten().cloned());
            files.extend(self.password_files.iter().filter(|path| **path != self.source).cloned());
        }
        if watch == WatchFiles::All {
            files.insert(self.source.clone());
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    fn files(text: &str) -> Vec<(String, Option<&'static str>)> {
        let read = |path: &Path| match path.to_str() {
            Some("/etc/weir.toml") => Ok(text.to_owned()),
            Some("/etc/users.txt") => Ok("\"a\" \"b\"\n".to_owned()),
            _ => Ok("secret\n".to_owned()),
        };
        let config = crate::load(Path::new("/etc/weir.toml"), &read, &|_| Some("x".into())).unwrap();
        config.secret_files().into_iter().map(|(path, what)| (path.display().to_string(), what)).collect()
    }

    #[test]
    fn the_files_that_are_watched_follow_the_setting() {
        let users = "[auth]\nfile = \"users.txt\"\n";
        let pool = "[pools.a]\nhost = \"h\"\nuser = \"u\"\npassword_file = \"pw\"\n";
        let watched = |setting: &str| {
            let text = format!("{setting}{users}{pool}");
            let read = |path: &Path| match path.to_str() {
                Some("/etc/weir.toml") => Ok(text.clone()),
                Some("/etc/users.txt") => Ok("\"a\" \"b\"\n".to_owned()),
                _ => Ok("secret\n".to_owned()),
            };
            let config = crate::load(Path::new("/etc/weir.toml"), &read, &|_| None).unwrap();
            let names = config.watched_files().into_iter().map(|path| path.display().to_string());
            names.collect::<Vec<_>>()
        };
        let (list, password, own) = ("/etc/users.txt", "/etc/pw", "/etc/weir.toml");
        assert_eq!(watched(""), [password, list]);
        for (word, files) in
            [("off", &[][..]), ("users", &[list][..]), ("named", &[password, list]), ("all", &[password, list, own])]
        {
            assert_eq!(watched(&format!("[process]\nwatch_files = \"{word}\"\n")), files, "{word}");
        }
    }

    #[test]
    fn the_files_with_secrets_are_known() {
        let users = "[auth]\nfile = \"users.txt\"\n";
        let own = "[pools.a]\nhost = \"h\"\nuser = \"u\"\npassword = \"p\"\n";
        let elsewhere = "[pools.a]\nhost = \"h\"\nuser = \"u\"\npassword_file = \"pw\"\n";
        let nowhere = "[pools.a]\nhost = \"h\"\nuser = \"u\"\npassword_env = \"PW\"\n";
        let list = ("/etc/users.txt".to_owned(), Some("secrets of users"));
        let toml = |what| ("/etc/weir.toml".to_owned(), what);
        assert_eq!(files(&format!("{users}{own}")), [toml(Some("passwords")), list.clone()]);
        let file = ("/etc/pw".to_owned(), Some("passwords"));
        assert_eq!(files(&format!("{users}{elsewhere}")), [file, toml(None), list.clone()]);
        assert_eq!(files(&format!("{users}{nowhere}")), [toml(None), list]);
        let listed = "[auth.users]\na = \"b\"\n[pools.a]\nhost = \"h\"\n";
        assert_eq!(files(listed), [toml(Some("passwords"))]);
    }
}
