//! `weir cluster`: shows the nodes, and reads, compares and writes the configuration that they share.
//!
//! Owns the commands' arguments and their order: a file is checked, compared, and only then written.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::unistd::{User, getuid};
use weir_cluster::{Entry, Member, Revision, StoreKey, StoreReply, StoreRequest, StoreValue};
use weir_config::{Cluster, Config, ConfigFinding, Edits, KeyChange, Severity};
use weir_node::{Etcd, NodeError};
use weir_store::{Revised, SettingsSource, SharedSecrets, SharedSettings, load, write_settings};
use weir_terminal::print_line;

use crate::check;
use crate::failure::Failure;

pub(crate) const HELP: &str = "\
Examples:
  weir cluster weir.toml                     each node, and for each pool who has how much
  weir cluster apply pools.toml              checks the file, and gives it to all nodes
  weir cluster apply pools.toml --comment bigger --node weir.toml
  weir cluster diff pools.toml               what apply would change; exit status 1 if anything
  weir cluster export > pools.toml           the configuration that the nodes share
  weir cluster end weir.toml                 ends it: each node has its own file's pools again
  weir cluster key /etc/weir/cluster.key     makes the key that encrypts secrets in it

A weir.toml with [cluster] says how to reach etcd. With a shared configuration the nodes have
[general], [auth], [limits], [users], [servers] and [pools] from there, and all else from their own
weir.toml.";

const APPLY_HELP: &str = "\
Examples:
  weir cluster apply pools.toml
  weir cluster apply pools.toml --comment bigger
  weir cluster apply weir.toml               a whole file: what is each node's own in it is left out

Passwords in the file are encrypted, if the node's weir.toml has the cluster's key:

  [cluster]
  secrets_key_file = \"cluster.key\"   # made by weir cluster key, the same on all nodes

Without it no password may be in the file, since all who can read etcd would have it. In place of one:

  [pools.app]
  password_file = \"app.password\"   # a file on each node, beside its weir.toml
  password_env = \"APP_PASSWORD\"    # or a variable of each node's environment

  [auth]
  file = \"userlist.txt\"            # users in a file on each node
  [auth.users]
  ann = \"SCRAM-SHA-256$…\"          # or their verifiers: PostgreSQL's pg_authid.rolpassword

Each node adopts the file whole or not at all. The exit status is 1 if a node refuses it.";

const END_HELP: &str = "\
Shows first what changes at this node. Each node then has all sections of its own weir.toml. A node whose file has no
pools refuses that, and keeps the pools that were shared: put pools into its file, and RELOAD. The exit status is 1 if a
node refuses it.

  weir cluster export --plain weir.toml      prints what was shared, also after the end; its secrets, too
  weir cluster apply pools.toml              begins a shared configuration again";

/// The `weir.toml` of the packages.
const NODE: &str = "/etc/weir/weir.toml";

/// How long nodes may take to adopt what was applied, before the command ends.
const ADOPTION: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(200);

