//! Tests of encrypted secrets: what is decrypted, and what is not.

use super::*;
use std::os::unix::fs::PermissionsExt;

const TEXT: &str = "# shared\n[auth.users]\nann = \"of ann\" # hers\nbob = \"\"\n\n[pools.app]\nhost = \"h\"\npassword = \"of app\"\n\n\
                    [pools.\"b.c\"]\nhost = \"h\"\npassword = \"of b.c\"\n";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("weir-secrets-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn secrets(&self, name: &str, keys: &str) -> SharedSecrets {
        let file = self.0.join(name);
        fs::write(&file, keys).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        SharedSecrets { file: Some(file), cluster: "test".to_owned() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The value of a key in a text.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    let line = text.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
    line.split('"').nth(1).unwrap()
}

#[test]
fn secrets_are_encrypted_and_the_rest_of_the_text_stays() {
    let folder = Folder::new("round");
    let secrets = folder.secrets("key", &format!("# of the cluster\n\n{}\n", new_key().unwrap()));
    let sealed = secrets.seal(TEXT, None).unwrap();
    assert!(!sealed.contains("of ann") && !sealed.contains("of app") && !sealed.contains("of b.c"), "{sealed}");
    assert!(sealed.contains("# hers") && sealed.contains("bob = \"\"") && sealed.starts_with("# shared\n"), "{sealed}");
    assert_eq!(weir_config::find_plain_secret(&sealed), None);
    assert_eq!(secrets.open(&sealed).as_deref(), Ok(TEXT));
    // The nonce is random; what is there already stays.
    let again = secrets.seal(TEXT, None).unwrap();
    assert_ne!(again, sealed);
    assert_eq!(secrets.seal(TEXT, Some(&sealed)).as_ref(), Ok(&sealed));
    assert_eq!(secrets.seal(&sealed, None).as_ref(), Ok(&sealed));
    let other = secrets.seal(&TEXT.replace("of app", "another"), Some(&sealed)).unwrap();
    assert_eq!(value(&other, "ann"), value(&sealed, "ann"));
    assert_eq!(value(&secrets.open(&other).unwrap(), "password"), "another");
    // A short secret is as long as another one.
    assert_eq!(value(&sealed, "ann").len(), value(&sealed, "password").len());
}

#[test]
fn an_encrypted_secret_holds_at_its_place_only() {
    let folder = Folder::new("swap");
    let secrets = folder.secrets("key", &new_key().unwrap());
    let sealed = secrets.seal(TEXT, None).unwrap();
    let (ann, app) = (value(&sealed, "ann").to_owned(), value(&sealed, "password").to_owned());
    let swapped = sealed.replace(&ann, "-").replace(&app, &ann).replace('-', &app);
    let why = secrets.open(&swapped).unwrap_err().to_string();
    assert!(why.contains("auth.users.ann") && why.contains("another place"), "{why}");
    let renamed = sealed.replace("[pools.app]", "[pools.app2]");
    assert!(secrets.open(&renamed).unwrap_err().to_string().starts_with("pools.app2.password"));
    // A dot in a name is no other place.
    let mimic = format!("[pools.b]\nc.password = \"{}\"\n", value(sealed.rsplit_once("[pools").unwrap().1, "password"));
    assert_eq!(secrets.open(&mimic), Ok(mimic.clone()), "it is no secret's place");
    let cluster = SharedSecrets { cluster: "other".to_owned(), ..secrets.clone() };
    assert!(cluster.open(&sealed).unwrap_err().to_string().contains("another cluster than other"));
    assert!(cluster.seal(&sealed, None).is_err());
}

#[test]
fn a_tampered_or_truncated_secret_is_refused() {
    let folder = Folder::new("tamper");
    let secrets = folder.secrets("key", &new_key().unwrap());
    let text = "[pools.app]\npassword = \"of app\"\n";
    let sealed = secrets.seal(text, None).unwrap();
    let written = value(&sealed, "password");
    let bytes = STANDARD.decode(written.strip_prefix(ENCRYPTED).unwrap()).unwrap();
    let with = |bytes: &[u8]| secrets.open(&sealed.replace(written, &format!("{ENCRYPTED}{}", STANDARD.encode(bytes))));
    assert_eq!(with(&bytes).as_deref(), Ok(text));
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        let why = with(&bytes).unwrap_err().to_string();
        assert!(why.contains(if at < ID { "with the key" } else { "can't be decrypted" }), "{at}: {why}");
    }
    for length in 0..bytes.len() {
        let why = with(&bytes[..length]).unwrap_err().to_string();
        assert!(
            why.contains(if length < ID + NONCE_LEN { "damaged" } else { "can't be decrypted" }),
            "{length}: {why}"
        );
    }
    for form in ["enc:v1:", "enc:v1:*", "enc:v1: "] {
        assert!(secrets.open(&sealed.replace(written, form)).unwrap_err().to_string().contains("damaged"), "{form}");
    }
}

