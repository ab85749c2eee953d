//! What this worker reports about itself, for the tables of the console.

use std::collections::{BTreeMap, HashMap};

use weir_admin::{DatabaseStats, MemoryRecord, PoolRecord, Report, ServiceState, SocketRecord};
use weir_base::{ClientAddr, Host, Span, Target, Time};
use weir_pool::ServerState as InPool;
use weir_session::Server;

use crate::Engine;
use crate::admin::client_counts::ClientCounts;
use crate::cluster::lending::LendingRole;
use crate::cluster::messages::Drain;
use crate::handles::PoolIx;
use crate::peers::{ClientPhase, ClientSlot, ServerPhase, ServerSlot, ServerState};
use crate::pools::PoolSlot;

impl Engine {
    /// A snapshot of everything but connections; with `counts`, clients are counted by user.
    pub(crate) fn report(&self, now: Time, counts: bool) -> Report {
        let mut report = Report {
            pools: self.pools.indices().into_iter().map(|ix| self.pool_record(now, ix)).collect(),
            stats: self.database_stats(now),
            refusals: self.refusal_records(),
            memory: vec![self.client_memory(), self.statement_memory()],
            serving: match self.admin.draining {
                Some(Drain::Servers) => ServiceState::Paused,
                _ => self.admin.halt.serving,
            },
            draining: self.admin.draining.is_some(),
            paused: self.admin.halt.paused.clone(),
            disabled: self.admin.halt.disabled.clone(),
            dns: self.dns_records(now),
            console_clients: self.admin.client_counts.consoles,
            login_clients: self.clients_at_the_door(),
            ..Report::default()
        };
        if counts {
            report.clients_by_user = self.clients_by_user();
        }
        report.pools.retain(|pool| {
            pool.clients() + pool.servers() > 0 || self.common.config().pools.contains_key(&pool.database)
        });
        report
    }

    /// Clients that are not logged in yet: all that have no pool and are not here for something else.
    fn clients_at_the_door(&self) -> u32 {
        let inside: u32 = self.pools.iter().map(|slot| slot.clients).sum();
        self.admin.client_counts.clients
            - self.admin.client_counts.consoles
            - self.admin.client_counts.cancellers
            - inside
    }

    /// Asserts that the counts of clients are right. Costs a look at all of them.
    pub(crate) fn check_census(&self) {
        let (mut census, mut door) = (ClientCounts::default(), 0);
        for client in self.peers.clients() {
            census.came(&client.phase);
            door += u32::from(matches!(
                client.phase,
                ClientPhase::Header
                    | ClientPhase::Opening { .. }
                    | ClientPhase::Handshake(_)
                    | ClientPhase::Asking(_)
                    | ClientPhase::Login(_)
                    | ClientPhase::Held(_)
                    | ClientPhase::Moving(_)
            ));
        }
        assert_eq!((self.admin.client_counts, self.clients_at_the_door()), (census, door), "clients are miscounted");
    }

    fn pool_record(&self, now: Time, ix: PoolIx) -> PoolRecord {
        let slot = self.pools.get(ix);
        let snapshot = slot.pool.snapshot(now);
        let mut record = PoolRecord::new(&*slot.name, &*slot.user, slot.mode());
        let asks = if let LendingRole::Owner(lender) = &slot.lending { lender.waiting_requests() } else { 0 };
        // Borrowers report their clients themselves.
        record.cl_waiting = snapshot.waiting - asks;
        let questions = if slot.lookups > 0 { self.entry.lookups.waiting(ix) } else { 0 };
        record.cl_active = (slot.clients + questions).saturating_sub(record.cl_waiting);
        record.cl_active_cancel_req = self.requests_under_way(ix) as u32;
        record.cl_waiting_cancel_req = slot.cancel_queue.len() as u32;
        record.sv_active_cancel = slot.cancels.len() as u32;
        record.sv_login = snapshot.login;
        record.maxwait = snapshot.oldest_wait;
        record.statement_bytes = slot.accepted.used();
        for (server, state, _) in slot.pool.servers() {
            match state {
                InPool::Idle { since } if is_due(slot, since, now) => record.sv_used += 1,
                InPool::Idle { .. } => record.sv_idle += 1,
                InPool::Linked(_) => match self.peers.get_server(server) {
                    Some(slot) => {
                        *linked_count(&mut record, slot) += 1;
                        record.sv_idle_in_transaction += u32::from(slot.is_idle_in_transaction());
                    }
                    None if self.is_lent(server) => {}
                    None => record.sv_active += 1,
                },
                InPool::Login | InPool::Closing => {}
            }
        }
        record
    }