/// The arguments of `weir cluster`.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    /// The configuration of one of its nodes, a weir.toml with [cluster]
    #[arg(required = true)]
    file: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// Check a configuration, and give it to all nodes
    #[command(after_help = APPLY_HELP)]
    Apply {
        /// The configuration; - is standard input
        file: PathBuf,
        /// The reason, for the nodes' history
        #[arg(long)]
        comment: Option<String>,
        /// A node's weir.toml; without it FILE, if that has [cluster], or /etc/weir/weir.toml
        #[arg(long, value_name = "WEIR.TOML")]
        node: Option<PathBuf>,
    },
    /// Print the configuration that the nodes share
    Export {
        /// A node's weir.toml
        #[arg(default_value = NODE)]
        node: PathBuf,
        /// With its secrets in the clear, which needs the cluster's key
        #[arg(long)]
        plain: bool,
    },
    /// End the shared configuration: each node has the pools of its own file again
    #[command(after_help = END_HELP)]
    End {
        /// A node's weir.toml
        #[arg(default_value = NODE)]
        node: PathBuf,
        /// The reason, for the nodes' history
        #[arg(long)]
        comment: Option<String>,
    },
    /// Make a key that encrypts secrets of the configuration, for secrets_key_file
    Key {
        /// A new file for it, which only its owner can read; without it, it is printed
        file: Option<PathBuf>,
    },
    /// Show what apply would change; the exit status is 1 if anything
    Diff {
        /// The configuration; - is standard input
        file: PathBuf,
        /// A node's weir.toml; without it FILE, if that has [cluster], or /etc/weir/weir.toml
        #[arg(long, value_name = "WEIR.TOML")]
        node: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match (&arguments.command, &arguments.file) {
        (Some(Command::Apply { file, comment, node }), _) => apply(file, node.as_deref(), comment.clone()),
        (Some(Command::Diff { file, node }), _) => diff(file, node.as_deref()),
        (Some(Command::Export { node, plain }), _) => export(node, *plain),
        (Some(Command::End { node, comment }), _) => end(node, comment.clone()),
        (Some(Command::Key { file }), _) => key(file.as_deref()),
        (None, Some(file)) => {
            let rules = rules(file, &load::load_as_far(file).0)?;
            status(&rules)?.iter().for_each(print_line);
            Ok(())
        }
        (None, None) => Err(Failure::Message("give a weir.toml with [cluster]".to_owned())),
    }
}

/// A file that was checked, beside what the cluster has.
struct Checked {
    rules: Cluster,
    etcd: Etcd,
    /// The shared part of the file.
    shared: String,
    present: Option<Revised>,
    changes: Vec<KeyChange>,
    /// Settings that change with a restart of each node.
    restart: Vec<String>,
}

fn apply(file: &Path, node: Option<&Path>, comment: Option<String>) -> Result<(), Failure> {
    let checked = checked(file, node)?;
    print_checked(&checked);
    let Checked { rules, mut etcd, shared, present, .. } = checked;
    if present.as_ref().is_some_and(|present| !present.settings.ended && present.settings.text == shared) {
        print_line("nothing to change");
        return Ok(());
    }
    let over = present.map_or(0, |present| present.revision);
    let settings = SharedSettings { comment, ..SharedSettings::new(shared, &rules.node) };
    let revision = write(&mut etcd, over, settings)?;
    print_line(format!("revision {revision} of the configuration of cluster {}", rules.name));
    report_adoption(&mut etcd, revision, "runs it")
}

fn write(etcd: &mut Etcd, over: Revision, settings: SharedSettings) -> Result<Revision, Failure> {
    let user = User::from_uid(getuid()).ok().flatten().map(|user| user.name);
    let written = write_settings(etcd, over, &SharedSettings { user, ..settings }).map_err(Failure::of)?;
    let text =
        "the cluster's configuration was changed meanwhile, nothing was written: look at it with weir cluster diff";
    written.ok_or_else(|| Failure::Message(text.to_owned()))
}

fn end(node: &Path, comment: Option<String>) -> Result<(), Failure> {
    let rules = rules(node, &load::load_as_far(node).0)?;
    let text = load::read(node).map_err(|error| Failure::at(node.display(), error))?;
    let (_, own) = load::load_own(node, &text, &Edits::default()).map_err(Failure::of)?;
    let mut etcd = Etcd::new(&rules).map_err(Failure::of)?;
    let present = read(&mut etcd)?.filter(|present| !present.settings.ended).ok_or_else(|| none_shared(&rules))?;
    let shared =
        SharedSecrets::new(&rules).open(&present.settings.text).unwrap_or_else(|_| present.settings.text.clone());
    let merged = weir_config::merge(&text, &shared).unwrap_or_default();
    let before = load::load_text_as_far(node, &merged, true).0;
    print_changes(&weir_config::changes(&before, &own));
    let last = SharedSettings { ended: true, comment, ..SharedSettings::new(present.settings.text, &rules.node) };
    let revision = write(&mut etcd, present.revision, last)?;
    print_line(format!("revision {revision} ends the configuration that cluster {} has shared", rules.name));
    report_adoption(&mut etcd, revision, "has its own file's configuration")
}

