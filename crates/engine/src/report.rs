//! What this worker reports about itself, for the tables of the console.

use std::collections::BTreeMap;

use weir_admin::{DatabaseStats, MemoryRecord, PoolRecord, Report, SocketRecord, Stats};
use weir_base::{ClientAddr, Host, Span, Target, Time};
use weir_pool::ServerState as InPool;

use crate::Engine;
use crate::peers::{ClientSlot, Doing, Phase, PoolIx, ServerSlot, ServerState};

impl Engine {
    /// A snapshot; with `sockets`, of each connection too.
    pub(crate) fn report(&self, now: Time, sockets: bool) -> Report {
        let mut report = Report {
            pools: self.pools.indices().map(|ix| self.pool_record(now, ix)).collect(),
            stats: self.database_stats(now),
            memory: vec![self.memory()],
            ..Report::default()
        };
        for client in self.peers.clients() {
            match client.phase {
                Phase::Console(_) => report.console_clients += 1,
                Phase::Opening { .. } | Phase::Login(_) | Phase::Moving(_) => report.login_clients += 1,
                _ => {}
            }
        }
        self.count_clients(&mut report);
        if sockets {
            report.clients = self.peers.clients().map(|client| self.client_record(now, client)).collect();
            report.servers = self.peers.servers().map(|server| self.server_record(server)).collect();
        }
        report
            .pools
            .retain(|pool| pool.clients() + pool.servers() > 0 || self.config.pools.contains_key(&pool.database));
        report
    }

    fn pool_record(&self, now: Time, ix: PoolIx) -> PoolRecord {
        let slot = self.pools.get(ix);
        let snapshot = slot.pool.snapshot(now);
        let mut record = PoolRecord::new(&*slot.name, &*slot.user, slot.mode());
        record.cl_waiting = snapshot.waiting;
        record.cl_active = slot.clients.saturating_sub(snapshot.waiting);
        let (active, waiting) = self.cancels_of(ix);
        record.cl_waiting_cancel_req = waiting;
        record.sv_active_cancel = active;
        record.sv_login = snapshot.login;
        record.maxwait = snapshot.oldest_wait;
        record.paused = snapshot.paused;
        for (_, state, _) in slot.pool.servers() {
            match state {
                InPool::Idle { since } => {
                    let delay = slot.config.limits.server_check_delay;
                    if !delay.is_zero() && now.since(since) > delay { record.sv_used += 1 } else { record.sv_idle += 1 }
                }
                InPool::Linked(_) => record.sv_active += 1,
                InPool::Login | InPool::Closing => {}
            }
        }
        record
    }

    /// What the pools do not know by themselves: servers that are tested, reset or being cancelled.
    fn count_clients(&self, report: &mut Report) {
        for server in self.peers.servers() {
            let slot = self.pools.get(server.pool);
            let Some(record) = report.pools.iter_mut().find(|r| *r.database == *slot.name && *r.user == *slot.user)
            else {
                continue;
            };
            match server.doing() {
                Some(Doing::Resetting | Doing::Checking) => {
                    record.sv_active = record.sv_active.saturating_sub(1);
                    record.sv_tested += 1;
                }
                Some(Doing::Linked) if server.cancels > 0 && server.link.is_none() => {
                    record.sv_active = record.sv_active.saturating_sub(1);
                    record.sv_being_canceled += 1;
                }
                _ => {}
            }
        }
        for client in self.peers.clients() {
            if let (Phase::Ready(_), true) = (&client.phase, client.pause.waits && client.link.is_none()) {
                debug_assert!(report.pools.iter().any(|r| r.cl_waiting > 0), "a client waits in no pool's queue");
            }
        }
    }

    fn database_stats(&self, now: Time) -> Vec<DatabaseStats> {
        let mut by_name: BTreeMap<&str, DatabaseStats> = BTreeMap::new();
        for slot in self.pools.iter() {
            let entry = by_name.entry(&slot.name).or_insert_with(|| DatabaseStats {
                database: slot.name.to_string(),
                total: Stats::default(),
                previous: Stats::default(),
                period: Span::ZERO,
            });
            entry.total.add(&slot.stats);
            entry.previous.add(&slot.previous);
            entry.period = entry.period.max(now.since(slot.previous_at));
        }
        by_name.into_values().collect()
    }

    fn memory(&self) -> MemoryRecord {
        let used = self.peers.clients().count() as u64;
        MemoryRecord { name: "client_cache", size: size_of::<ClientSlot>() as u64, used, free: 0 }
    }

    fn client_record(&self, now: Time, client: &ClientSlot) -> SocketRecord {
        let (addr, port) = client_address(&client.addr);
        let (database, session) = match &client.phase {
            Phase::Console(console) => (console.database.clone(), None),
            Phase::Ready(session) => (self.pools.get(client.pool).name.to_string(), Some(session)),
            Phase::Login(phase) | Phase::Welcome(phase) => (phase.hello.database.clone(), None),
            _ => (String::new(), None),
        };
        let name = session.and_then(|s| self.shared.params.get(s.params(), "application_name"));
        let waits = client.state() == "waiting";
        let server = client.link.and_then(|link| self.peers.servers().find(|s| s.peer == link));
        SocketRecord {
            id: client.id,
            user: client.user.to_string(),
            database,
            state: client.state(),
            addr,
            port,
            local_addr: self.config.listen.addresses.first().map(ToString::to_string).unwrap_or_default(),
            local_port: self.config.listen.port,
            connect_time: self.wall(client.connected_at),
            request_time: self.wall(client.request_at),
            wait: if waits { now.since(client.request_at) } else { Span::ZERO },
            close_needed: false,
            ptr: client.id,
            link: server.map(|s| s.id),
            remote_pid: if let ClientAddr::Unix { pid, .. } = client.addr { pid } else { 0 },
            tls: String::new(),
            application_name: name.unwrap_or_default().to_owned(),
            prepared_statements: session.map_or(0, |s| s.prepared() as u32),
        }
    }

    fn server_record(&self, server: &ServerSlot) -> SocketRecord {
        let slot = self.pools.get(server.pool);
        let (addr, port) = target_address(&slot.config.target);
        let up = if let ServerState::Up(up, _) = &server.state { Some(up) } else { None };
        let client = server.link.and_then(|link| self.peers.clients().find(|c| c.peer == link));
        let name = up.and_then(|up| self.shared.params.get(up.params(), "application_name"));
        let (local_addr, local_port) = server.local.rsplit_once(':').unwrap_or((&server.local, "0"));
        SocketRecord {
            id: server.id,
            user: slot.user.to_string(),
            database: slot.name.to_string(),
            state: match &server.state {
                ServerState::Connecting | ServerState::Login(_) => "new",
                ServerState::Up(_, Doing::Idle) => "idle",
                ServerState::Up(_, Doing::Checking | Doing::Resetting) => "tested",
                ServerState::Up(_, _) if server.cancels > 0 && server.link.is_none() => "being_canceled",
                ServerState::Up(..) => "active",
            },
            addr,
            port,
            local_addr: local_addr.to_owned(),
            local_port: local_port.parse().unwrap_or(0),
            connect_time: self.wall(server.connected_at),
            request_time: self.wall(server.linked_at),
            wait: Span::ZERO,
            close_needed: server.doomed,
            ptr: server.id,
            link: client.map(|c| c.id),
            remote_pid: up.map_or(0, |up| up.cancel_key().pid),
            tls: String::new(),
            application_name: name.unwrap_or_default().to_owned(),
            prepared_statements: up.map_or(0, |up| up.prepared() as u32),
        }
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