    fn database_stats(&self, now: Time) -> Vec<DatabaseStats> {
        let mut by_name: BTreeMap<&str, DatabaseStats> = BTreeMap::new();
        for slot in self.pools.iter() {
            let entry = by_name
                .entry(&slot.name)
                .or_insert_with(|| DatabaseStats { database: slot.name.to_string(), ..DatabaseStats::default() });
            entry.total.add(&slot.stats);
            entry.tally.add(&slot.tally);
            entry.previous.add(&slot.previous.stats);
            entry.period = entry.period.max(now.since(slot.previous.at));
        }
        by_name.into_values().collect()
    }

    /// Clients that are in, by user. Looks at all of them, and makes a text only for each name.
    fn clients_by_user(&self) -> BTreeMap<String, u32> {
        let mut users: HashMap<&str, u32> = HashMap::new();
        self.inside().for_each(|(_, user, _)| *users.entry(user).or_default() += 1);
        users.into_iter().map(|(name, count)| (name.to_owned(), count)).collect()
    }

    fn client_memory(&self) -> MemoryRecord {
        let used = u64::from(self.admin.client_counts.clients);
        MemoryRecord { name: "client_cache", size: size_of::<ClientSlot>() as u64, used, free: 0 }
    }

    /// What `statement_memory` limits, in KiB: the column holds 31 bits.
    fn statement_memory(&self) -> MemoryRecord {
        let used = self.sessions.interner.used().div_ceil(1024);
        MemoryRecord { name: "statement_memory", size: 1024, used, free: 0 }
    }

    pub(crate) fn client_record(&self, client: &ClientSlot) -> SocketRecord {
        let (addr, port) = client_address(&client.addr);
        let (database, session) = match &client.phase {
            ClientPhase::Console(console) => (console.database.clone(), None),
            ClientPhase::Ready(session) => (self.pools.get(client.pool).name.to_string(), Some(session)),
            ClientPhase::Login(phase) | ClientPhase::Welcome(phase) => (phase.hello.database.clone(), None),
            ClientPhase::Asking(hello) => (hello.database.clone(), None),
            _ => (String::new(), None),
        };
        let name = session.and_then(|s| self.sessions.params.get(s.params(), "application_name"));
        let server = client.link.and_then(|link| self.peers.get_server(link));
        SocketRecord {
            id: client.id,
            user: client.user.to_string(),
            database,
            state: client.state(),
            addr,
            port,
            local_addr: self.local_address(&client.addr),
            local_port: self.common.config().listen.port,
            connect_time: self.common.wall(client.connected_at),
            request_time: self.common.wall(client.request_at),
            wait: self.wait_of(client, server),
            close_needed: false,
            ptr: client.id,
            link: server.map(|s| s.id),
            remote_pid: if let ClientAddr::Unix { pid, .. } = client.addr { pid } else { 0 },
            tls: client.tls.as_ref().map(|tls| tls.description.clone()).unwrap_or_default(),
            application_name: name.unwrap_or_default().to_owned(),
            prepared_statements: session.map_or(0, |s| s.prepared() as u32),
            ..SocketRecord::default()
        }
    }

    /// How long a client's request has waited for a server, or its query runs by now.
    fn wait_of(&self, client: &ClientSlot, server: Option<&ServerSlot>) -> Span {
        match server {
            Some(server) if server.query_at != Time::NEVER => self.common.now().since(server.query_at),
            None if client.state() == "waiting" => self.common.now().since(client.request_at),
            _ => Span::ZERO,
        }
    }