fn none_shared(rules: &Cluster) -> Failure {
    let text = format!("cluster {} has no shared configuration: weir cluster apply FILE writes one", rules.name);
    Failure::Message(text)
}

fn diff(file: &Path, node: Option<&Path>) -> Result<(), Failure> {
    let checked = checked(file, node)?;
    print_checked(&checked);
    if checked.changes.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

fn export(node: &Path, plain: bool) -> Result<(), Failure> {
    let rules = rules(node, &load::load_as_far(node).0)?;
    let mut etcd = Etcd::new(&rules).map_err(Failure::of)?;
    let present = read(&mut etcd)?.ok_or_else(|| none_shared(&rules))?;
    if present.settings.ended {
        eprintln!("weir: note: revision {} has ended it; this is what was shared before", present.revision);
    }
    let text = present.settings.text;
    let text = if plain { SharedSecrets::new(&rules).open(&text).map_err(Failure::of)? } else { text };
    text.lines().for_each(print_line);
    Ok(())
}

fn key(file: Option<&Path>) -> Result<(), Failure> {
    match file {
        None => print_line(weir_store::new_key().map_err(Failure::of)?),
        Some(file) => {
            weir_store::write_key(file).map_err(|error| Failure::at(file.display(), error))?;
            print_line(format!("a new key is in {}: copy it to all nodes", file.display()));
        }
    }
    Ok(())
}

/// Reads a file, checks it as a node would, and compares it with what the cluster has.
fn checked(file: &Path, node: Option<&Path>) -> Result<Checked, Failure> {
    let file = load::named(file);
    let text = load::read(file).map_err(|error| Failure::at(file.display(), error))?;
    let shared = weir_config::shared_part(&text);
    let of_node = |text: &str| weir_config::shared_sections(text, false).iter().any(|section| section == "[cluster]");
    let node = node.map_or_else(|| if of_node(&text) { file.to_owned() } else { NODE.into() }, Path::to_owned);
    let node_text = if node == file {
        text.clone()
    } else {
        let advised = |error| Failure::at(node.display(), format!("{error}; name a node's weir.toml as --node"));
        load::read(&node).map_err(advised)?
    };
    let (own, _) = load::load_text_as_far(&node, &node_text, false);
    let secrets = SharedSecrets::new(&own.cluster);
    let opened = |text: &str| secrets.open(text).map_err(|why| Failure::at(file.display(), why));
    check_file(file, &opened(&text)?, &node)?;
    let shared = shared.ok_or_else(|| Failure::at(file.display(), "is not TOML"))?;
    if weir_config::shared_sections(&text, true).is_empty() {
        return Err(Failure::at(
            file.display(),
            "has nothing that nodes share: [pools], [servers], [auth], [users], [limits] or [general]",
        ));
    }
    let left_out = weir_config::shared_sections(&text, false);
    if !left_out.is_empty() && node != file {
        eprintln!("weir: note: each node has its own {}, which is left out", left_out.join(", "));
    }
    let rules = rules(&node, &own)?;
    let mut etcd = Etcd::new(&rules).map_err(Failure::of)?;
    let present = read(&mut etcd)?;
    let before = present.as_ref().filter(|present| !present.settings.ended);
    let before = before.map(|present| present.settings.text.as_str());
    let shared = secrets.seal(&shared, before).map_err(|why| Failure::at(file.display(), why))?;
    if let Some((key, help)) = weir_config::find_plain_secret(&shared) {
        let text = format!("{key} would be in etcd in the clear: {help}");
        return Err(Failure::at(file.display(), text));
    }
    let merged = |shared: &str| {
        let text = weir_config::merge(&node_text, shared).unwrap_or_default();
        load::load_text_as_far(&node, &text, true)
    };
    let (after, mistakes) = merged(&opened(&shared)?);
    if let Some(mistakes) = mistakes {
        let first = mistakes.first();
        return Err(Failure::at(file.display(), format!("with {}: {}", node.display(), first.message)));
    }
    // Without a shared configuration each node has its file's.
    let before = before.map(|text| {
        secrets.open(text).unwrap_or_else(|why| {
            eprintln!("weir: warning: what etcd has can't be compared: {why}");
            text.to_owned()
        })
    });
    let before = before.map_or_else(|| own.clone(), |text| merged(&text).0);
    let restart = weir_config::differences(&before, &after).restart.into_iter().map(|change| change.key).collect();
    Ok(Checked { changes: weir_config::changes(&before, &after), restart, rules, etcd, shared, present })
}

/// Checks a file as `weir check` does, with paths relative to the node's file. What only nodes have is not missing in
/// it, and variables of their environment need not be set here.
fn check_file(file: &Path, text: &str, node: &Path) -> Result<(), Failure> {
    let beside = node.with_file_name(file.file_name().unwrap_or_default());
    let (config, mistakes) = load::load_text_as_far(&beside, text, true);
    let named = |finding: ConfigFinding| ConfigFinding {
        file: if finding.file == beside { file.to_owned() } else { finding.file.clone() },
        ..finding
    };
    let mistakes = mistakes.iter().flat_map(|mistakes| mistakes.iter().map(ConfigFinding::from));
    let of_node = |finding: &ConfigFinding| finding.key.as_ref().is_some_and(|key| key.starts_with("listen."));
    let findings: Vec<ConfigFinding> =
        mistakes.chain(weir_config::review(&config, &load::facts())).map(named).collect();
    let is_error = |finding: &&ConfigFinding| finding.severity == Severity::Error && !of_node(finding);
    let errors: Vec<String> = findings.iter().filter(is_error).map(ConfigFinding::to_string).collect();
    if !errors.is_empty() {
        return Err(Failure::Messages(errors));
    }
    let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning && !of_node(finding));
    warnings.for_each(|warning| eprintln!("weir: warning: {warning}"));
    Ok(())
}

