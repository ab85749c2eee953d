//! The channels on which a client listens through the shared connection of its pool (`listen = "shared"`).
//!
//! Owns the client's channels, and the notifications that wait for the end of its transaction. All notifications that
//! the client gets come by the shared connection, so in the order in which they were committed. The client's own server
//! listens, too, while the client has it: what it shows of the client's own notifications is not passed on, and says
//! which ones must have arrived before the client gets its ReadyForQuery. Must not know sockets, or other clients.
//!
//! Bounded: [`MOST_BYTES`] of notifications that wait, and as many of them as fit in there at [`ENTRY`] bytes each.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use weir_pgwire::put_back;

/// The most bytes of notifications that wait for one client.
pub const MOST_BYTES: usize = 1 << 20;

/// What a notification counts beside its payload.
const ENTRY: usize = 64;

/// A notification, as the shared connection got it. All its receivers share it.
#[derive(Debug, PartialEq, Eq)]
pub struct SharedNotification {
    /// The process id of the backend that sent it.
    pub pid: u32,
    /// The channel.
    pub channel: Box<[u8]>,
    /// The payload.
    pub payload: Box<[u8]>,
}

impl SharedNotification {
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.channel, &self.payload).hash(&mut hasher);
        hasher.finish()
    }
}

/// More notifications wait for a client than may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;

/// Whether the shared connection receives what the client itself sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hearing {
    /// Maybe: it began to listen later than the client's last request was sent, or no connection listens.
    #[default]
    Unsure,
    /// All of it: it listened on all channels before.
    All,
    /// Nothing: it is at another host, where nobody hears of it.
    Nothing,
}

/// Something that waits for the end of the client's transaction.
#[derive(Debug)]
enum Waiting {
    Notification {
        notification: Arc<SharedNotification>,
        /// The client itself has sent it.
        own: bool,
    },
    /// Notifications may be missing here.
    Gap,
}

/// See the head of the file.
#[derive(Debug, Default)]
pub struct Channels {
    /// In ascending order.
    names: Vec<Arc<str>>,
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Which of those that wait may prove to be the client's own, by sender and hash; the first `read` of them.
    unclaimed: HashMap<(u32, u64), VecDeque<usize>>,
    read: usize,
    own_hearing: Hearing,
    /// Notifications of the client's own that the shared connection has not received yet: how many, by a hash.
    own: HashMap<u64, usize>,
    own_count: usize,
    /// The process id of the server that has shown them.
    own_pid: u32,
}

impl Channels {
    /// These channels, in any order.
    pub fn new(names: impl IntoIterator<Item = Arc<str>>) -> Channels {
        let mut channels = Channels::default();
        channels.set(names.into_iter().collect());
        channels
    }

    /// The names, in ascending order.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Whether it is these, in any order, each once.
    pub(crate) fn are(&self, names: &[Arc<str>]) -> bool {
        self.names.len() == names.len() && names.iter().all(|name| self.has(name.as_bytes()))
    }

    pub(crate) fn has(&self, channel: &[u8]) -> bool {
        self.names.binary_search_by(|name| name.as_bytes().cmp(channel)).is_ok()
    }

    /// The client listens on these channels from now on.
    pub(crate) fn set(&mut self, mut names: Vec<Arc<str>>) {
        names.sort_unstable();
        names.dedup();
        self.names = names;
    }

    /// The commands by which a server listens on all of them.
    pub(crate) fn listen(&self, query: &mut String) {
        self.names.iter().for_each(|name| listen(name, query));
    }

    /// What the shared connection receives of what the client sends next. No request of the client's is under way.
    pub fn set_hearing(&mut self, hearing: Hearing) {
        self.own_hearing = hearing;
    }

    /// Whether something waits for the end of a transaction.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the shared connection has yet to receive what the client itself has sent.
    pub fn awaits_own(&self) -> bool {
        self.own_count > 0
    }

    /// The client's server has shown a notification that the client itself has sent. One on a channel on which the
    /// client did not listen before this transaction comes by this way only, and so does each one if the shared connection
    /// is at another host. Where that may have begun to listen later it is not waited for: it may be missing
    /// ([`gap`](Channels::gap)).
    pub(crate) fn sent(&mut self, notification: SharedNotification) -> Result<(), TooMany> {
        self.own_pid = notification.pid;
        if !self.has(&notification.channel) || self.own_hearing == Hearing::Nothing {
            return self.push(Arc::new(notification), true);
        }
        let key = notification.key();
        if let Some(own) = self.arrived(notification.pid, key) {
            *own = true;
            return Ok(());
        }
        if self.own_hearing == Hearing::Unsure {
            return Ok(());
        }
        if self.own_count * ENTRY >= MOST_BYTES {
            return Err(TooMany);
        }
        *self.own.entry(key).or_default() += 1;
        self.own_count += 1;
        Ok(())
    }

