//! The simulated world: takes one event after the other and passes each to its actor.
//!
//! Owns the actors and the end of a run. Invariant: everything is drawn from the seed; nothing depends on the machine,
//! its clock or the order of a hash table.

use std::net::IpAddr;

use weir_base::{Host, Span, Time};
use weir_engine::port::Signal;

use crate::check::{Checker, Violation};
use crate::client::actor::Actor;
use crate::client::{Identity, Kind};
use crate::conditions::Conditions;
use crate::context::{Context, Counts, Event};
use crate::names::Names;
use crate::network::{Address, End, Owner, Side, SocketEvent};
use crate::pooler::{LoginNames, Pooler};
use crate::postgres::{Postgres, Server, State};
use crate::rng::Rng;
use crate::scenario::{Act, Scenario};
use crate::trace::Detail;
use crate::transcript::folded;

/// The process must have ended this long after the last client left.
const END: Span = Span::from_secs(600);

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The seed of the run.
    pub seed: u64,
    /// The first rule that was broken.
    pub violation: Option<Violation>,
    /// What was done.
    pub counts: Counts,
    /// The hash of all events.
    pub digest: u64,
    /// The last events, if a transcript was requested.
    pub transcript: Vec<String>,
}

impl Outcome {
    /// The last events, with the middle of long series of the same message left out.
    pub fn transcript(&self) -> Vec<String> {
        folded(self.transcript.clone())
    }
}

