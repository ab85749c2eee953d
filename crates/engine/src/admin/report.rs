//! A worker's report for the tables of the console and the control plane: pure functions of its tables.

use std::collections::{BTreeMap, HashMap};

use weir_admin::{
    ClientNames, Connections, DatabaseStats, MemoryRecord, PinRecord, PoolRecord, Report, SocketRecord, Symptoms,
    UNREAD, UserClients,
};
use weir_base::{ClientAddr, ConnId, Host, Span, Time};
use weir_pool::ServerState as InPool;
use weir_session::startup::Replication;
use weir_session::{ParamTable, Server};

use crate::admin::client_counts::ClientCounts;
use crate::admin::stream::{MAX_LOOKS, PAGE};
use crate::admin::symptoms::{is_unanswered, symptoms};
use crate::cancel::state::CancelSlot;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::auth_queries::AuthQueries;
use crate::common::Common;
use crate::conns::ConnTable;
use crate::handles::PoolIx;
use crate::lending::state::LendingRole;
use crate::link::statements::ENTRY_BYTES;
use crate::pools::{PoolSlot, Pools};
use crate::server::connection::Connection;
use crate::server::login_throttle::LoginThrottle;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::sessions::Sessions;

/// The input of reports.
pub(crate) struct Tables<'a> {
    pub(crate) common: &'a Common,
    pub(crate) params: &'a ParamTable,
    pub(crate) conns: &'a ConnTable,
    pub(crate) pools: &'a Pools,
    pub(crate) queries: &'a AuthQueries,
    pub(crate) throttle: &'a LoginThrottle,
    /// Whether a server of a pool is lent to another worker.
    pub(crate) is_lent: &'a dyn Fn(ConnId) -> bool,
}

