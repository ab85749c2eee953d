//! Messages for tests that move sockets.

use std::path::Path;
use std::sync::Arc;

use weir_base::{ConnId, Target, Time, WorkerId};
use weir_engine::Message;
use weir_engine::port::{Input, Io, Level, Response, Signal, Work};
use weir_engine::{Engine, Setup, StatementMemory};

/// Makes messages, which only an engine can: PAUSE makes it write to every other worker.
pub(crate) struct Envelopes {
    engine: Engine,
    spare: Caught,
}

impl Envelopes {
    pub(crate) fn new() -> Envelopes {
        let text = "[listen]\naddress = \"127.0.0.1\"\nport = 6432\n[auth]\ntype = \"trust\"\n";
        let config = weir_config::load(Path::new("weir.toml"), &|_| Ok(text.into()), &|_| None).unwrap();
        let engine = Engine::new(Setup {
            worker: WorkerId(0),
            workers: 100,
            config: Arc::new(config),
            seed: [1; 32],
            process_key: [2; 32],
            old_process: None,
            statement_memory: StatementMemory::default(),
            wall_at_start: 0,
            version: "",
            uid: 0,
            host_name: "db1".into(),
            pools_per_turn: 256,
        });
        Envelopes { engine, spare: Caught(Vec::new()) }
    }

    pub(crate) fn next(&mut self) -> Message {
        if self.spare.0.is_empty() {
            self.engine.handle(Time::START, Input::Signal(Signal::Pause), &mut self.spare);
        }
        self.spare.0.pop().expect("a signal is passed on to all workers")
    }
}

/// Stores what an engine posts.
struct Caught(Vec<Message>);

impl Io for Caught {
    fn forward(&mut self, _: ConnId, _: std::ops::Range<usize>) {}
    fn send(&mut self, _: ConnId, _: &[u8]) {}
    fn connect(&mut self, _: &Target) -> ConnId {
        ConnId::NONE
    }
    fn look_up(&mut self, _: &Arc<str>) {}
    fn close(&mut self, _: ConnId) {}
    fn pause(&mut self, _: ConnId) {}
    fn resume(&mut self, _: ConnId) {}
    fn detach(&mut self, _: ConnId) {}
    fn post(&mut self, _: WorkerId, message: Message, _: Option<ConnId>) {
        self.0.push(message);
    }
    fn submit_job(&mut self, _: u64, _: Work) {}
    fn start_tls(&mut self, _: ConnId, _: weir_engine::port::Handshake) {}
    fn logs(&self, _: weir_engine::port::Level) -> bool {
        false
    }
    fn log(&mut self, _: Level, _: weir_engine::port::About<'_>, _: std::fmt::Arguments<'_>) {}
    fn apply_config(&mut self, _: &Arc<weir_config::Config>) {}
    fn accept(&mut self, _: bool) {}
    fn answer(&mut self, _: u64, _: Response) {}
    fn exit(&mut self, _: i32) {}
}