pub(crate) struct World {
    ctx: Context,
    pooler: Pooler,
    postgres: Postgres,
    /// By number, less one; `None`: left out of this run.
    clients: Vec<Option<Actor>>,
    acts: Vec<Act>,
    rng: Rng,
    scratch: Vec<u8>,
    most_events: u64,
    /// All clients have finished.
    closing: bool,
    ended: bool,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario, detail: Detail) -> World {
        let rng = Rng::new(seed);
        let network = rng.fork("network", scenario.timing);
        let mut ctx = Context::new(scenario.rules, scenario.conditions, network, detail);
        ctx.names = Names::new(addresses(&scenario.servers), rng.fork("names", 0));
        let mut pooler = Pooler::new(scenario.pooling, &rng);
        let reporting = scenario.behaviour.reporting;
        let postgres = Postgres::new(scenario.servers, scenario.behaviour, rng.fork("postgres", 0));
        let names = |i: &Identity| (i.number, LoginNames { database: i.database.clone(), user: i.user.clone() });
        let operated = scenario.clients.iter().any(|identity| identity.kind == Kind::Operator);
        pooler.expect(scenario.clients.iter().map(names).collect(), operated);
        let mut clients = Vec::new();
        for identity in scenario.clients {
            let number = identity.number as usize;
            clients.resize_with(number.max(clients.len()), || None);
            let chance = rng.fork("client", u64::from(identity.number));
            clients[number - 1] = Some(Actor::new(identity, reporting, chance));
        }
        let mut world = World {
            ctx,
            pooler,
            postgres,
            clients,
            acts: Vec::new(),
            rng: rng.fork("world", 0),
            scratch: Vec::new(),
            most_events: scenario.most_events,
            closing: false,
            ended: false,
        };
        for (number, (at, act)) in scenario.acts.into_iter().enumerate() {
            if scenario.left_out.contains(&(number as u32)) {
                world.acts.push(act);
            } else {
                world.plan(at, act);
            }
        }
        world.pooler.start(&mut world.ctx);
        for client in world.clients.iter_mut().flatten() {
            client.schedule_arrival(&mut world.ctx, scenario.arrival);
        }
        world
    }

    /// Runs until the end or the first broken rule.
    pub(crate) fn run(&mut self) {
        while self.ctx.violation.is_none() && !self.ended {
            let Some(event) = self.ctx.queue.next() else { break };
            self.ctx.counts.events += 1;
            self.step(event);
            if self.ctx.counts.events > self.most_events {
                self.ctx.violated(Checker::AllFinishes, || "the run does not end".to_owned());
            }
        }
    }

    /// How the run ended; a panic within an engine is a broken rule, too.
    pub(crate) fn outcome(mut self, seed: u64, panic: Option<String>) -> Outcome {
        if let Some(panic) = panic {
            self.ctx.violated(Checker::Invariant, || panic);
        }
        self.ctx.counts.moved = self.pooler.moved();
        Outcome {
            seed,
            violation: self.ctx.violation,
            counts: self.ctx.counts,
            digest: self.ctx.trace.digest(),
            transcript: self.ctx.trace.lines(),
        }
    }

    fn plan(&mut self, at: Time, act: Act) {
        self.acts.push(act);
        self.ctx.queue.at(at, Event::Act(self.acts.len() as u32 - 1));
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Net(event) => {
                let mut scratch = std::mem::take(&mut self.scratch);
                if let Some(found) = self.ctx.net.step(&mut self.ctx.queue, event, &mut scratch) {
                    self.socket_event(found, &scratch);
                }
                self.scratch = scratch;
            }
            Event::Wake(Owner::Client(number), reason) => {
                let Some(client) = &mut self.clients[number as usize - 1] else { return };
                client.woken(&mut self.ctx, reason);
                if client.is_done() {
                    self.client_finished();
                }
            }
            Event::Wake(Owner::Backend(number), reason) => self.postgres.woken(&mut self.ctx, number, reason),
            Event::Act(number) => self.act(number),
            Event::Signal(signal) => self.pooler.signal(&mut self.ctx, signal),
            Event::Wake(..) => {}
            event => self.pooler.step(&mut self.ctx, event),
        }
    }

    fn socket_event(&mut self, (end, owner, event): (End, Owner, SocketEvent), bytes: &[u8]) {
        let now = self.ctx.now().micros();
        let kind = match &event {
            SocketEvent::Arrived(_) => 1,
            SocketEvent::Bytes => 2,
            SocketEvent::Eof => 3,
            SocketEvent::Error => 4,
            _ => 5,
        };
        let bytes = if event == SocketEvent::Bytes { bytes } else { &[] };
        self.ctx.trace.hash(&[now, u64::from(end.conn), end.side as u64, kind], bytes);
        if let SocketEvent::Arrived(address) = event {
            return self.connect_arrived(end, owner, &address);
        }
        match owner {
            Owner::Client(number) => {
                let Some(client) = &mut self.clients[number as usize - 1] else { return };
                client.socket_event(&mut self.ctx, &event, bytes);
                if client.is_done() {
                    self.client_finished();
                }
            }
            Owner::Canceller(number) => {
                let Some(client) = &mut self.clients[number as usize - 1] else { return };
                client.canceller_event(&mut self.ctx, end, &event);
            }
            Owner::Backend(number) => match event {
                SocketEvent::Bytes => self.postgres.bytes(&mut self.ctx, number, bytes),
                SocketEvent::Drained => self.postgres.drained(&mut self.ctx, number),
                SocketEvent::Ending => {}
                _ => self.postgres.gone(&mut self.ctx, number),
            },
            Owner::Engine(worker, conn) => {
                if event == SocketEvent::Bytes {
                    self.cancel_arrived(end.peer());
                }
                self.pooler.socket_event(&mut self.ctx, worker, conn, &event, bytes);
            }
            Owner::None => {}
        }
    }

    /// The pooler reads what was sent from this end: the end of a cancel request, perhaps.
    fn cancel_arrived(&mut self, end: End) {
        let Owner::Canceller(number) = self.ctx.net.owner(end) else { return };
        let (written, read) = self.ctx.net.progress(end);
        if let Some(client) = self.clients[number as usize - 1].as_mut().filter(|_| written == read) {
            client.cancel_arrived(&mut self.ctx, end);
        }
    }

    /// A connect reaches its destination.
    fn connect_arrived(&mut self, near: End, owner: Owner, address: &Address) {
        let accepted = match address {
            Address::Pooler => self.pooler.arrive(&mut self.ctx, near.conn),
            Address::Server(target) => self.postgres.arrive(&mut self.ctx, near.conn, target).is_some(),
        };
        let event = if accepted { SocketEvent::Connected } else { SocketEvent::ConnectFailed };
        if !accepted {
            self.ctx.net.refuse(near.conn);
        }
        self.socket_event((near, owner, event), &[]);
    }

    /// When the last client has finished, the run ends.
    fn client_finished(&mut self) {
        if !self.closing && self.clients.iter().flatten().all(Actor::is_done) {
            self.closing = true;
            self.calm();
            let now = self.ctx.now();
            self.plan(now + Span::from_secs(1), Act::Shutdown);
            self.plan(now + END, Act::End);
        }
    }

    fn act(&mut self, number: u32) {
        let act = self.acts[number as usize];
        // Each act has its own random stream, so leaving one out does not change the others.
        let mut rng = self.rng.fork("act", u64::from(number));
        let ctx = &mut self.ctx;
        ctx.note(|| format!("act {number}: {act}"));
        match act {
            Act::Restart { server, crash } if !self.closing && self.postgres.servers[server].state == State::Up => {
                self.postgres.stop(ctx, server, crash);
                let (down, starting) = Postgres::draw_downtime(&mut rng);
                let up = self.ctx.now() + down;
                self.plan(up, Act::Starting(server));
                self.plan(up + starting, Act::Up(server));
            }
            Act::ShutOut(server) if !self.closing && self.postgres.servers[server].state == State::Up => {
                self.postgres.set_state(server, State::Starting);
                // One session ends, so that somebody needs another one.
                self.postgres.terminate_one(ctx, Some(server), &mut rng);
                let up = self.ctx.now() + rng.span(100_000, 5_000_000);
                self.plan(up, Act::Up(server));
            }
            Act::Starting(server) => self.postgres.set_state(server, State::Starting),
            Act::Up(server) => self.postgres.set_state(server, State::Up),
            Act::Terminate => self.postgres.terminate_one(ctx, None, &mut rng),
            Act::Cut => {
                if let Some(conn) = ctx.net.any_conn(&mut rng) {
                    let [near, far] = [Side::Near, Side::Far].map(|side| ctx.net.owner(End { conn, side }));
                    ctx.note(|| format!("the connection of {near} to {far} is reset"));
                    ctx.net.cut(&mut ctx.queue, conn);
                }
            }
            Act::Stall => self.stall(&mut rng),
            Act::Conditions => ctx.net.set_conditions(Conditions::draw(&mut rng)),
            Act::Reload => self.pooler.signal(ctx, Signal::Reload),
            Act::Pause => self.pooler.signal(ctx, Signal::Pause),
            Act::Resume => self.pooler.signal(ctx, Signal::Resume),
            Act::Calm => self.calm(),
            Act::Drain if !self.closing => {
                ctx.drained = true;
                self.pooler.signal(ctx, Signal::Drain);
            }
            // A drain ends the process by itself.
            Act::Shutdown if !ctx.drained => self.pooler.signal(ctx, Signal::ShutdownClients),
            Act::Deadline if !self.closing => self.unfinished(),
            Act::End => {
                self.ended = true;
                self.check_end();
            }
            Act::Restart { .. } | Act::ShutOut(_) | Act::Deadline | Act::Drain | Act::Shutdown => {}
        }
    }

    fn calm(&mut self) {
        self.ctx.net.set_conditions(Conditions::calm());
        self.postgres.stop_faults();
        self.clients.iter_mut().flatten().for_each(Actor::stop_faults);
    }

    fn stall(&mut self, rng: &mut Rng) {
        let pause = rng.span(1_000, 20_000_000);
        let far = rng.chance(500);
        let until = self.ctx.now() + pause;
        if let Some(conn) = self.ctx.net.any_conn(rng) {
            let near = End { conn, side: Side::Near };
            let end = if far { near.peer() } else { near };
            let (from, to) = (self.ctx.net.owner(end), self.ctx.net.owner(end.peer()));
            self.ctx.note(|| format!("what {from} sends to {to} is held back for {} µs", pause.micros()));
            self.ctx.net.stall(end, until);
        }
    }

    fn unfinished(&mut self) {
        let waiting: Vec<String> =
            self.clients.iter_mut().flatten().filter(|c| !c.is_done()).take(5).map(Actor::describe).collect();
        self.ctx.violated(Checker::AllFinishes, || waiting.join("; "));
    }

    /// All clients have left: no connection may be open any more.
    fn check_end(&mut self) {
        if !self.pooler.has_ended() {
            self.ctx.violated(Checker::AllFinishes, || "the pooler does not end".to_owned());
        }
        let (open, alive) = (self.ctx.net.open(), self.postgres.alive());
        if open > 0 || alive > 0 {
            let ends: Vec<String> = self.ctx.net.open_ends().take(8).map(|e| format!("{e:?}")).collect();
            let what = format!("{open} connections and {alive} server processes remain: {}", ends.join(", "));
            self.ctx.violated(Checker::NoConnLeaks, || what);
        }
    }
}