#[test]
fn without_the_key_the_error_says_what_to_do() {
    let folder = Folder::new("without");
    let secrets = folder.secrets("key", &new_key().unwrap());
    let sealed = secrets.seal(TEXT, None).unwrap();
    let why = SharedSecrets { file: None, ..secrets.clone() }.open(&sealed).unwrap_err().to_string();
    assert!(why.contains("auth.users.ann is encrypted") && why.contains("secrets_key_file"), "{why}");
    let why = folder.secrets("other", &new_key().unwrap()).open(&sealed).unwrap_err().to_string();
    assert!(why.contains("add that key") && why.contains("other"), "{why}");
    assert!(!why.contains("of ann"), "{why}");
    let why =
        SharedSecrets { file: Some(folder.0.join("none")), ..secrets.clone() }.open(&sealed).unwrap_err().to_string();
    assert!(why.contains("none: No such file"), "{why}");
    // Without an encrypted secret, the file is not needed.
    let none = SharedSecrets { file: None, ..secrets };
    assert_eq!(none.open(TEXT).as_deref(), Ok(TEXT));
    assert_eq!(none.seal(TEXT, None).as_deref(), Ok(TEXT), "it is refused elsewhere");
    assert_eq!(none.open("[pools").as_deref(), Ok("[pools"));
}

#[test]
fn the_first_key_encrypts_and_all_decrypt() {
    let folder = Folder::new("rotate");
    let (old, new) = (new_key().unwrap(), new_key().unwrap());
    let sealed = folder.secrets("old", &old).seal(TEXT, None).unwrap();
    let prepared = folder.secrets("prepared", &format!("{old}\n{new}\n"));
    assert_eq!(prepared.open(&sealed).as_deref(), Ok(TEXT));
    assert_eq!(prepared.seal(&sealed, Some(&sealed)).as_ref(), Ok(&sealed));
    let rotated = folder.secrets("both", &format!("{new}\n{old}\n"));
    assert_eq!(rotated.open(&sealed).as_deref(), Ok(TEXT));
    let again = rotated.seal(&sealed, Some(&sealed)).unwrap();
    assert_eq!(rotated.seal(TEXT, Some(&sealed)).map(|text| text == sealed), Ok(false));
    let only = folder.secrets("new", &new);
    assert!(only.open(&sealed).is_err());
    assert_eq!(only.open(&again).as_deref(), Ok(TEXT));
}

#[test]
fn a_key_file_has_keys_in_two_forms_and_is_its_owners_alone() {
    let folder = Folder::new("file");
    let bytes: Vec<u8> = (0..32).collect();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    let sealed = folder.secrets("base64", &STANDARD.encode(&bytes)).seal(TEXT, None).unwrap();
    assert_eq!(folder.secrets("hex", &format!("  {hex}\r\n")).open(&sealed).as_deref(), Ok(TEXT));
    for (keys, word) in
        [("", "has no key"), ("# x\n", "has no key"), ("x\n", "line 1 is no key"), (&hex[2..], "line 1")]
    {
        let why = folder.secrets("bad", keys).open(&sealed).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
    let secrets = folder.secrets("mode", &hex);
    let file = secrets.file.clone().unwrap();
    for mode in [0o604, 0o620, 0o644] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        assert!(secrets.open(&sealed).unwrap_err().to_string().contains("chmod 600"), "{mode:o}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(secrets.open(&sealed).is_ok());
    let made = folder.0.join("made");
    write_key(&made).unwrap();
    assert_eq!(fs::metadata(&made).unwrap().mode() & 0o777, 0o600);
    assert!(write_key(&made).is_err(), "an existing key stays");
    assert!(SharedSecrets { file: Some(made), cluster: String::new() }.seal(TEXT, None).is_ok());
}