impl Tables<'_> {
    /// The records of pools; pools without clients and servers that are not configured by name are left out.
    pub(crate) fn pools(&self) -> Vec<PoolRecord> {
        let configured = &self.common.config().pools;
        let records = self.pools.indices().into_iter().map(|ix| self.pool(ix));
        records.filter(|pool| pool.clients() + pool.servers() > 0 || configured.contains_key(&pool.database)).collect()
    }

    fn pool(&self, ix: PoolIx) -> PoolRecord {
        let (slot, now) = (self.pools.get(ix), self.common.now());
        let snapshot = slot.pool.snapshot(now);
        let mut record = PoolRecord::new(&*slot.name, &*slot.user, slot.config.policy.mode);
        let asks = if let LendingRole::Owner(lender) = &slot.lending { lender.waiting_requests() } else { 0 };
        // Borrowers report their clients themselves.
        record.cl_waiting = snapshot.waiting - asks;
        let queries = if slot.lookups > 0 { self.queries.waiting(ix) } else { 0 };
        record.cl_active = (slot.clients + queries).saturating_sub(record.cl_waiting);
        record.cl_active_cancel_req = self.cancels_under_way(slot);
        record.cl_waiting_cancel_req = slot.cancels.waiting() as u32;
        record.sv_active_cancel = slot.cancels.under_way().len() as u32;
        record.sv_login = snapshot.login;
        record.maxwait = snapshot.oldest_wait;
        record.statement_bytes = slot.accepted.used();
        record.applications = slot.counts.applications.clone();
        record.symptoms = symptoms(self.common, self.conns, self.throttle, slot);
        record.symptoms.waiting = self.waiting(slot);
        self.count_unanswered(slot, now, &mut record.symptoms);
        self.count_unread(slot, now, &mut record.symptoms);
        for (server, state, _) in slot.pool.servers() {
            match state {
                InPool::Idle { since } if is_used(slot, since, now) => record.sv_used += 1,
                InPool::Idle { .. } => record.sv_idle += 1,
                InPool::Linked(_) => match self.conns.get::<ServerSlot>(server) {
                    Some(slot) => {
                        *linked_count(&mut record, slot) += 1;
                        record.sv_idle_in_transaction += u32::from(slot.is_idle_in_transaction());
                        self.count_pinned(slot, &mut record);
                    }
                    None if (self.is_lent)(server) => {}
                    None => record.sv_active += 1,
                },
                InPool::Login | InPool::Closing => {}
            }
        }
        record
    }

    /// The clients of this worker that wait for a server, by their names. Looks at a bounded number of them.
    fn waiting(&self, slot: &PoolSlot) -> ClientNames {
        let mut names = ClientNames::default();
        let clients =
            slot.pool.waiting().take(MAX_LOOKS as usize).filter_map(|(conn, _)| self.conns.get::<ClientSlot>(conn));
        clients.for_each(|client| names.count(&client.user, client.application(self.params), 1));
        names
    }

    /// Counts a server's client, if it keeps the server for what it has left there.
    fn count_pinned(&self, server: &ServerSlot, record: &mut PoolRecord) {
        let Some(pinned) = &server.pinned else { return };
        record.pinned.count(pinned.kinds());
        if let Some(client) = server.link.and_then(|client| self.conns.get::<ClientSlot>(client)) {
            record.symptoms.pinned_by.count(&client.user, client.application(self.params), 1);
        }
    }

    /// Why a server's client keeps it.
    fn pin_of(&self, server: &ServerSlot) -> Option<Box<PinRecord>> {
        let idle_since = server.is_idle_in_session().then(|| server.clock.received_at());
        server.pinned.as_ref().map(|pinned| Box::new(pinned.record(idle_since, |at| self.common.wall(at))))
    }

    /// The clients of this worker whose request has no answer. Names a bounded number of them.
    fn count_unanswered(&self, slot: &PoolSlot, now: Time, symptoms: &mut Symptoms) {
        for (server, ..) in slot.pool.servers() {
            let Some(server) = self.conns.get::<ServerSlot>(server).filter(|server| is_unanswered(server, now)) else {
                continue;
            };
            symptoms.unanswered += 1;
            if let Some(client) = server.link.and_then(|client| self.conns.get::<ClientSlot>(client)) {
                symptoms.unanswered_by.count(&client.user, client.application(self.params), 1);
            }
        }
    }

    /// The clients of this worker that do not read their results. Names a bounded number of them.
    fn count_unread(&self, slot: &PoolSlot, now: Time, symptoms: &mut Symptoms) {
        for (server, ..) in slot.pool.servers() {
            let Some(server) = self.conns.get::<ServerSlot>(server) else { continue };
            let since = server.unread_since();
            if since == Time::NEVER || now.since(since) < UNREAD {
                continue;
            }
            symptoms.unread += 1;
            if let Some(client) = server.link.and_then(|client| self.conns.get::<ClientSlot>(client)) {
                symptoms.unread_by.count(&client.user, client.application(self.params), 1);
            }
        }
    }

    /// Cancel requests of a pool that are under way; several may share a connection to a server.
    fn cancels_under_way(&self, slot: &PoolSlot) -> u32 {
        let cancels = slot.cancels.under_way().iter().filter_map(|conn| self.conns.get::<CancelSlot>(*conn));
        cancels.map(|cancel| cancel.requesters.len() as u32).sum()
    }

    /// The statistics of databases.
    pub(crate) fn stats(&self) -> Vec<DatabaseStats> {
        let mut by_name: BTreeMap<&str, DatabaseStats> = BTreeMap::new();
        for slot in self.pools.iter() {
            let entry = by_name
                .entry(&slot.name)
                .or_insert_with(|| DatabaseStats { database: slot.name.to_string(), ..DatabaseStats::default() });
            slot.counts.add_to(entry, self.common.now());
        }
        by_name.into_values().collect()
    }

    /// Logged-in clients by user and database. Walks over all of them, and allocates only for each pair of names.
    pub(crate) fn clients_by_user(&self) -> BTreeMap<String, BTreeMap<String, UserClients>> {
        let mut pairs: HashMap<(&str, &str), UserClients> = HashMap::new();
        for client in self.conns.all::<ClientSlot>().filter(|client| client.has_logged_in()) {
            let waiting = u32::from(client.state() == "waiting");
            pairs.entry((&client.user, self.database_of(client))).or_default().add(UserClients { clients: 1, waiting });
        }
        let mut users: BTreeMap<String, BTreeMap<String, UserClients>> = BTreeMap::new();
        for ((user, database), clients) in pairs {
            users.entry(user.to_owned()).or_default().insert(database.to_owned(), clients);
        }
        users
    }

    /// The database of a client, as clients name it; empty while it is unknown.
    fn database_of<'c>(&'c self, client: &'c ClientSlot) -> &'c str {
        match &client.phase {
            ClientPhase::Ready(_) | ClientPhase::Streaming(_) => &self.pools.get(client.pool).name,
            ClientPhase::Delayed(_) => "",
            _ => client.requested_database(),
        }
    }

    /// A page of connections, from slot `from` on, and where to go on. Visits a bounded number of slots.
    pub(crate) fn page(&self, of: Connections, from: u32) -> (Vec<SocketRecord>, Option<u32>) {
        let mut records = Vec::new();
        let end = from.saturating_add(MAX_LOOKS).min(self.conns.slots());
        for slot in from..end {
            if records.len() == PAGE {
                return (records, Some(slot));
            }
            match of {
                Connections::Clients => {
                    records.extend(self.conns.at::<ClientSlot>(slot).map(|client| self.client(client)))
                }
                Connections::Servers => {
                    records.extend(self.conns.at::<ServerSlot>(slot).map(|server| self.server(server)))
                }
            }
        }
        (records, (end < self.conns.slots()).then_some(end))
    }

    fn client(&self, client: &ClientSlot) -> SocketRecord {
        let (addr, port) = client_address(&client.addr, self.common.config().listen.port);
        let session = if let ClientPhase::Ready(session) = &client.phase { Some(session) } else { None };
        let database = self.database_of(client);
        let server = client.link.and_then(|link| self.conns.get::<ServerSlot>(link));
        SocketRecord {
            id: client.id,
            user: client.user.to_string(),
            database: database.to_owned(),
            state: client.state(),
            replication: client.replication().name(),
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
            remote_started: None,
            tls: client.tls.as_ref().map(|tls| tls.description.clone()).unwrap_or_default(),
            application_name: client.application(self.params).to_owned(),
            prepared_statements: session.map_or(0, |s| s.prepared() as u32),
            pinned: server.and_then(|server| self.pin_of(server)),
            ..SocketRecord::default()
        }
    }

    /// How long a client's request has waited for a server, or its query has run.
    fn wait_of(&self, client: &ClientSlot, server: Option<&ServerSlot>) -> Span {
        match server {
            Some(server) if server.clock.query_at() != Time::NEVER => self.common.now().since(server.clock.query_at()),
            None if client.state() == "waiting" => self.common.now().since(client.request_at),
            _ => Span::ZERO,
        }
    }

    /// The address at which a client was accepted, as far as the configuration shows.
    fn local_address(&self, from: &ClientAddr) -> String {
        match from {
            ClientAddr::Unix { .. } => "unix".to_owned(),
            ClientAddr::Tcp(_) => {
                self.common.config().listen.addresses.first().map(ToString::to_string).unwrap_or_default()
            }
        }
    }

    fn server(&self, server: &ServerSlot) -> SocketRecord {
        let slot = self.pools.get(server.pool);
        let (addr, port) = server_address(&server.connection);
        let up = if let ServerState::Up(up, _) = &server.state { Some(up) } else { None };
        let client = server.link.and_then(|link| self.conns.get::<ClientSlot>(link));
        let name = up.and_then(|up| self.params.get(up.params(), "application_name"));
        let began = |at: Time| (server.link.is_some() && at != Time::NEVER).then(|| self.common.wall(at));
        let (local_addr, local_port) =
            server.connection.local().rsplit_once(':').unwrap_or((server.connection.local(), "0"));
        SocketRecord {
            id: server.id,
            user: slot.user.to_string(),
            database: slot.name.to_string(),
            state: self.server_state(server),
            replication: server.dedicated.as_ref().map_or(Replication::None, |it| it.replication).name(),
            addr,
            port,
            local_addr: local_addr.to_owned(),
            local_port: local_port.parse().unwrap_or(0),
            connect_time: self.common.wall(server.connection.connected_at()),
            request_time: self.common.wall(server.clock.linked_at()),
            wait: Span::ZERO,
            close_needed: is_outdated(self.conns, self.pools, server.conn),
            ptr: server.id,
            link: client.map(|c| c.id),
            remote_pid: up.map_or(0, |up| up.cancel_key().pid),
            remote_started: up.and_then(|up| up.started()),
            tls: server.connection.tls().map(|tls| tls.description.clone()).unwrap_or_default(),
            application_name: name.unwrap_or_default().to_owned(),
            prepared_statements: up.map_or(0, |up| up.prepared() as u32),
            held_for: client.and(up).and_then(Server::hold_reason),
            pinned: self.pin_of(server),
            transaction_time: began(server.clock.transaction_at()),
            query_time: began(server.clock.query_at()),
        }
    }

    /// A server's state in SHOW SERVERS.
    fn server_state(&self, server: &ServerSlot) -> &'static str {
        let slot = self.pools.get(server.pool);
        let free_since = slot.pool.free_since(server.conn);
        match &server.state {
            ServerState::Up(_, ServerPhase::Idle)
                if free_since.is_some_and(|since| is_used(slot, since, self.common.now())) =>
            {
                "used"
            }
            ServerState::Up(_, ServerPhase::Idle) => "idle",
            ServerState::Up(
                _,
                ServerPhase::Checking
                | ServerPhase::CheckingRoleAgain
                | ServerPhase::Resetting(_)
                | ServerPhase::ConnectQueryAgain,
            ) => "tested",
            _ if server.is_new() => "new",
            ServerState::Up(_, _) if server.cancels > 0 && server.link.is_none() => "being_canceled",
            _ => "active",
        }
    }
}