    /// Where a client came in, as far as the configuration tells.
    fn local_address(&self, from: &ClientAddr) -> String {
        match from {
            ClientAddr::Unix { .. } => "unix".to_owned(),
            ClientAddr::Tcp(_) => {
                self.common.config().listen.addresses.first().map(ToString::to_string).unwrap_or_default()
            }
        }
    }

    /// Whether a server has been free for so long that it is checked before it is handed out.
    fn is_used(&self, server: &ServerSlot) -> bool {
        let slot = self.pools.get(server.pool);
        slot.pool.free_since(server.peer).is_some_and(|since| is_due(slot, since, self.common.now()))
    }

    pub(crate) fn server_record(&self, server: &ServerSlot) -> SocketRecord {
        let slot = self.pools.get(server.pool);
        let (addr, port) = target_address(&server.target);
        let up = if let ServerState::Up(up, _) = &server.state { Some(up) } else { None };
        let client = server.link.and_then(|link| self.peers.get_client(link));
        let name = up.and_then(|up| self.sessions.params.get(up.params(), "application_name"));
        let began = |at: Time| (server.link.is_some() && at != Time::NEVER).then(|| self.common.wall(at));
        let (local_addr, local_port) = server.local.rsplit_once(':').unwrap_or((&server.local, "0"));
        SocketRecord {
            id: server.id,
            user: slot.user.to_string(),
            database: slot.name.to_string(),
            state: match &server.state {
                ServerState::Up(_, ServerPhase::Idle) if self.is_used(server) => "used",
                ServerState::Up(_, ServerPhase::Idle) => "idle",
                ServerState::Up(
                    _,
                    ServerPhase::Checking | ServerPhase::Resetting(_) | ServerPhase::ConnectQueryAgain,
                ) => "tested",
                _ if server.is_new() => "new",
                ServerState::Up(_, _) if server.cancels > 0 && server.link.is_none() => "being_canceled",
                _ => "active",
            },
            addr,
            port,
            local_addr: local_addr.to_owned(),
            local_port: local_port.parse().unwrap_or(0),
            connect_time: self.common.wall(server.connected_at),
            request_time: self.common.wall(server.linked_at),
            wait: Span::ZERO,
            close_needed: self.is_outdated(server.peer),
            ptr: server.id,
            link: client.map(|c| c.id),
            remote_pid: up.map_or(0, |up| up.cancel_key().pid),
            tls: server.tls.as_ref().map(|tls| tls.description.clone()).unwrap_or_default(),
            application_name: name.unwrap_or_default().to_owned(),
            prepared_statements: up.map_or(0, |up| up.prepared() as u32),
            held_for: client.and(up).and_then(Server::hold_reason),
            transaction_time: began(server.transaction_at),
            query_time: began(server.query_at),
        }
    }
}

/// Whether a server that is free since then is checked before it is handed out; with a delay of 0 each is.
fn is_due(slot: &PoolSlot, since: Time, now: Time) -> bool {
    let settings = slot.pool.settings();
    settings.checks && now.since(since) >= settings.server_check_delay
}

/// Which count of its pool a server that is not free belongs to.
fn linked_count<'r>(record: &'r mut PoolRecord, server: &ServerSlot) -> &'r mut u32 {
    match server.phase() {
        Some(ServerPhase::Resetting(_) | ServerPhase::ConnectQueryAgain | ServerPhase::Checking) => {
            &mut record.sv_tested
        }
        Some(ServerPhase::Linked) if server.cancels > 0 && server.link.is_none() => &mut record.sv_being_canceled,
        _ => &mut record.sv_active,
    }
}

fn client_address(addr: &ClientAddr) -> (String, u16) {
    match addr {
        ClientAddr::Tcp(addr) => (addr.ip().to_string(), addr.port()),
        ClientAddr::Unix { .. } => ("unix".into(), 0),
    }
}

fn target_address(target: &Target) -> (String, u16) {
    match &target.host {
        Host::SocketDir(_) => ("unix".into(), target.port),
        host => (host.to_string(), target.port),
    }
}
