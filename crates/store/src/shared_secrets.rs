//! Secrets of the configuration that nodes share, encrypted with a key that etcd does not have.
//!
//! Owns the key file and the encrypted form: `enc:v1:` and base64 of the key's id (4 bytes), a random nonce (12), and
//! the AES-256-GCM of the secret, padded with zero bytes to a multiple of 32. The associated data are the cluster's
//! name and the secret's place, so that it can be decrypted nowhere else. The key file is read when it is needed, so
//! that a changed one needs no restart.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::{digest, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use weir_config::{Cluster, ENCRYPTED, Replace};

use crate::error::StoreError;

/// The length of a key, in bytes.
const KEY: usize = 32;
/// The length of a key's id.
const ID: usize = 4;
/// Secrets are padded to a multiple of this length, so that the encrypted form tells less about the length of a secret.
const PAD: usize = 32;
/// A longer key file holds something else.
const MAX_FILE: u64 = 1 << 20;

type Id = [u8; ID];

/// See the head of the file.
#[derive(Clone, Default, Debug)]
pub struct SharedSecrets {
    file: Option<PathBuf>,
    cluster: String,
}

/// A key of the key file.
struct Key {
    id: Id,
    key: LessSafeKey,
}

/// Why a value is not decrypted.
enum Sealed {
    /// The value does not have the encrypted form.
    Malformed,
    /// The value needs this key.
    OtherKey(Id),
    /// The value was changed, or is another place's.
    Foreign,
}

impl SharedSecrets {
    /// Of this cluster, with its key file; reads nothing yet.
    pub fn new(rules: &Cluster) -> SharedSecrets {
        SharedSecrets { file: rules.secrets_key_file.clone(), cluster: rules.name.clone() }
    }

    /// A shared text with its secrets in the clear. An error names the secret's place.
    pub fn open(&self, text: &str) -> Result<String, StoreError> {
        if let Some((key, why)) = weir_config::find_of_node(text) {
            return Err(StoreError::OfNode(key, why));
        }
        let mut keys = None;
        replaced(text, &mut |place, value| {
            if !value.starts_with(ENCRYPTED) {
                return Ok(None);
            }
            let keys =
                self.keys_once(&mut keys).map_err(|why| StoreError::Encrypted(place.join("."), Box::new(why)))?;
            let opened = open(keys, &self.data(place), value);
            opened.map(|(secret, _)| Some(secret)).map_err(|sealed| self.error(place, sealed, keys))
        })
    }

    /// A shared text without secrets in the clear, if there is a key file. What was encrypted with another than the
    /// first key of the file is encrypted again. `present`: a text whose encrypted secrets stay as they are, where they
    /// are the same.
    pub fn seal(&self, text: &str, present: Option<&str>) -> Result<String, StoreError> {
        if self.file.is_none() {
            // A secret in the clear is refused by the caller.
            return Ok(text.to_owned());
        }
        let (mut keys, present) = (None, present.map(encrypted).unwrap_or_default());
        replaced(text, &mut |place, value| {
            let keys = self.keys_once(&mut keys)?;
            let data = self.data(place);
            let secret = if value.starts_with(ENCRYPTED) {
                match open(keys, &data, value).map_err(|sealed| self.error(place, sealed, keys))? {
                    (_, 0) => return Ok(None),
                    (secret, _) => secret,
                }
            } else {
                value.to_owned()
            };
            let known = present.iter().find(|(known, _)| known.iter().eq(place));
            if let Some((_, known)) = known
                && open(keys, &data, known).is_ok_and(|(opened, key)| key == 0 && opened == secret)
            {
                return Ok(Some(known.clone()));
            }
            seal(&keys[0], &data, &secret).map(Some)
        })
    }

