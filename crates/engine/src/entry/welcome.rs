//! What a client is told when it has proven who it is: about its server, or as an operator.

use std::sync::Arc;

use weir_base::Time;
use weir_pgwire::{ErrorFields, put_back};
use weir_pool::Acquire;
use weir_session::hello::Hello;
use weir_session::{Client, Params, Refusal};

use crate::Engine;
use crate::admin::console_state::Console;
use crate::cluster::lending::Learnings;
use crate::common::FollowUp;
use crate::entry::reported::Welcome;
use crate::entry::state::{LoginPhase, Verdict};
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::{Io, Level};

impl Engine {
    /// The client is who it says it is: may it come in here?
    pub(crate) fn proven<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, io: &mut I) {
        let ClientPhase::Login(phase) = &client.phase else { return self.insert_client(client) };
        let refusal = match phase.console {
            true => self.role_of(&client).is_none().then_some(Refusal::NotAllowed),
            false => {
                let name = &phase.hello.database;
                let disabled =
                    || self.admin.halt.disabled.contains(name).then(|| Refusal::DatabaseDisabled(name.clone()));
                let unknown =
                    || self.common.config().pool(name).is_none().then(|| Refusal::NoSuchDatabase(name.clone()));
                unknown().or_else(disabled)
            }
        };
        match refusal {
            Some(refusal) => self.refuse(now, client, refusal, io),
            None => self.enter(now, client, io),
        }
    }

    /// The client is in: from now on it counts.
    pub(crate) fn entered<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let ClientPhase::Login(phase) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else {
            return self.insert_client(client);
        };
        if phase.console {
            return self.open_console(now, client, &phase.hello, io);
        }
        let Some(config) = self.common.config().pool(&phase.hello.database) else {
            return self.refuse(now, client, Refusal::NoSuchDatabase(phase.hello.database.clone()), io);
        };
        let own = config.user.is_none() || config.user.as_deref() == Some(&phase.hello.user);
        let user = config.user.clone().unwrap_or_else(|| phase.hello.user.clone());
        let ix = self.pool_of(&phase.hello.database, &config, &user, now);
        client.pool = ix;
        self.count_client(ix, 1);
        let slot = self.pools.get_mut(ix);
        if own {
            let asked = phase.said.as_ref().and_then(Verdict::secret);
            slot.learns(&phase.learnt, &asked);
            if slot.lending.is_borrower() {
                self.teach(ix, Learnings { learnt: phase.learnt.clone(), asked }, io);
            }
        }
        let slot = self.pools.get_mut(ix);
        if let Some(welcome) = slot.welcome.clone() {
            return self.welcome(now, client, phase, &welcome, io);
        }
        client.request_at = now;
        client.phase = ClientPhase::Welcome(phase);
        match slot.pool.acquire(client.peer, now) {
            Acquire::Granted { server, check } => {
                let peer = client.peer;
                self.wait_more(client, io);
                self.grant(now, peer, server, check, io);
            }
            Acquire::Queued => self.wait_more(client, io),
            Acquire::Refused(why) => {
                let refusal = self.refusal(ix, why);
                self.refuse(now, client, refusal, io);
            }
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// Tells a client what it may know of its server; from now on it may ask.
    pub(crate) fn welcome<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        phase: Box<LoginPhase>,
        welcome: &Welcome,
        io: &mut I,
    ) {
        let table = &self.sessions.params;
        let mut wanted = match phase.hello.wanted(table, &self.common.config().ignore_startup_parameters) {
            Ok(wanted) => wanted,
            Err(refusal) => return self.refuse(now, client, refusal, io),
        };
        if self.common.config().application_name_add_host {
            let name = format!("{} - {}", phase.hello.param("application_name").unwrap_or("app"), client.addr);
            // A name that grew too long stays what it was.
            let _ = table.set(&mut wanted, "application_name", &name);
        }
        table.fill(&mut wanted, &welcome.params);
        let params: Arc<Params> = if wanted == *welcome.params { welcome.params.clone() } else { Arc::new(wanted) };
        let mut buffer = Vec::with_capacity(512);
        put_back::auth_ok(&mut buffer);
        welcome.told.write(&mut buffer, &params);
        let pid = crate::traffic::cancel_key::pid_of(self.common.worker(), client.peer);
        put_back::backend_key_data(&mut buffer, pid, client.cancel.issue(phase.hello.minor));
        if !self.common.config().login_notify_message.is_empty() {
            let message = &self.common.config().login_notify_message;
            let fields = ErrorFields { severity: "NOTICE", sqlstate: "00000", message, detail: None, hint: None };
            put_back::notice(&mut buffer, &fields);
        }
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
        let slot = self.pools.get_mut(client.pool);
        slot.tally.logins += 1;
        client.phase = ClientPhase::Ready(Client::new(client.id, slot.mode(), params));
        client.request_at = now;
        let name = slot.name.clone();
        self.say_login(&client, &name, io);
        let peer = client.peer;
        self.unpause_client(&mut client, io);
        let ahead = !client.waiting.is_empty();
        self.insert_client(client);
        if ahead {
            self.common.follow_up(FollowUp::Feed(peer));
        }
    }

    /// PgBouncer calls it an attempt; it is said once the client is in.
    fn say_login<I: Io>(&self, client: &ClientSlot, database: &str, io: &mut I) {
        if self.common.config().log.connections {
            let tls = client.tls.as_ref().map_or("no", |tls| &tls.description);
            self.log_client(
                Level::Info,
                client,
                format_args!("login attempt: db={database} user={} tls={tls}", client.user),
                io,
            );
        }
    }

    fn open_console<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, hello: &Hello, io: &mut I) {
        // A reload may have taken it away since.
        let Some(role) = self.role_of(&client) else { return self.refuse(now, client, Refusal::NotAllowed, io) };
        let mut buffer = Vec::new();
        put_back::auth_ok(&mut buffer);
        let fixed = [("server_version", "1.25.2/weir"), ("client_encoding", "UTF8"), ("server_encoding", "UTF8")];
        let more =
            [("DateStyle", "ISO"), ("TimeZone", "GMT"), ("standard_conforming_strings", "on"), ("is_superuser", "on")];
        for (name, value) in fixed.into_iter().chain(more) {
            put_back::parameter_status(&mut buffer, name, value);
        }
        let pid = crate::traffic::cancel_key::pid_of(self.common.worker(), client.peer);
        put_back::backend_key_data(&mut buffer, pid, client.cancel.issue(hello.minor));
        put_back::ready(&mut buffer, b'I');
        io.send(client.peer, &buffer);
        client.phase = ClientPhase::Console(Box::new(Console::new(role, hello.database.clone())));
        self.admin.client_counts.became(&client.phase);
        client.request_at = now;
        self.say_login(&client, &hello.database, io);
        let ahead = !client.waiting.is_empty();
        let peer = client.peer;
        self.insert_client(client);
        if ahead {
            self.common.follow_up(FollowUp::Feed(peer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::reported::Told;
    use weir_session::ParamTable;

    #[test]
    fn a_client_is_told_what_the_server_said_but_where_it_has_a_value_of_its_own() {
        let table = ParamTable::new([]);
        let reported =
            [("server_version", "15.1"), ("TimeZone", "UTC"), ("application_name", ""), ("is_superuser", "off")];
        let told = Told::new(&table, reported.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let with = |values: &[(&str, &str)]| {
            let mut params = table.unknown();
            values.iter().for_each(|(name, value)| table.set(&mut params, name, value).unwrap());
            let mut buffer = Vec::new();
            told.write(&mut buffer, &params);
            buffer
        };
        let expected = |values: [&str; 4]| {
            let mut buffer = Vec::new();
            for ((name, _), value) in reported.iter().zip(values) {
                put_back::parameter_status(&mut buffer, name, value);
            }
            buffer
        };
        assert_eq!(with(&[]), expected(["15.1", "UTC", "", "off"]));
        assert_eq!(with(&[("timezone", "UTC")]), expected(["15.1", "UTC", "", "off"]));
        assert_eq!(with(&[("application_name", "a"), ("TimeZone", "CET")]), expected(["15.1", "CET", "a", "off"]));
    }
}