/// Whether a server is marked for close (`close_needed`).
pub(crate) fn is_outdated(conns: &ConnTable, pools: &Pools, server: ConnId) -> bool {
    let Some(slot) = conns.get::<ServerSlot>(server) else { return false };
    slot.closes || pools.get(slot.pool).pool.is_outdated(server)
}

/// The memory of clients and statements.
pub(crate) fn memory(counts: ClientCounts, sessions: &Sessions) -> Vec<MemoryRecord> {
    let clients = u64::from(counts.all());
    // What `statement_memory` limits, in KiB: the column holds 31 bits.
    let statements = sessions.interner.used().div_ceil(1024);
    let recorded = sessions.statements.traffic().used().div_ceil(1024) as u64;
    let counted = sessions.statements.totals();
    let mut memory = vec![
        MemoryRecord { name: "client_cache", size: size_of::<ClientSlot>() as u64, used: clients, free: 0 },
        MemoryRecord { name: "statement_memory", size: 1024, used: statements, free: 0 },
    ];
    if counted.capacity > 0 {
        let free = counted.capacity - counted.tracked;
        memory.push(MemoryRecord { name: "track_statements", size: ENTRY_BYTES, used: counted.tracked, free });
    }
    if recorded > 0 {
        memory.push(MemoryRecord { name: "traffic_record", size: 1024, used: recorded, free: 0 });
    }
    memory
}