    fn keys_once<'a>(&self, keys: &'a mut Option<Vec<Key>>) -> Result<&'a [Key], StoreError> {
        if keys.is_none() {
            *keys = Some(self.keys()?);
        }
        Ok(keys.as_deref().unwrap_or_default())
    }

    /// The keys of the file, at least one.
    fn keys(&self) -> Result<Vec<Key>, StoreError> {
        let file = self.file.as_ref().ok_or(StoreError::NoKeyFile)?;
        check_mode(file)?;
        let bytes = weir_runtime::read_ordinary(file, MAX_FILE).map_err(|error| StoreError::file(file, error))?;
        let text = String::from_utf8(bytes).map_err(|_| StoreError::file(file, "is no text"))?;
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let key = |(at, line): (usize, &str)| {
            let key = decoded(line).and_then(|bytes| Key::new(&bytes));
            key.ok_or_else(|| StoreError::BadKey(file.clone(), at))
        };
        let keys: Vec<Key> = lines.map(key).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(StoreError::NoKey(file.clone()));
        }
        Ok(keys)
    }

    /// What binds a secret to its place.
    fn data(&self, place: &[&str]) -> Vec<u8> {
        json!(["weir shared secret", 1, self.cluster, place]).to_string().into_bytes()
    }

    fn error(&self, place: &[&str], sealed: Sealed, keys: &[Key]) -> StoreError {
        let place = place.join(".");
        match sealed {
            Sealed::Malformed => StoreError::Damaged(place),
            Sealed::OtherKey(id) => StoreError::OtherKey {
                place,
                key: hex(&id),
                file: self.file.clone().unwrap_or_default(),
                here: keys.iter().map(|key| hex(&key.id)).collect(),
            },
            Sealed::Foreign => StoreError::Foreign(place, self.cluster.clone()),
        }
    }
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Key> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).ok()?);
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(b"weir: the id of a cluster's key");
        context.update(bytes);
        let id = context.finish().as_ref().first_chunk().copied()?;
        Some(Key { id, key })
    }
}

/// The secret, and which of the keys has decrypted it.
fn open(keys: &[Key], data: &[u8], value: &str) -> Result<(String, usize), Sealed> {
    let bytes = value.strip_prefix(ENCRYPTED).and_then(|text| STANDARD.decode(text).ok()).ok_or(Sealed::Malformed)?;
    let (id, rest) = bytes.split_first_chunk::<ID>().ok_or(Sealed::Malformed)?;
    let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(Sealed::Malformed)?;
    let mut known = false;
    for (at, key) in keys.iter().enumerate().filter(|(_, key)| key.id == *id) {
        known = true;
        let mut rest = rest.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        if let Ok(padded) = key.key.open_in_place(nonce, Aad::from(data), &mut rest) {
            let end = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let secret = String::from_utf8(padded[..end].to_vec()).map_err(|_| Sealed::Foreign)?;
            return Ok((secret, at));
        }
    }
    Err(if known { Sealed::Foreign } else { Sealed::OtherKey(*id) })
}

fn seal(key: &Key, data: &[u8], secret: &str) -> Result<String, StoreError> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).map_err(|_| StoreError::NoRandomNumbers)?;
    let mut text = secret.as_bytes().to_vec();
    text.resize(text.len().next_multiple_of(PAD).max(PAD), 0);
    let nonce_of = Nonce::assume_unique_for_key(nonce);
    let sealed = key.key.seal_in_place_append_tag(nonce_of, Aad::from(data), &mut text);
    sealed.map_err(|_| StoreError::NotEncrypted)?;
    Ok(format!("{ENCRYPTED}{}", STANDARD.encode([&key.id[..], &nonce, &text].concat())))
}

/// The places and texts of the encrypted secrets.
fn encrypted(text: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    let _ = replaced(text, &mut |place, value| {
        if value.starts_with(ENCRYPTED) {
            found.push((place.iter().map(|key| (*key).to_owned()).collect(), value.to_owned()));
        }
        Ok(None)
    });
    found
}

fn replaced(text: &str, replace: &mut Replace<'_, StoreError>) -> Result<String, StoreError> {
    // What is not TOML has no secrets that could be found; its reader reports it.
    Ok(weir_config::replace_secrets(text, replace)?.unwrap_or_else(|| text.to_owned()))
}

/// A new key, as a line of a key file.
pub fn new_key() -> Result<String, StoreError> {
    let mut key = [0; KEY];
    rand::fill(&mut key).map_err(|_| StoreError::NoRandomNumbers)?;
    Ok(STANDARD.encode(key))
}

/// Writes a new key into a new file that only its owner can read.
pub fn write_key(file: &Path) -> io::Result<()> {
    let line = new_key().map_err(io::Error::other)?;
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    to.write_all(format!("{line}\n").as_bytes())?;
    to.sync_all()
}

/// An error if others than the owner can read the file, or, if it is root's, than root and a group.
fn check_mode(file: &Path) -> Result<(), StoreError> {
    let about = fs::metadata(file).map_err(|error| StoreError::file(file, error))?;
    let mode = about.mode() & 0o777;
    let others = if about.uid() == 0 { 0o027 } else { 0o077 };
    if about.is_file() && mode & others != 0 {
        return Err(StoreError::Exposed(file.to_owned(), mode));
    }
    Ok(())
}

fn decoded(line: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_hex = line.len() == 2 * KEY && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    let bytes: Option<Vec<u8>> =
        if is_hex { line.as_bytes().chunks(2).map(pair).collect() } else { STANDARD.decode(line).ok() };
    bytes.filter(|bytes| bytes.len() == KEY)
}

fn hex(id: &Id) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
#[path = "shared_secrets_tests.rs"]
mod tests;
