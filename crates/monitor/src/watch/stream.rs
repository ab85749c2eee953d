//! Listeners: streams of events, each the body of an answer that does not end.
//!
//! Owns the limit of streams, and how far one may lag behind: a listener that does not read is dropped after [`LAG`]
//! events, and never delays another.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::mpsc::{self, Receiver, Sender};

use weir_admin::{LogPage, LogQuery};

use super::frame::{Frame, Selection, log_event};
use crate::error::MonitorError;

/// Streams at the same time: half of the connections, so that there is always room for other requests.
pub(crate) const MOST_STREAMS: usize = 64;
/// Events that wait for one listener.
const LAG: usize = 4;
/// The start of a stream: after a broken connection, the client reconnects in a second.
const BEGINNING: &str = "retry: 1000\n\n";

/// All listeners.
#[derive(Default)]
pub(super) struct Streams(Vec<Stream>);

struct Stream {
    selection: Selection,
    /// The lines of the log that are sent too, and the number of the last one.
    log: Option<LogQuery>,
    to: Sender<Text>,
}

/// An event's text, as it is sent; its listeners share it.
type Text = Arc<[u8]>;

/// The events of a stream.
pub struct Events(Receiver<Text>);

impl Streams {
    /// Adds a listener, which receives the latest figures at once.
    pub(super) fn join(
        &mut self,
        selection: Selection,
        log: Option<LogQuery>,
        latest: Option<&Frame>,
    ) -> Result<Events, MonitorError> {
        self.0.retain(|stream| !stream.to.is_closed());
        if self.0.len() >= MOST_STREAMS {
            return Err(MonitorError::TooManyStreams);
        }
        if let (Selection::One(name), Some(latest)) = (&selection, latest)
            && !latest.has(name)
        {
            return Err(MonitorError::NoSuchPool(name.clone()));
        }
        let (to, events) = mpsc::channel(LAG);
        let first = latest.map(|latest| latest.event(&selection)).unwrap_or_default();
        // The queue is empty, so there is room.
        let _ = to.try_send(Text::from(format!("{BEGINNING}{first}").into_bytes()));
        self.0.push(Stream { selection, log, to });
        Ok(Events(events))
    }

    /// Sends these figures to all, with the lines of the log since the last ones; listeners with the same selection
    /// share the text.
    pub(super) fn tell(&mut self, frame: &Frame, lines: impl Fn(&LogQuery) -> LogPage) {
        let mut texts: BTreeMap<Selection, Text> = BTreeMap::new();
        self.0.retain_mut(|Stream { selection, log, to }| {
            let text = texts.entry(selection.clone()).or_insert_with(|| frame.event(selection).into_bytes().into());
            let Some(query) = log else { return to.try_send(text.clone()).is_ok() };
            let page = lines(query);
            query.after = page.last;
            to.try_send(Text::from([&**text, log_event(page).as_bytes()].concat())).is_ok()
        });
    }

    /// Sends the same text to all.
    pub(super) fn tell_all(&mut self, text: &str) {
        let text = Text::from(text.as_bytes());
        self.0.retain(|stream| stream.to.try_send(text.clone()).is_ok());
    }
}

impl Events {
    /// The next event; `None` at the stream's end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Arc<[u8]>>> {
        self.0.poll_recv(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::series::UNKNOWN;

    fn frame() -> Frame {
        Frame {
            at: 1.0,
            pools: BTreeMap::new(),
            all: UNKNOWN,
            workers: BTreeMap::new(),
            faults: Vec::new(),
            moves: Vec::new(),
        }
    }

    #[test]
    fn streams_are_bounded_and_who_has_left_makes_room() {
        let mut streams = Streams::default();
        let mut join = || streams.join(Selection::Busiest(9), None, None);
        let mut listeners: Vec<_> = (0..MOST_STREAMS).map(|_| join().expect("there is room")).collect();
        assert!(matches!(join(), Err(MonitorError::TooManyStreams)));
        listeners.pop();
        assert!(join().is_ok());
    }

    #[test]
    fn who_does_not_read_is_dropped_and_who_reads_is_not() {
        let mut streams = Streams::default();
        let mut reader = streams.join(Selection::Busiest(9), None, Some(&frame())).expect("room");
        let mut sleeper = streams.join(Selection::Busiest(9), None, Some(&frame())).expect("room");
        for _ in 0..3 * LAG {
            assert!(reader.0.try_recv().is_ok_and(|text| text.ends_with(b"}\n\n")));
            streams.tell(&frame(), |_| LogPage::default());
        }
        assert_eq!(streams.0.len(), 1);
        let mut received = 0;
        while sleeper.0.try_recv().is_ok() {
            received += 1;
        }
        assert_eq!((received, sleeper.0.is_closed()), (LAG, true));
    }

    #[test]
    fn a_pool_that_is_not_there_can_not_be_listened_to() {
        let joined = Streams::default().join(Selection::One("no".into()), None, Some(&frame()));
        assert!(matches!(joined, Err(MonitorError::NoSuchPool(name)) if name == "no"));
    }
}