/// Where servers listen.
fn addresses(servers: &[Server]) -> Vec<IpAddr> {
    let address = |server: &Server| if let Host::Ip(address) = server.target.host { Some(address) } else { None };
    servers.iter().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use weir_base::Target;

    use super::*;
    use crate::context::Rules;
    use crate::postgres::Behaviour;

    /// Three ordinary clients, a server, and no faults but those in `acts`.
    fn checker(rules: Rules, state: State, acts: &[(u64, Act)]) -> Option<Checker> {
        let mut rng = Rng::new(5);
        let target = Target { host: Host::parse("10.0.0.1"), port: 5432 };
        let servers = vec![Server { target: target.clone(), state, max_connections: 100 }];
        let behaviour = Behaviour::draw(&mut rng);
        let mut scenario = Scenario::new(&mut rng, rules, servers, behaviour);
        for number in 1..=3 {
            scenario.add_client(number, Address::Server(target.clone()), "ann", "app", Kind::User);
        }
        scenario.acts.extend(acts.iter().map(|(at, act)| (Time::from_micros(*at), *act)));
        let mut world = World::new(5, scenario, Detail::None);
        world.run();
        world.outcome(5, None).violation.map(|violation| violation.checker)
    }

    #[test]
    fn a_run_without_faults_breaks_no_rule() {
        assert_eq!(checker(Rules::default(), State::Up, &[]), None);
    }

    #[test]
    fn an_error_without_a_fault_is_caught() {
        assert_eq!(checker(Rules::default(), State::Starting, &[]), Some(Checker::NoErrorWithoutFault));
        assert_eq!(checker(Rules::default(), State::Down, &[]), Some(Checker::NoErrorWithoutFault));
    }

    #[test]
    fn a_client_that_waits_too_long_is_caught() {
        let short = Rules { answer_timeout: Span::from_micros(50), ..Rules::default() };
        assert_eq!(checker(short, State::Up, &[]), Some(Checker::WaitersAreAnswered));
    }

    #[test]
    fn clients_that_do_not_finish_are_caught() {
        assert_eq!(checker(Rules::default(), State::Up, &[(10_000, Act::Deadline)]), Some(Checker::AllFinishes));
    }

    #[test]
    fn what_stays_open_is_caught() {
        // At some of these moments a client is connected.
        let cut_short = |at: u64| checker(Rules::default(), State::Up, &[(at * 5_000, Act::End)]);
        assert!((1..50).any(|at| cut_short(at) == Some(Checker::NoConnLeaks)));
    }

    #[test]
    fn a_client_beyond_the_limit_is_caught() {
        let small = Rules { max_clients: 1, ..Rules::default() };
        assert_eq!(checker(small, State::Up, &[]), Some(Checker::LimitsHold));
    }
}
