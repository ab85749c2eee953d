//! The effects and the results of each command.

use weir_pgwire::tag::back;

use super::{Code, CopyIn, Core, Transaction};
use crate::postgres::language::Command;
use crate::postgres::login;
use crate::reply::Reply;

impl Core {
    /// Runs a command for at most `limit` rows, starting with row `position`.
    pub(super) fn run(&mut self, command: &Command, limit: u64, position: &mut u64) -> Result<(), Code> {
        self.begin_saving();
        match command {
            Command::Rows { count, width, token } => self.run_rows(*count, *width, token, limit, position),
            Command::Echo(text) => self.one_row(Reply::Row(text.clone()), limit, position),
            Command::WhoAmI => self.one_row(Reply::State(self.leftovers()), limit, position),
            Command::UnlockAll => {
                self.locks.clear();
                self.one_row(Reply::Row(String::new()), limit, position);
            }
            Command::NextVal(value) => {
                // No rollback undoes it.
                (self.drawn, self.has_just_drawn) = (Some(value.clone()), true);
                self.one_row(Reply::Row(value.clone()), limit, position);
            }
            Command::LastVal => {
                self.has_asked = true;
                let value = self.drawn.clone().ok_or("55000")?;
                self.one_row(Reply::Row(value), limit, position);
            }
            Command::Left(kinds) => self.run_left(kinds),
            Command::Select => self.one_row(Reply::Row(String::new()), limit, position),
            Command::Show(name) => {
                let value = self.settings.get(name).ok_or("42704")?.to_owned();
                self.one_row(Reply::Row(value), limit, position);
            }
            Command::Sleep { micros, token } => {
                if *position > 0 {
                    self.complete("SELECT 0");
                } else {
                    *position = 1;
                    self.sleeping = Some((*micros, token.clone()));
                }
            }
            Command::CopyIn(_) => {
                self.out.push_back(Reply::Bare(back::COPY_IN));
                self.copy = Some(CopyIn { lines: 0 });
                self.flush = true;
            }
            Command::CopyOut { count, width, token } => {
                let (count, width) = (*count, *width);
                self.out.push_back(Reply::Bare(back::COPY_OUT));
                self.out.push_back(Reply::CopyRows { token: token.clone(), width, next: 0, end: count });
                self.out.push_back(Reply::Bare(back::COPY_DONE));
                self.complete(&format!("COPY {count}"));
            }
            Command::Lookup(user) => match login::stored_secret(user) {
                Some(_) => self.one_row(Reply::Secret(user.clone()), limit, position),
                None => self.complete("SELECT 0"),
            },
            Command::ExecutePrepared(name) => {
                let own = self.statements.get(name).map(|statement| &statement.text);
                let text = self.sql_prepared.get(name).or(own).ok_or("26000")?;
                // A row count that tells which statement it was.
                let rows = text.bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
                self.complete(&format!("SELECT {rows}"));
            }
            Command::Fail(_) => return Err("22012"),
            _ => return self.utility(command),
        }
        Ok(())
    }