    /// The first one that waits and is not known as the client's own. Each that waits is read once.
    fn arrived(&mut self, pid: u32, key: u64) -> Option<&mut bool> {
        for (at, waiting) in self.waiting.iter().enumerate().skip(self.read) {
            if let Waiting::Notification { notification: it, own: false } = waiting {
                self.unclaimed.entry((it.pid, it.key())).or_default().push_back(at);
            }
        }
        self.read = self.waiting.len();
        let at = self.unclaimed.get_mut(&(pid, key))?.pop_front()?;
        let Some(Waiting::Notification { own, .. }) = self.waiting.get_mut(at) else { return None };
        Some(own)
    }

    /// The shared connection has received a notification for the client.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn received(&mut self, notification: Arc<SharedNotification>) -> Result<(), TooMany> {
        let own = notification.pid == self.own_pid && self.own_count > 0 && self.take_own(notification.key());
        self.push(notification, own)
    }

    /// Whether the client has sent one with this hash, which arrives now.
    fn take_own(&mut self, key: u64) -> bool {
        let Some(count) = self.own.get_mut(&key) else { return false };
        *count -= 1;
        if *count == 0 {
            self.own.remove(&key);
        }
        self.own_count -= 1;
        true
    }

    fn push(&mut self, notification: Arc<SharedNotification>, own: bool) -> Result<(), TooMany> {
        self.bytes += notification.payload.len() + ENTRY;
        if self.bytes > MOST_BYTES {
            return Err(TooMany);
        }
        self.waiting.push_back(Waiting::Notification { notification, own });
        Ok(())
    }

    /// The shared connection was lost: what was sent until another one listens is missing.
    pub fn gap(&mut self) {
        (self.own, self.own_count, self.own_hearing) = (HashMap::new(), 0, Hearing::Unsure);
        if !matches!(self.waiting.back(), Some(Waiting::Gap)) {
            self.waiting.push_back(Waiting::Gap);
        }
    }

    /// Takes what waits, as messages for the client. `own_pid`: the process id that the client was given at its login.
    pub fn write(&mut self, own_pid: u32, messages: &mut Vec<u8>) {
        (self.bytes, self.read, self.unclaimed) = (0, 0, HashMap::new());
        for waiting in std::mem::take(&mut self.waiting) {
            match waiting {
                Waiting::Notification { notification: it, own } => {
                    // Another's process id must not be taken for the client's own.
                    let pid = if own { own_pid } else { Some(it.pid).filter(|pid| *pid != own_pid).unwrap_or(0) };
                    put_back::notification(messages, pid, &it.channel, &it.payload);
                }
                Waiting::Gap => put_back::notice(messages, &GAP),
            }
        }
    }
}

/// What a client is sent where notifications may be missing.
const GAP: weir_pgwire::ErrorFields<'static> = weir_pgwire::ErrorFields {
    severity: "WARNING",
    sqlstate: "01000",
    message: "notifications may be missing: the pooler's connection that listens was lost",
    detail: Some(
        "Weir listens for all clients of a pool on one connection. It listens on another one again, and what was sent until then has not arrived.",
    ),
    hint: Some("Read the state that the notifications are about again."),
};

/// The command by which a server listens on a channel.
pub fn listen(channel: &str, query: &mut String) {
    command("LISTEN", channel, query);
}

/// The command by which a server does not listen on a channel any more.
pub fn unlisten(channel: &str, query: &mut String) {
    command("UNLISTEN", channel, query);
}

