//! Tests of the shared configuration's state, with a value in memory in place of etcd.

use super::*;
use std::sync::Arc;

/// A value in memory; `lost`: the reply of the next write does not arrive.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<(Revision, Option<String>, bool)>>);

impl SettingsSource for Memory {
    fn read(&mut self) -> Result<Option<(Revision, String)>, StoreError> {
        let (revision, value, _) = lock(&self.0).clone();
        if revision < 0 { Err(StoreError::source("etcd is away")) } else { Ok(value.map(|value| (revision, value))) }
    }

    fn replace(&mut self, over: Revision, value: &str) -> Result<Option<Revision>, StoreError> {
        let mut to = lock(&self.0);
        if to.0 != over {
            return Ok(None);
        }
        (to.0, to.1) = (over + 1, Some(value.to_owned()));
        if to.2 { Err(StoreError::source("no reply")) } else { Ok(Some(to.0)) }
    }
}

fn settings(text: &str) -> SharedSettings {
    SharedSettings { comment: Some("why".into()), ..SharedSettings::new(text.into(), "a") }
}

fn fits(settings: &SharedSettings) -> Result<(), StoreError> {
    if settings.text.contains("bad") { Err(StoreError::source("it is bad")) } else { Ok(()) }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weir-shared-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_value_is_read_as_it_was_written_and_unknown_fields_are_ignored() {
    let written = settings("[pools.a]\n");
    assert_eq!(SharedSettings::decode(&written.encode()), Ok(written));
    assert_eq!(SharedSettings::decode("{\"text\":\"x\",\"later\":1}").unwrap().text, "x");
    assert!(SharedSettings::decode("{}").is_err() && SharedSettings::decode("").is_err());
}

#[test]
fn the_last_good_revision_is_used_when_etcd_is_away_or_has_a_bad_one() {
    let folder = folder("start");
    let floors = folder.join("floors");
    let memory = Memory::default();
    let open = || SharedConfig::new(Box::new(memory.clone()), "a", Some(&floors), SharedSecrets::default());
    let (none, warnings) = open().start(fits);
    assert!(none.is_none() && warnings.is_empty(), "{warnings:?}");
    assert_eq!(write_settings(&mut memory.clone(), 0, &settings("good")), Ok(Some(1)));
    assert_eq!(open().start(fits).0.map(|(revised, ())| revised.revision), Some(1));
    // A bad one follows.
    assert_eq!(write_settings(&mut memory.clone(), 1, &settings("bad")), Ok(Some(2)));
    let shared = open();
    let (started, warnings) = shared.start(fits);
    assert_eq!(started.unwrap().0.settings.text, "good");
    assert!(warnings[0].contains("it is bad"), "{warnings:?}");
    let status = shared.status();
    assert_eq!((status.revision, status.refused, status.is_newest), (1, Some((2, "it is bad".into())), false));
    assert_eq!(shared.candidate(true).unwrap().revision, 2, "a RELOAD tries it again");
    assert!(shared.candidate(false).is_none());
    // And etcd is away.
    lock(&memory.0).0 = -1;
    let (started, warnings) = open().start(fits);
    assert_eq!(started.unwrap().0.revision, 1);
    assert!(warnings[0].contains("etcd is away") && warnings[1].contains("from disk"), "{warnings:?}");
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_revision_is_tried_once_and_stays_refused_until_a_newer_one() {
    let shared = SharedConfig::new(Box::new(Memory::default()), "a", None, SharedSecrets::default());
    shared.seen(7, Some((5, settings("x").encode())));
    assert!(!shared.status().is_newest);
    assert_eq!(shared.next_trial().unwrap().revision, 5);
    assert!(shared.next_trial().is_none() && shared.is_on_trial(5));
    shared.refused("no such file");
    assert!(shared.next_trial().is_none());
    assert_eq!(shared.status().refused, Some((5, "no such file".into())));
    shared.seen(9, Some((8, settings("y").encode())));
    assert_eq!(shared.next_trial().unwrap().settings.text, "y");
    assert_eq!(shared.adopted(), None);
    assert_eq!(shared.status(), AdoptionStatus { revision: 8, is_newest: true, ..AdoptionStatus::default() });
    shared.seen(12, Some((11, "no JSON".into())));
    assert!(shared.next_trial().is_none() && shared.status().refused.is_some());
}

#[test]
fn an_end_is_adopted_as_a_revision_and_has_no_text_for_versions_that_do_not_know_it() {
    let end = SharedSettings { ended: true, ..settings("[pools.a]\n") };
    assert_eq!(SharedSettings::decode(&end.encode()), Ok(end.clone()));
    assert!(!end.encode().contains("\"text\""));
    let folder = folder("end");
    let open = |memory: &Memory| {
        SharedConfig::new(Box::new(memory.clone()), "a", Some(&folder.join("floors")), SharedSecrets::default())
    };
    let memory = Memory::default();
    let shared = open(&memory);
    shared.seen(5, Some((5, end.encode())));
    assert!(shared.next_trial().unwrap().settings.ended && !shared.status().ended);
    assert_eq!(shared.adopted(), None);
    assert_eq!(
        shared.status(),
        AdoptionStatus { revision: 5, is_newest: true, ended: true, ..AdoptionStatus::default() }
    );
    // The end is the last good revision, also without etcd.
    lock(&memory.0).0 = -1;
    let shared = open(&memory);
    assert!(shared.start(fits).0.unwrap().0.settings.ended && shared.status().ended);
    // A later revision with a text begins anew.
    shared.seen(7, Some((7, settings("x").encode())));
    assert!(shared.next_trial().is_some() && shared.adopted().is_none() && !shared.status().ended);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_write_whose_reply_was_lost_is_found() {
    let memory = Memory::default();
    lock(&memory.0).2 = true;
    let shared = SharedConfig::new(Box::new(memory.clone()), "a", None, SharedSecrets::default());
    assert_eq!(shared.publish(0, &settings("x")), Ok(Some(1)));
    lock(&memory.0).2 = false;
    assert_eq!(shared.publish(0, &settings("y")), Ok(None), "another revision is there");
    let long = "x".repeat(LONGEST + 1);
    assert!(shared.publish(1, &settings(&long)).is_err());
}