fn rules(file: &Path, config: &Config) -> Result<Cluster, Failure> {
    if !config.cluster.etcd.is_empty() {
        return Ok(config.cluster.clone());
    }
    match load::load(file) {
        Err(mistakes) => Err(check::mistaken(load::load_as_far(file).0, &mistakes)),
        Ok(_) => Err(Failure::at(
            file.display(),
            "has no [cluster] with etcd's addresses; name a node's weir.toml (apply and diff: as --node)",
        )),
    }
}

fn read(etcd: &mut Etcd) -> Result<Option<Revised>, Failure> {
    let found = SettingsSource::read(etcd).map_err(Failure::of)?;
    let revised =
        found.map(|(revision, value)| SharedSettings::decode(&value).map(|settings| Revised { revision, settings }));
    revised.transpose().map_err(Failure::of)
}

fn print_checked(checked: &Checked) {
    print_changes(&checked.changes);
    if !checked.restart.is_empty() {
        print_line(format!("with a restart of each node: {}", checked.restart.join(", ")));
    }
}

fn print_changes(changes: &[KeyChange]) {
    for KeyChange { object, key, old, new } in changes {
        let name =
            [object.as_str(), key.as_str()].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        match (key.as_str(), old, new) {
            ("", None, _) => print_line(format!("+ {name}")),
            ("", _, _) => print_line(format!("- {name}")),
            (_, old, new) => {
                let word = |value: &Option<String>| value.clone().unwrap_or_else(|| "(default)".to_owned());
                print_line(format!("  {name}: {} -> {}", word(old), word(new)));
            }
        }
    }
}