/// Completes a report with what needs the tables.
pub(crate) fn with_tables(report: Report, tables: &Tables<'_>, by_user: bool) -> Report {
    Report {
        pools: tables.pools(),
        stats: tables.stats(),
        clients_by_user: if by_user { tables.clients_by_user() } else { BTreeMap::new() },
        ..report
    }
}

/// Whether a server that is idle since then is checked before it is handed out; with a delay of 0 each is.
fn is_used(slot: &PoolSlot, since: Time, now: Time) -> bool {
    let settings = slot.pool.settings();
    settings.checks && now.since(since) >= settings.server_check_delay
}

/// The counter of its pool for a server that is not idle.
fn linked_count<'r>(record: &'r mut PoolRecord, server: &ServerSlot) -> &'r mut u32 {
    match server.phase() {
        Some(
            ServerPhase::Resetting(_)
            | ServerPhase::ConnectQueryAgain
            | ServerPhase::Checking
            | ServerPhase::CheckingRoleAgain,
        ) => &mut record.sv_tested,
        Some(ServerPhase::Linked) if server.cancels > 0 && server.link.is_none() => &mut record.sv_being_canceled,
        _ => &mut record.sv_active,
    }
}

/// A client's address and port; on the Unix socket the port is that of its name.
fn client_address(addr: &ClientAddr, listen_port: u16) -> (String, u16) {
    match addr {
        ClientAddr::Tcp(addr) => (addr.ip().to_string(), addr.port()),
        ClientAddr::Unix { .. } => ("unix".into(), listen_port),
    }
}

/// A server's address, also where the configuration has a name, and its port.
fn server_address(connection: &Connection) -> (String, u16) {
    let target = connection.target();
    let addr = match (&target.host, connection.remote()) {
        (Host::SocketDir(_), _) => "unix".into(),
        (Host::Name(_), Some(ip)) => ip.to_string(),
        (host, _) => host.to_string(),
    };
    (addr, target.port)
}