    fn run_left(&mut self, kinds: &[String]) {
        let there = |kind: &str| match kind {
            "*prepare" => !self.sql_prepared.is_empty(),
            "*temp" => !self.tables.is_empty(),
            "*lock" => !self.locks.is_empty(),
            _ => false,
        };
        let mut rows: Vec<_> =
            kinds.iter().filter(|kind| there(kind)).map(|kind| (kind.clone(), String::new())).collect();
        if kinds.iter().any(|kind| kind == "*listen") {
            rows.extend(self.listens.iter().map(|channel| ("*listen".to_owned(), channel.clone())));
        }
        if kinds.iter().any(|kind| kind == "*settings") {
            let listed = self.settings.of_session().filter(|(name, _)| !name.contains('.'));
            rows.extend(listed.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        for names in kinds.iter().filter(|kind| kind.starts_with('{')) {
            let is_named = |name: &str| names.trim_matches(['{', '}']).split(',').any(|known| known == name);
            let named = self.settings.of_session().filter(|(name, _)| name.contains('.') && is_named(name));
            rows.extend(named.map(|(name, value)| ("*set".to_owned(), format!("{name}={value}"))));
        }
        if kinds.iter().any(|kind| kind == "*bodies") {
            // Now and then somebody changes a function past the pool.
            self.bodies_asked += 1;
            let counts = self.bodies_asked.is_multiple_of(16);
            rows.extend(counts.then(|| ("*bodies".to_owned(), format!("here/{}", self.bodies_asked))));
        }
        let count = rows.len();
        self.out.extend(rows.into_iter().map(|(name, value)| Reply::Pair(name, value)));
        self.complete(&format!("SELECT {count}"));
    }

    fn one_row(&mut self, row: Reply, limit: u64, position: &mut u64) {
        if *position == 0 {
            self.out.push_back(row);
            *position = 1;
            if limit == 1 {
                self.out.push_back(Reply::Bare(back::PORTAL_SUSPENDED));
            } else {
                self.complete("SELECT 1");
            }
        } else {
            self.complete("SELECT 0");
        }
    }

    fn run_rows(&mut self, count: u64, width: u64, token: &str, limit: u64, position: &mut u64) {
        let next = (*position).min(count);
        let end = next.saturating_add(limit).min(count);
        *position = end;
        self.out.push_back(Reply::Rows { token: token.to_owned(), width, next, end });
        if end - next == limit {
            self.out.push_back(Reply::Bare(back::PORTAL_SUSPENDED));
        } else {
            self.complete(&format!("SELECT {}", end - next));
        }
    }

    /// Runs a command that changes the session and returns no rows.
    fn utility(&mut self, command: &Command) -> Result<(), Code> {
        let tag = match command {
            Command::Begin => self.begin(),
            Command::Commit => self.commit_command(),
            Command::Rollback => self.rollback_command(),
            Command::Write => "INSERT 0 1",
            Command::Nothing(tag) => tag,
            Command::DiscardSequences => {
                self.drawn = None;
                "DISCARD SEQUENCES"
            }
            Command::DiscardTemp => {
                self.tables.clear();
                "DISCARD TEMP"
            }
            Command::Set { name, value, local } => {
                if *local && self.transaction == Transaction::Idle && self.rest.is_empty() {
                    self.out.push_back(Reply::Warning("25P01"));
                }
                self.settings.set(name, value, *local)?;
                "SET"
            }
            Command::Reset(name) => {
                self.settings.reset(name)?;
                "RESET"
            }
            Command::ResetAll => {
                self.settings.reset_all();
                "RESET"
            }
            Command::DiscardAll => self.discard_all()?,
            Command::Listen(channel) => {
                self.listens.insert(channel.clone());
                self.has_listened = true;
                "LISTEN"
            }
            Command::Unlisten(channel) => {
                self.listens.retain(|listened| channel.as_ref().is_some_and(|channel| channel != listened));
                "UNLISTEN"
            }
            Command::Notify { channel, payload } => {
                self.pending.push((channel.clone(), payload.clone()));
                "NOTIFY"
            }
            Command::TempTable(name) => {
                if !self.tables.insert(name.clone()) {
                    return Err("42P07");
                }
                "CREATE TABLE"
            }
            Command::TempTableOfQuery(name) => {
                if !self.tables.insert(name.clone()) {
                    return Err("42P07");
                }
                "SELECT 1"
            }
            Command::Lock(name) => {
                self.locks.insert(name.clone());
                "SELECT 1"
            }
            _ => self.sql_statements(command)?,
        };
        self.complete(tag);
        Ok(())
    }

    /// PREPARE and DEALLOCATE, which share the names of the protocol's statements.
    fn sql_statements(&mut self, command: &Command) -> Result<&'static str, Code> {
        Ok(match command {
            Command::Prepare { name, text } => {
                if self.sql_prepared.contains_key(name) || self.statements.contains_key(name) {
                    return Err("42P05");
                }
                self.sql_prepared.insert(name.clone(), text.clone());
                "PREPARE"
            }
            Command::Deallocate(name) => {
                let sql = self.sql_prepared.remove(name).is_some();
                if !sql && self.statements.remove(name).is_none() {
                    return Err("26000");
                }
                "DEALLOCATE"
            }
            _ => {
                self.forget_statements();
                "DEALLOCATE ALL"
            }
        })
    }

    /// Drops all named statements and keeps the unnamed one (PostgreSQL's `DropAllPreparedStatements`).
    fn forget_statements(&mut self) {
        self.sql_prepared.clear();
        self.statements.retain(|name, _| name.is_empty());
    }

    fn discard_all(&mut self) -> Result<&'static str, Code> {
        if self.transaction != Transaction::Idle || !self.rest.is_empty() {
            return Err("25001");
        }
        self.settings.reset_all();
        self.forget_statements();
        // The portal that runs the command survives it.
        self.portals.clear();
        self.listens.clear();
        self.tables.clear();
        self.locks.clear();
        self.drawn = None;
        Ok("DISCARD ALL")
    }

    fn begin(&mut self) -> &'static str {
        if self.transaction == Transaction::Open {
            self.out.push_back(Reply::Warning("25001"));
        }
        self.transaction = Transaction::Open;
        "BEGIN"
    }

    fn commit_command(&mut self) -> &'static str {
        match self.transaction {
            Transaction::Failed => return self.rollback_command(),
            Transaction::Idle => self.out.push_back(Reply::Warning("25P01")),
            Transaction::Open => {}
        }
        self.transaction = Transaction::Idle;
        self.commit();
        "COMMIT"
    }

    fn rollback_command(&mut self) -> &'static str {
        if self.transaction == Transaction::Idle {
            self.out.push_back(Reply::Warning("25P01"));
        }
        self.rollback();
        self.transaction = Transaction::Idle;
        "ROLLBACK"
    }
}