/// Waits for the nodes, a moment, and prints what they did.
fn report_adoption(etcd: &mut Etcd, revision: Revision, done: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    loop {
        let members = members(etcd).map_err(Failure::of)?;
        let refuses = |member: &Member| member.refused.starts_with(&format!("revision {revision}:"));
        let is_open = |(_, member): &&(String, Member)| member.config < revision && !refuses(member);
        if members.iter().any(|member| is_open(&member)) && begun.elapsed() < ADOPTION {
            thread::sleep(LOOK);
            continue;
        }
        for (name, member) in &members {
            print_line(match member {
                _ if refuses(member) => format!("node {name} refuses it: {}", member.refused),
                _ if member.config < revision => format!("node {name} has not adopted it yet"),
                _ => format!("node {name} {done}"),
            });
        }
        return if members.iter().any(|(_, member)| refuses(member)) { Err(Failure::Reported) } else { Ok(()) };
    }
}

/// The nodes that may live.
fn members(etcd: &mut Etcd) -> Result<Vec<(String, Member)>, NodeError> {
    let StoreReply::Read(_, all) = etcd.execute(&StoreRequest::ReadMembers)? else { return Ok(Vec::new()) };
    let member = |stored: weir_cluster::Stored| match (stored.key, stored.value) {
        (StoreKey::Member(name), StoreValue::Member(member)) if !member.left && !member.fenced => Some((name, member)),
        _ => None,
    };
    Ok(all.into_iter().filter_map(member).collect())
}

fn status(rules: &Cluster) -> Result<Vec<String>, Failure> {
    let mut etcd = Etcd::new(rules).map_err(Failure::of)?;
    let StoreReply::Read(revision, all) = etcd.execute(&StoreRequest::ReadAll).map_err(Failure::of)? else {
        return Err(Failure::Message("etcd has sent something else than what was read".to_owned()));
    };
    let mut end = None;
    let mut lines = vec![format!("cluster {} at revision {revision}", rules.name)];
    if let (_, Some((revision, value))) = etcd.take_settings() {
        let SharedSettings { user, comment, node, ended, .. } = SharedSettings::decode(&value).map_err(Failure::of)?;
        let by = user.map_or_else(String::new, |user| format!(" by {user}"));
        let why = comment.map_or_else(String::new, |comment| format!(": {}", comment.escape_debug()));
        let what = if ended { "each node's own; the shared one was ended with " } else { "" };
        lines.push(format!("configuration: {what}revision {revision}{by}, written at {node}{why}"));
        end = ended.then_some(revision);
    }
    for stored in all {
        match (stored.key, stored.value) {
            (StoreKey::Member(name), StoreValue::Member(member)) => lines.push(node_line(&name, &member, end)),
            (StoreKey::Pool(name), StoreValue::Pool(record)) => {
                let node = |(name, entry): (&String, &Entry)| {
                    let wait = entry.wait.map_or(String::new(), |wait| format!(", lacks {}", wait.amount));
                    format!("{name} has {} (floor {}{wait})", entry.share, entry.floor)
                };
                let nodes: Vec<String> = record.nodes.iter().map(node).collect();
                lines.push(format!("pool {name}: {} of {}: {}", record.shared(), record.budget, nodes.join("; ")));
            }
            _ => {}
        }
    }
    Ok(lines)
}

fn node_line(name: &str, member: &Member, end: Option<Revision>) -> String {
    let lost = if member.fenced { ", its lease has ended" } else { "" };
    let config = match member.config {
        0 => "its own configuration".to_owned(),
        revision if end == Some(revision) => "its own configuration".to_owned(),
        revision => format!("configuration {revision}"),
    };
    let refused = if member.refused.is_empty() { String::new() } else { format!(", refuses {}", member.refused) };
    format!("node {name}: version {}, {} heartbeats, {config}{lost}{refused}", member.version, member.beat)
}