fn command(verb: &str, channel: &str, query: &mut String) {
    if !query.is_empty() {
        query.push(';');
    }
    query.extend([verb, " \"", &channel.replace('"', "\"\""), "\""]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(names: impl IntoIterator<Item = &'static str>) -> Channels {
        let mut channels = Channels::new(names.into_iter().map(Arc::from));
        channels.set_hearing(Hearing::All);
        channels
    }

    fn notification(pid: u32, channel: &str, payload: &str) -> SharedNotification {
        SharedNotification { pid, channel: channel.as_bytes().into(), payload: payload.as_bytes().into() }
    }

    /// What is written, as (process id, payload).
    fn written(channels: &mut Channels, own_pid: u32) -> Vec<(u32, String)> {
        let mut messages = Vec::new();
        channels.write(own_pid, &mut messages);
        let (mut rest, mut all) = (&messages[..], Vec::new());
        while let Ok(Some(head)) = weir_pgwire::Head::parse(rest) {
            let body = &rest[weir_pgwire::HEAD..head.total()];
            match weir_pgwire::backend::notification(body).ok().filter(|_| head.tag == b'A') {
                Some(it) => all.push((it.pid, String::from_utf8_lossy(it.payload).into_owned())),
                None => all.push((0, "gap".to_owned())),
            }
            rest = &rest[head.total()..];
        }
        all
    }

    #[test]
    fn a_clients_own_notifications_have_its_process_id_whichever_connection_is_first() {
        let mut channels = heard(["b", "a"]);
        channels.received(Arc::new(notification(7, "a", "other"))).unwrap();
        channels.sent(notification(7, "a", "one")).unwrap();
        assert!(channels.awaits_own());
        channels.received(Arc::new(notification(7, "a", "one"))).unwrap();
        channels.received(Arc::new(notification(7, "b", "two"))).unwrap();
        assert!(!channels.awaits_own());
        channels.sent(notification(7, "b", "two")).unwrap();
        assert!(!channels.awaits_own());
        let all = [(7, "other"), (99, "one"), (99, "two")].map(|(pid, text)| (pid, text.to_owned()));
        assert_eq!(written(&mut channels, 99), all);
        assert_eq!(written(&mut channels, 99), []);
    }

    #[test]
    fn one_on_a_channel_that_is_new_in_the_transaction_comes_once_and_anothers_process_id_is_not_the_clients() {
        let mut channels = heard(["a"]);
        channels.sent(notification(7, "new", "mine")).unwrap();
        channels.received(Arc::new(notification(99, "a", "not mine"))).unwrap();
        channels.gap();
        channels.gap();
        let all = [(99, "mine"), (0, "not mine"), (0, "gap")].map(|(pid, text)| (pid, text.to_owned()));
        assert_eq!(written(&mut channels, 99), all);
    }

    #[test]
    fn what_is_sent_while_no_connection_listens_is_not_waited_for() {
        let mut channels = heard(["a"]);
        channels.sent(notification(7, "a", "one")).unwrap();
        channels.gap();
        channels.sent(notification(7, "a", "two")).unwrap();
        assert!(!channels.awaits_own());
        channels.set_hearing(Hearing::All);
        channels.sent(notification(8, "a", "three")).unwrap();
        assert!(channels.awaits_own());
        channels.received(Arc::new(notification(8, "a", "three"))).unwrap();
        assert_eq!(written(&mut channels, 99), [(0, "gap".to_owned()), (99, "three".to_owned())]);
        assert!(!channels.awaits_own());
    }

    #[test]
    fn what_is_sent_at_another_host_comes_from_there() {
        let mut channels = heard(["a"]);
        channels.set_hearing(Hearing::Nothing);
        channels.sent(notification(7, "a", "one")).unwrap();
        assert!(!channels.awaits_own());
        assert_eq!(written(&mut channels, 99), [(99, "one".to_owned())]);
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let mut channels = heard(["a"]);
        let one = Arc::new(notification(7, "a", &"x".repeat(8_000)));
        let taken = (0..1_000).take_while(|_| channels.received(one.clone()).is_ok()).count();
        assert!((100..140).contains(&taken), "{taken}");
        let mut channels = heard(["a"]);
        let taken = (0..100_000).take_while(|n| channels.sent(notification(7, "a", &n.to_string())).is_ok()).count();
        assert!(taken < 20_000, "{taken}");
    }

    #[test]
    fn of_equal_ones_each_is_the_clients_own_once() {
        let mut channels = heard(["a"]);
        let one = || notification(7, "a", "same");
        channels.received(Arc::new(one())).unwrap();
        channels.received(Arc::new(one())).unwrap();
        channels.sent(one()).unwrap();
        channels.received(Arc::new(one())).unwrap();
        channels.sent(one()).unwrap();
        channels.sent(one()).unwrap();
        assert!(!channels.awaits_own());
        channels.sent(one()).unwrap();
        assert!(channels.awaits_own());
        channels.received(Arc::new(notification(8, "a", "same"))).unwrap();
        channels.received(Arc::new(one())).unwrap();
        assert!(!channels.awaits_own());
        let pids: Vec<u32> = written(&mut channels, 99).into_iter().map(|(pid, _)| pid).collect();
        assert_eq!(pids, [99, 99, 99, 8, 99]);
    }

    #[test]
    fn names_of_channels_are_quoted() {
        let mut query = String::new();
        Channels::new(["A\"b".into(), "c".into()]).listen(&mut query);
        unlisten("c", &mut query);
        assert_eq!(query, "LISTEN \"A\"\"b\";LISTEN \"c\";UNLISTEN \"c\"");
    }
}
