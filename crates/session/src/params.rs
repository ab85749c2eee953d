//! Tracked parameters: the values of each client and each server, and the query that makes them agree.
//!
//! Owns the list of tracked names and the comparison of two sets of values. Must not know when a link is made.
//!
//! A parameter that a server reports by ParameterStatus is known in the server's own spelling. Which ones are reported
//! depends on the server's version (PostgreSQL documentation, "Asynchronous Operations"). The others have on a server
//! the value that we last set, and its default before.
//!
//! Sessions with equal values share one allocation, so the usual comparison is that of two pointers.

use std::fmt::Write as _;
use std::sync::Arc;

use weir_pgwire::sql;

use crate::spelling;
use crate::unlisted::{self, Unlisted};
pub use crate::untracked::BadParam;
use crate::untracked::Untracked;

/// What PgBouncer tracks, IntervalStyle included, and what common drivers and frameworks send at startup.
const TRACKED: [&str; 20] = [
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "standard_conforming_strings",
    "IntervalStyle",
    "search_path",
    "extra_float_digits",
    "bytea_output",
    "geqo",
    "jit",
    "application_name",
    "statement_timeout",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "default_transaction_deferrable",
    "lc_messages",
    "row_security",
    IDENTITY,
];

/// The first of [`TRACKED`], which decide how a statement's literals and names are read when it is parsed, what its
/// constants are folded to, or how it is planned. So does, for all that is known, every other one but the rest of
/// [`TRACKED`].
const READ_BY: usize = 10;

/// Reported from PostgreSQL 14 on; it describes a server as well as a session. When an operator makes a primary
/// read-only, every session of it reports so. A client that adopted that would carry it to the next primary. So a report
/// is about what the client has done only if the client has sent a text that names the parameter.
const OF_THE_SERVER: usize = 15;

/// The user as whom a session acts. A client can change it for its session, but not at its login, and it is the last
/// one that is set: what is set before is set as the pool's user.
const IDENTITY: &str = "session_authorization";

/// The most parameters that can be tracked.
const MAX_TRACKED: usize = 64;

/// The longest value that is kept for a client; a startup packet holds 10,000 bytes at most.
const MAX_VALUE: usize = 10_000;

/// A value that no client can set, so that it agrees with none.
const DOUBTFUL: &str = "\u{1}";

/// What a ParameterStatus is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reported {
    /// Not a parameter that follows its client.
    Untracked,
    /// A parameter that the table does not list, and that may follow its client.
    Unlisted,
    /// A parameter that follows its client.
    Tracked,
    /// One of these by which a text is also parsed.
    ParseEnvironment,
}

/// Which parameters are tracked, in a fixed order; the same for all sessions of a worker.
#[derive(Debug)]
pub struct ParamTable {
    names: Vec<Box<str>>,
}

/// The values of one client or one server, by the table's order. Shared between all whose values agree; a set of its
/// own shares the values that came from a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Params {
    values: Vec<Option<Arc<str>>>,
    /// Which values the server reports itself, a bit each.
    reported: u64,
    /// The parameters that are not listed and that a client has set.
    untracked: Untracked,
    /// The parameters that the server reports although they are not listed.
    unlisted: Unlisted,
}

/// What a client wants of its server.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) params: &'a Arc<Params>,
    /// Which parameters are the client's own, a bit each.
    pub(crate) own: u64,
}

/// What a server has.
pub(crate) struct Has<'a> {
    pub(crate) params: &'a mut Arc<Params>,
    /// What the server has where no client has set anything.
    pub(crate) base: &'a Params,
    /// Which of these values the server's connect_query has set, a bit each.
    pub(crate) base_is_set: u64,
}

impl ParamTable {
    /// The built-in list and the operator's `track_extra_parameters`, 64 names at the most.
    pub fn new<'a>(extra: impl IntoIterator<Item = &'a str>) -> Self {
        let mut table = ParamTable { names: Vec::new() };
        for name in TRACKED.into_iter().chain(extra) {
            if table.index(name).is_none() && table.names.len() < MAX_TRACKED {
                table.names.push(name.into());
            }
        }
        table
    }

    /// A set in which no value is known.
    pub fn unknown(&self) -> Params {
        Params { values: vec![None; self.names.len()], ..Params::default() }
    }

    /// Sets a parameter in `params`; names are compared without case.
    pub fn set(&self, params: &mut Params, name: &str, value: &str) -> Result<(), BadParam> {
        let index = self.index(name).filter(|_| !name.eq_ignore_ascii_case(IDENTITY)).ok_or(BadParam::Unknown)?;
        if value.len() > MAX_VALUE {
            return Err(BadParam::Value);
        }
        let merged = params.at(1).filter(|_| index == 1).map(|before| spelling::date_style_behind(before, value));
        let value = merged.as_deref().unwrap_or(value);
        let value = spelling::of_server(name, value).unwrap_or(value);
        let value = if self.names[index].eq_ignore_ascii_case("application_name") {
            // As PostgreSQL itself does to this one (guc.c, check_application_name), so that the spelling agrees.
            value.chars().map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect::<String>().into()
        } else if value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            value.into()
        } else {
            return Err(BadParam::Value);
        };
        params.values[index] = Some(value);
        Ok(())
    }

    /// Sets an untracked parameter in a client's `params`: it is set on each server that the client gets.
    ///
    /// # Errors
    /// [`BadParam::Unknown`] for a name that can't follow a client.
    pub fn set_untracked(&self, params: &mut Params, name: &str, value: &str) -> Result<(), BadParam> {
        if value.len() > MAX_VALUE || !value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return Err(BadParam::Value);
        }
        params.untracked.set(name, value)
    }

    /// Sets a parameter to a value that it has had before, maybe with another table.
    ///
    /// # Errors
    /// [`BadParam::Unknown`] for a name that is not tracked and can't follow a client.
    pub(crate) fn restore(&self, params: &mut Params, name: &str, value: &str) -> Result<(), BadParam> {
        match self.index(name) {
            Some(index) => params.values[index] = Some(value.into()),
            None => params.untracked.restore(name, value)?,
        }
        Ok(())
    }

    /// The names of the parameters at these places, a bit each, and of those that are not tracked.
    pub(crate) fn names_of<'p>(&'p self, places: u64, params: &'p Params) -> impl Iterator<Item = &'p str> {
        let tracked = (0..self.len()).filter(move |place| places >> place & 1 == 1).map(|place| self.name(place));
        tracked.chain(params.untracked.iter().map(|(name, _)| name))
    }

    /// The places of the tracked ones among these names, a bit each.
    pub(crate) fn places_of<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> u64 {
        names.into_iter().filter_map(|name| self.place(name)).fold(0, |places, place| places | 1 << place)
    }

    /// Whether a server's reports are in UTF-8.
    pub(crate) fn is_utf8(&self, server: &Params) -> bool {
        self.get(server, TRACKED[0]).is_some_and(|encoding| encoding.eq_ignore_ascii_case("UTF8"))
    }

    /// Whether a parameter of this name is tracked.
    pub fn is_tracked(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// Whether a parameter follows its client from this server to its next one once the client has changed it.
    pub fn follows(&self, server: &Params, name: &str) -> bool {
        match self.index(name) {
            Some(index) => server.reports(index),
            None => server.reports_all(0, &[name.into()]),
        }
    }

    /// The value of a parameter, if it is known.
    pub fn get<'p>(&self, params: &'p Params, name: &str) -> Option<&'p str> {
        params.values[self.index(name)?].as_deref()
    }

    /// The place of a parameter in every set; `None` where it is not tracked.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.index(name)
    }

    /// Completes what a client has asked for and a server adds to from its own value, as to a DateStyle without an order. Set
    /// again as it was given, it would be completed from what another client has left there.
    pub fn complete(&self, params: &mut Params, server: &Params) {
        if let (Some(given), Some(has)) = (self.get(params, TRACKED[1]), self.get(server, TRACKED[1]))
            && let Some(spelled) = spelling::date_style(given, has)
        {
            params.values[1] = Some(spelled.into());
        }
    }

    /// Fills the unknown values of `params` from a server's report.
    pub fn fill(&self, params: &mut Params, server: &Params) {
        params.reported = server.reported;
        params.unlisted.clone_from(&server.unlisted);
        self.complete(params, server);
        for index in 0..self.names.len() {
            if params.values[index].is_none() && server.reports(index) {
                params.values[index].clone_from(&server.values[index]);
            }
        }
    }

    /// Every known value with its name.
    pub fn iter<'p>(&'p self, params: &'p Params) -> impl Iterator<Item = (&'p str, &'p str)> {
        let known = self.names.iter().zip(&params.values);
        known.filter_map(|(name, value)| Some((&**name, value.as_deref()?))).chain(params.untracked.iter())
    }

    /// The values by which a text is parsed and planned, of a client that has asked for some at its login. A setting with a
    /// name of two parts decides no plan, unless it is one that an extension needs from the start; `custom`: unless it does.
    pub(crate) fn read_by<'p>(
        &self,
        params: &'p Params,
        asked: &'p Params,
        custom: bool,
    ) -> impl Iterator<Item = &'p str> {
        let values = params.values.iter().enumerate().filter(|(index, _)| is_read_by(*index));
        let tracked = values.map(|(_, value)| value.as_deref().unwrap_or_default());
        let decides = move |name: &str| custom || !name.contains('.') || asked.untracked.get(name).is_some();
        let untracked = params.untracked.iter().filter(move |(name, _)| decides(name));
        tracked.chain(untracked.flat_map(|(name, value)| [name, value]))
    }

    /// The names of two parts that are set, and that a server does not report.
    pub(crate) fn custom<'p>(&'p self, params: &'p Params) -> impl Iterator<Item = &'p str> {
        self.unreported(params).filter(|name| name.contains('.'))
    }

    /// Whether settings of the planner are set that may make any query seem expensive: PostgreSQL compiles those.
    pub(crate) fn weighs_plans(&self, params: &Params) -> bool {
        self.unreported(params).any(sql::weighs_plans)
    }

    /// The names of what is set, and what a server does not report.
    fn unreported<'p>(&'p self, params: &'p Params) -> impl Iterator<Item = &'p str> {
        let set = |index: &usize| params.values[*index].is_some() && !params.reports(*index);
        let tracked = (0..self.names.len()).filter(set).map(|index| &*self.names[index]);
        tracked.chain(params.untracked.iter().map(|(name, _)| name))
    }

    /// The parameters that a server reports, with their values.
    pub fn reported<'p>(&'p self, server: &'p Params) -> impl Iterator<Item = (&'p str, &'p str)> {
        let known = self.names.iter().zip(&server.values).enumerate();
        known.filter_map(|(index, (name, value))| server.reports(index).then_some((&**name, value.as_deref()?)))
    }

    /// Makes a server agree with a client: writes the query that does it into `query`, and the assumed result into
    /// the server's set. Returns whether there is anything to do. A value that is not the client's own is the server's
    /// default, and never set; except where the server's connect_query has set it.
    pub(crate) fn agree(&self, wanted: Wanted<'_>, has: Has<'_>, query: &mut String) -> bool {
        let Has { params: server, base, base_is_set } = has;
        let Wanted { params: client, own } = wanted;
        if ParamTable::are_shared(wanted, server, base) {
            return false;
        }
        query.clear();
        let mut outcome: Option<Params> = None;
        for (index, name) in self.names.iter().enumerate() {
            let (reported, own) = (server.reports(index), own >> index & 1 == 1);
            let none = None;
            let wanted = match own {
                true => &client.values[index],
                false if reported => &base.values[index],
                false => &none,
            };
            if *wanted == server.values[index] || (wanted.is_none() && reported) {
                continue;
            }
            let set = own || base_is_set >> index & 1 == 1;
            set_query(query, name, wanted.as_deref().filter(|_| set));
            if !reported {
                outcome.get_or_insert_with(|| (**server).clone()).values[index].clone_from(wanted);
            }
        }
        if client.untracked != server.untracked {
            Untracked::differences(&client.untracked, &server.untracked)
                .for_each(|(name, value)| untracked_query(query, name, value));
            outcome.get_or_insert_with(|| (**server).clone()).untracked = client.untracked.clone();
        }
        if let Some(outcome) = outcome {
            *server = Arc::new(outcome);
        }
        !query.is_empty()
    }

    /// A client and a server that agree share one set from now on. If both hold the same values, the set with the lower
    /// address is kept: an order, so a pool's clients and servers end with a single set in whatever order they are
    /// linked, and their comparison with that of two pointers.
    pub(crate) fn share(client: &mut Arc<Params>, server: &mut Arc<Params>) {
        if Arc::as_ptr(client) < Arc::as_ptr(server) && client == server {
            server.clone_from(client);
        } else {
            client.clone_from(server);
        }
    }

    /// How many parameters there are.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// The name of the parameter at a place.
    pub(crate) fn name(&self, place: usize) -> &str {
        &self.names[place]
    }

    /// Copies the value at a place.
    pub(crate) fn copy(to: &mut Arc<Params>, from: &Params, place: usize) {
        if to.at(place) != from.at(place) {
            Arc::make_mut(to).values[place].clone_from(&from.values[place]);
        }
    }

    /// The place of a parameter that a server reports, and that follows its client.
    pub(crate) fn place_of_reported(&self, server: &Params, name: &str) -> Option<usize> {
        self.index(name).filter(|index| server.reports(*index))
    }

    /// Takes a ParameterStatus into a server's set. Returns which kind of parameter it is about.
    pub(crate) fn report(&self, server: &mut Arc<Params>, name: &str, value: &str) -> Reported {
        let Some(index) = self.index(name) else {
            return if server.unlisted.default_of(name).is_some() { Reported::Unlisted } else { Reported::Untracked };
        };
        if (server.values[index].as_deref() != Some(value) || !server.reports(index)) && value.len() <= MAX_VALUE {
            let server = Arc::make_mut(server);
            server.values[index] = Some(value.into());
            server.reported |= 1 << index;
        }
        if is_read_by(index) { Reported::ParseEnvironment } else { Reported::Tracked }
    }

    /// Takes a ParameterStatus of a login into a set of its own.
    pub fn take_report(&self, server: &mut Params, name: &str, value: &str) {
        match self.index(name).filter(|_| value.len() <= MAX_VALUE) {
            Some(index) => {
                server.values[index] = Some(value.into());
                server.reported |= 1 << index;
            }
            None => server.unlisted.report(name, value),
        }
    }

    /// The server of a client reports a parameter that is not listed. If that is the client's doing, it has this value from
    /// now on; with the server's default, what it `asked` for at its login.
    pub(crate) fn follow_unlisted(
        (client, asked, by_client): (&mut Arc<Params>, &Params, bool),
        server: &mut Arc<Params>,
        name: &str,
        value: &str,
    ) {
        let set = server.unlisted.default_of(name).filter(|default| *default != value).map(|_| value);
        if set.is_some_and(|value| !by_client || !unlisted::fits(value)) {
            return;
        }
        let wanted = set.or_else(|| asked.untracked.get(&name.to_ascii_lowercase()));
        Arc::make_mut(server).untracked.put(name, set);
        Arc::make_mut(client).untracked.put(name, wanted);
        if client == server {
            client.clone_from(server);
        }
    }

    /// Whether a report of the parameter at this place may be about the server, and not about its client.
    pub(crate) fn is_of_server(&self, place: usize) -> bool {
        place == OF_THE_SERVER
    }

    /// Whether a client has what it wants of a server that began with `base`, since both share their parameters. Equal
    /// values are not enough where a client has made the server read-only: another one may have seen that, and not want it.
    #[inline]
    pub(crate) fn are_shared(wanted: Wanted<'_>, server: &Arc<Params>, base: &Params) -> bool {
        Arc::ptr_eq(wanted.params, server)
            && (wanted.own >> OF_THE_SERVER & 1 == 1 || server.at(OF_THE_SERVER) == base.at(OF_THE_SERVER))
    }

    /// Whether this is the parameter that says as whom a session acts.
    pub(crate) fn is_identity(name: &str) -> bool {
        name.eq_ignore_ascii_case(IDENTITY)
    }

    /// The command by which a server acts as its own user again, if it acts as another one.
    pub(crate) fn own_identity(&self, server: &Params, base: &Params) -> Option<&'static str> {
        let place = self.index(IDENTITY).filter(|place| server.reports(*place))?;
        (server.at(place) != base.at(place)).then_some("SET SESSION AUTHORIZATION DEFAULT")
    }

    /// A client gets what its server reports. Unreported values stay those that the client set at startup, whatever
    /// their value there is.
    pub(crate) fn copy_reported(&self, client: &mut Arc<Params>, server: &Arc<Params>) {
        let agree = |index: usize| server.reports(index) || client.values[index] == server.values[index];
        if client.untracked == server.untracked && (0..self.names.len()).all(agree) {
            client.clone_from(server);
            return;
        }
        let client = Arc::make_mut(client);
        for index in (0..self.names.len()).filter(|index| server.reports(*index)) {
            client.values[index].clone_from(&server.values[index]);
        }
        client.reported = server.reported;
        client.unlisted.clone_from(&server.unlisted);
    }

    /// A server's set after `RESET ALL`, for values that are not reported.
    pub(crate) fn after_reset(&self, server: &mut Arc<Params>) {
        let assumed = |index: &usize| !server.reports(*index) && server.values[*index].is_some();
        let changed: Vec<usize> = (0..self.names.len()).filter(assumed).collect();
        if !changed.is_empty() || !server.untracked.is_empty() {
            let server = Arc::make_mut(server);
            changed.into_iter().for_each(|index| server.values[index] = None);
            server.untracked = Untracked::default();
        }
    }

    /// No assumed value is known any more: each such parameter is set again when it is next compared.
    pub(crate) fn doubt(&self, server: &mut Arc<Params>) {
        let assumed = |index: &usize| !server.reports(*index) && server.values[*index].is_some();
        let doubtful: Vec<usize> = (0..self.names.len()).filter(assumed).collect();
        if !doubtful.is_empty() || !server.untracked.is_empty() {
            let server = Arc::make_mut(server);
            doubtful.into_iter().for_each(|index| server.values[index] = Some(DOUBTFUL.into()));
            server.untracked.doubt(DOUBTFUL);
        }
    }

    /// A server is believed to have what its client has, of what it does not report; but for the parameters at these
    /// places.
    pub(crate) fn assume(&self, server: &mut Arc<Params>, client: &Params, but: u64) {
        let mut has = (**server).clone();
        let places = (0..self.names.len()).filter(|index| !server.reports(*index) && but >> index & 1 == 0);
        places.for_each(|index| has.values[index].clone_from(&client.values[index]));
        has.untracked.clone_from(&client.untracked);
        *server = Arc::new(has);
    }

    /// A server has exactly these values of parameters that it does not report, as it has said itself, and its client
    /// keeps them; but for those that the client asked for at its login and the server has no longer, which are to be
    /// set again. Returns whether all can follow the client; `may_be_untracked`: also those that are not tracked.
    pub(crate) fn set_found(
        &self,
        server: &mut Arc<Params>,
        (client, asked, own): (&mut Arc<Params>, &Params, &mut u64),
        found: &[(String, String)],
        may_be_untracked: bool,
    ) -> bool {
        let (mut has, mut all) = ((**server).clone(), true);
        let unreported = |index: &usize| !server.reports(*index);
        (0..self.names.len()).filter(unreported).for_each(|index| has.values[index] = None);
        has.untracked = Untracked::default();
        let of_server = Some(OF_THE_SERVER).filter(|index| server.reports(*index) && asked.values[*index].is_none());
        of_server.into_iter().for_each(|index| *own &= !(1 << index));
        for (name, value) in found {
            let fits = value.len() <= MAX_VALUE && value.bytes().all(|b| (b' '..=b'~').contains(&b));
            match self.index(name) {
                Some(index) if server.reports(index) => *own |= u64::from(of_server == Some(index)) << index,
                Some(index) => {
                    has.values[index] = Some(if fits { value.as_str() } else { DOUBTFUL }.into());
                    *own |= 1 << index;
                    all &= fits;
                }
                None => all &= fits && may_be_untracked && has.untracked.set(name, value).is_ok(),
            }
        }
        let mut wants = (**client).clone();
        for index in (0..self.names.len()).filter(unreported) {
            let value = has.values[index].as_ref().or(asked.values[index].as_ref());
            wants.values[index] = value.cloned();
        }
        wants.untracked.clone_from(&asked.untracked);
        all &= has.untracked.iter().all(|(name, value)| wants.untracked.set(name, value).is_ok());
        *server = Arc::new(has);
        *client = if wants == **server { server.clone() } else { Arc::new(wants) };
        all
    }

    /// Which of these settings, that have the value that each session of the server begins with, the client has set to
    /// it: those for which it `asked` for something at its login, and that it has not `reset`, a bit each.
    pub(crate) fn set_to_usual(
        &self,
        found: Vec<(String, String)>,
        asked: &Params,
        reset: u64,
    ) -> impl Iterator<Item = (String, String)> {
        let differs = move |place: usize| asked.at(place).is_some() && reset >> place & 1 == 0;
        found.into_iter().filter(move |(name, _)| self.place(name).is_some_and(&differs))
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Whether the parameter at this place decides how a text is parsed or planned.
fn is_read_by(index: usize) -> bool {
    index < READ_BY || index >= TRACKED.len()
}

impl Params {
    /// Whether an untracked parameter was set for a client.
    pub(crate) fn sets_untracked(&self, name: &str) -> bool {
        self.untracked.iter().any(|(known, _)| known.eq_ignore_ascii_case(name))
    }

    /// Whether its server reports all parameters at these places, a bit each, and these others.
    pub(crate) fn reports_all(&self, places: u64, others: &[Box<str>]) -> bool {
        places & !self.reported == 0 && others.iter().all(|name| self.unlisted.default_of(name).is_some())
    }

    /// The value at a place of the table, if it is known.
    pub fn at(&self, place: usize) -> Option<&str> {
        self.values.get(place)?.as_deref()
    }

    /// The places of the known values, a bit each.
    pub(crate) fn known(&self) -> u64 {
        let bit = |(index, value): (usize, &Option<Arc<str>>)| u64::from(value.is_some()) << index;
        self.values.iter().enumerate().map(bit).sum()
    }

    /// The places at which it differs from another, a bit each.
    pub(crate) fn differs(&self, other: &Params) -> u64 {
        let pairs = self.values.iter().zip(&other.values).enumerate();
        pairs.map(|(index, (own, other))| u64::from(own != other) << index).sum()
    }

    pub(crate) fn reports(&self, index: usize) -> bool {
        self.reported >> index & 1 == 1
    }
}

/// One statement that sets a parameter, or returns it to its default.
fn set_query(query: &mut String, name: &str, value: Option<&str>) {
    if !query.is_empty() {
        query.push(';');
    }
    let Some(value) = value else {
        let _ = write!(query, "RESET {name}");
        return;
    };
    // A list must stay a list: SET with one literal would make one element of it.
    let list = name.eq_ignore_ascii_case("search_path");
    let _ = if list { write!(query, "SELECT pg_catalog.set_config('{name}',") } else { write!(query, "SET {name}=") };
    push_literal(query, value);
    if list {
        query.push_str(",false)");
    }
}

/// One statement that sets a parameter, or returns it to its default; the name may be a keyword, and the value may be a
/// list.
fn untracked_query(query: &mut String, name: &str, value: Option<&str>) {
    if !query.is_empty() {
        query.push(';');
    }
    match value {
        // Where an extension was loaded since, there may be no such setting any more.
        None if name.contains('.') => {
            let _ = write!(
                query,
                "SELECT pg_catalog.set_config('{name}',NULL,false) WHERE pg_catalog.current_setting('{name}',true) IS NOT NULL"
            );
        }
        None => {
            let _ = write!(query, "RESET \"{name}\"");
        }
        Some(value) => {
            let _ = write!(query, "SELECT pg_catalog.set_config('{name}',");
            push_literal(query, value);
            query.push_str(",false)");
        }
    }
}

/// Writes a value so that it means the same with any settings and encoding.
pub(crate) fn push_literal(query: &mut String, value: &str) {
    // An escape string means the same with any standard_conforming_strings, and in any encoding: the server reads the
    // text in the previous encoding.
    query.push_str(if value.contains('\\') || !value.is_ascii() { "E'" } else { "'" });
    for c in value.chars() {
        if !c.is_ascii() {
            let _ = write!(query, "\\U{:08X}", u32::from(c));
            continue;
        }
        if matches!(c, '\'' | '\\') {
            query.push(c);
        }
        query.push(c);
    }
    query.push('\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ParamTable {
        ParamTable::new(["my.setting"])
    }

    /// A server that reports these.
    fn server(table: &ParamTable, values: &[(&str, &str)]) -> Arc<Params> {
        let mut params = table.unknown();
        values.iter().for_each(|(name, value)| table.take_report(&mut params, name, value));
        Arc::new(params)
    }

    fn params(table: &ParamTable, values: &[(&str, &str)]) -> Arc<Params> {
        let mut params = table.unknown();
        values.iter().for_each(|(name, value)| table.set(&mut params, name, value).unwrap());
        Arc::new(params)
    }

    /// A client whose values are all its own, and a server of which no default is known.
    fn agree(table: &ParamTable, client: &Arc<Params>, server: &mut Arc<Params>, query: &mut String) -> bool {
        let wanted = Wanted { params: client, own: client.known() };
        table.agree(wanted, Has { params: server, base: &table.unknown(), base_is_set: 0 }, query)
    }

    #[test]
    fn a_value_that_is_not_the_clients_own_is_the_servers_default() {
        let t = table();
        let base = server(&t, &[("TimeZone", "UTC"), ("DateStyle", "ISO, MDY"), ("application_name", "")]);
        let mut has =
            server(&t, &[("TimeZone", "Asia/Tokyo"), ("DateStyle", "German, DMY"), ("application_name", "a")]);
        let client = server(&t, &[("TimeZone", "CET"), ("DateStyle", "SQL, DMY"), ("application_name", "a")]);
        let own = 1 << t.place("DateStyle").unwrap();
        let mut query = String::new();
        let has = Has { params: &mut has, base: &base, base_is_set: 0 };
        assert!(t.agree(Wanted { params: &client, own }, has, &mut query));
        assert_eq!(query, "SET DateStyle='SQL, DMY';RESET TimeZone;RESET application_name");
        let mut has = server(&t, &[("TimeZone", "Asia/Tokyo"), ("DateStyle", "SQL, DMY"), ("application_name", "")]);
        let has = Has { params: &mut has, base: &base, base_is_set: 1 << t.place("TimeZone").unwrap() };
        assert!(t.agree(Wanted { params: &client, own }, has, &mut query));
        assert_eq!(query, "SET TimeZone='UTC'", "its connect_query has set it");
    }

    #[test]
    fn only_what_differs_is_set() {
        let t = table();
        let client = params(&t, &[("timezone", "UTC"), ("datestyle", "ISO, MDY"), ("extra_float_digits", "3")]);
        let mut server = server(&t, &[("TimeZone", "GMT"), ("DateStyle", "ISO, MDY"), ("client_encoding", "UTF8")]);
        let mut query = String::new();
        assert!(agree(&t, &client, &mut server, &mut query));
        assert_eq!(query, "SET TimeZone='UTC';SET extra_float_digits='3'");
        assert_eq!(t.report(&mut server, "TimeZone", "UTC"), Reported::ParseEnvironment);
        assert_eq!(t.report(&mut server, "my.other", "UTC"), Reported::Untracked);
        assert!(!agree(&t, &client, &mut server, &mut query));
    }

    #[test]
    fn an_assumed_value_is_taken_back_for_a_client_without_it() {
        let t = table();
        let mut server = params(&t, &[("extra_float_digits", "3"), ("search_path", "a")]);
        let mut query = String::new();
        assert!(agree(&t, &params(&t, &[("search_path", "a, \"b'\\\"")]), &mut server, &mut query));
        let expected = r#"SELECT pg_catalog.set_config('search_path',E'a, "b''\\"',false);RESET extra_float_digits"#;
        assert_eq!(query, expected);
        assert_eq!(t.get(&server, "extra_float_digits"), None);
    }

    #[test]
    fn what_a_server_reports_needs_no_reset_and_what_it_does_not_report_is_not_lost() {
        let t = table();
        let reports = server(&t, &[("search_path", "public")]);
        let mut query = String::new();
        assert!(!agree(&t, &params(&t, &[]), &mut reports.clone(), &mut query));
        let client = params(&t, &[("my.setting", "1")]);
        let mut unreported = server(&t, &[]);
        assert!(agree(&t, &client, &mut unreported, &mut query));
        assert_eq!(t.get(&unreported, "my.setting"), Some("1"), "it is known to have what was set");
    }

    #[test]
    fn what_a_client_takes_over_from_its_server_is_what_that_reports() {
        let t = table();
        let mut reports = server(&t, &[("TimeZone", "UTC")]);
        let mut client = params(&t, &[("TimeZone", "GMT"), ("search_path", "a")]);
        t.copy_reported(&mut client, &reports);
        assert_eq!((t.get(&client, "TimeZone"), t.get(&client, "search_path")), (Some("UTC"), Some("a")));
        assert!(agree(&t, &client, &mut reports, &mut String::new()));
        t.copy_reported(&mut client, &reports);
        assert!(Arc::ptr_eq(&client, &reports), "those that agree share one set");
    }

    #[test]
    fn sets_that_are_equal_end_as_one_in_any_order_of_links() {
        let t = table();
        let set = || server(&t, &[("TimeZone", "UTC"), ("application_name", "x")]);
        let (mut clients, mut servers) = ([set(), set(), set()], [set(), set()]);
        // Wherever the lowest address is, two rounds spread it to all; then no set needs a comparison.
        for round in 0..3 {
            for server in &mut servers {
                for client in &mut clients {
                    assert!(round < 2 || Arc::ptr_eq(client, server));
                    ParamTable::share(client, server);
                    assert!(Arc::ptr_eq(client, server));
                }
            }
        }
    }

    #[test]
    fn a_client_that_requested_less_takes_its_server_s_set_wherever_that_lies() {
        let t = table();
        let mut both = [params(&t, &[]), server(&t, &[("TimeZone", "UTC")])];
        for _ in 0..2 {
            let [client, server] = &mut both;
            let reported_value = server.clone();
            *client = params(&t, &[]);
            ParamTable::share(client, server);
            assert!(Arc::ptr_eq(client, &reported_value) && Arc::ptr_eq(server, &reported_value));
        }
    }

    #[test]
    fn a_server_that_becomes_read_only_is_not_made_writable_again() {
        let t = table();
        let before = server(&t, &[("TimeZone", "UTC"), ("default_transaction_read_only", "off")]);
        let mut fenced = before.clone();
        let mut client = t.unknown();
        t.fill(&mut client, &before);
        t.report(&mut fenced, "default_transaction_read_only", "on");
        let mut query = String::new();
        let wanted = Wanted { params: &Arc::new(client), own: 0 };
        assert!(t.agree(wanted, Has { params: &mut fenced, base: &before, base_is_set: 0 }, &mut query));
        assert_eq!(query, "RESET default_transaction_read_only", "the server's own value, whatever that is now");
    }

    #[test]
    fn the_parameter_that_describes_a_server_is_at_its_place() {
        assert_eq!(TRACKED[OF_THE_SERVER], "default_transaction_read_only");
    }

    #[test]
    fn one_who_has_seen_a_read_only_server_and_does_not_want_it_gets_another() {
        let t = table();
        let base = server(&t, &[("TimeZone", "UTC"), ("default_transaction_read_only", "off")]);
        let mut has = server(&t, &[("TimeZone", "UTC"), ("default_transaction_read_only", "on")]);
        let client = has.clone();
        let mut query = String::new();
        for (own, expected) in [(u64::MAX, ""), (0, "RESET default_transaction_read_only")] {
            let has = Has { params: &mut has, base: &base, base_is_set: 0 };
            assert_eq!(t.agree(Wanted { params: &client, own }, has, &mut query), !expected.is_empty());
            assert_eq!(query, expected, "although both share their values");
        }
    }

    #[test]
    fn the_user_is_set_last_and_not_at_a_login() {
        let t = table();
        let base = server(&t, &[("TimeZone", "UTC"), ("session_authorization", "app")]);
        let client = server(&t, &[("TimeZone", "CET"), ("session_authorization", "it's")]);
        let (mut query, mut has) = (String::new(), base.clone());
        let own = client.known();
        let has = Has { params: &mut has, base: &base, base_is_set: 0 };
        assert!(t.agree(Wanted { params: &client, own }, has, &mut query));
        assert_eq!(query, "SET TimeZone='CET';SET session_authorization='it''s'");
        assert_eq!(t.own_identity(&base, &base), None);
        assert_eq!(t.own_identity(&client, &base), Some("SET SESSION AUTHORIZATION DEFAULT"));
        assert_eq!(t.set(&mut t.unknown(), "Session_Authorization", "evil"), Err(BadParam::Unknown));
    }

    #[test]
    fn a_parameter_that_is_not_listed_follows_until_it_has_the_servers_default() {
        let t = table();
        let reports = [("server_version", "18"), ("scram_iterations", "4096"), ("TimeZone", "UTC")];
        let mut one = server(&t, &reports);
        let mut client = t.unknown();
        t.fill(&mut client, &one);
        let (mut client, asked) = (Arc::new(client), t.unknown());
        assert_eq!(t.report(&mut one, "server_version", "19"), Reported::Untracked);
        assert_eq!(t.report(&mut one, "scram_iterations", "5000"), Reported::Unlisted);
        ParamTable::follow_unlisted((&mut client, &asked, false), &mut one, "scram_iterations", "5000");
        assert!(!agree(&t, &client, &mut one, &mut String::new()), "it is the server's doing");
        ParamTable::follow_unlisted((&mut client, &asked, true), &mut one, "scram_iterations", &"5".repeat(5000));
        assert!(client.untracked.is_empty(), "it is too long");
        ParamTable::follow_unlisted((&mut client, &asked, true), &mut one, "scram_iterations", "5000");
        let (mut query, mut two) = (String::new(), server(&t, &reports));
        assert!(!agree(&t, &client, &mut one, &mut query));
        assert!(agree(&t, &client, &mut two, &mut query));
        assert_eq!(query, "SELECT pg_catalog.set_config('scram_iterations','5000',false)");
        ParamTable::follow_unlisted((&mut client, &asked, false), &mut two, "scram_iterations", "4096");
        assert!(agree(&t, &client, &mut one, &mut query));
        assert_eq!(query, "RESET \"scram_iterations\"");
        assert!(client.reports_all(0, &["scram_iterations".into()]) && !client.reports_all(0, &["work_mem".into()]));
    }

    #[test]
    fn what_a_server_reports_is_set_elsewhere_whatever_the_encoding_there() {
        let t = table();
        let reports = |encoding, path| server(&t, &[("client_encoding", encoding), ("search_path", path)]);
        let client = reports("UTF8", "größe, '😀\\");
        let mut query = String::new();
        assert!(agree(&t, &client, &mut reports("GBK", "public"), &mut query));
        let path = r"SELECT pg_catalog.set_config('search_path',E'gr\U000000F6\U000000DFe, ''\U0001F600\\',false)";
        assert_eq!(query, format!("SET client_encoding='UTF8';{path}"));
        assert!(t.is_utf8(&client) && !t.is_utf8(&reports("GBK", "public")));
    }

    #[test]
    fn a_date_style_that_is_given_twice_is_made_of_both() {
        let t = table();
        for (given, has) in [
            (&["German", "ISO"][..], "ISO, DMY"),
            (&["SQL, DMY"], "SQL, DMY"),
            (&["SQL", "DMY"], "SQL, DMY"),
            (&["dmy", "German"], "German, DMY"),
            (&["MDY", "German"], "German, DMY"),
            (&["German", "MDY"], "German, MDY"),
            (&["German, YMD", "Postgres"], "Postgres, YMD"),
            (&["ISO", "ISO, YMD", "european"], "ISO, DMY"),
        ] {
            let mut params = t.unknown();
            given.iter().for_each(|value| t.set(&mut params, "datestyle", value).unwrap());
            t.fill(&mut params, &server(&t, &[("DateStyle", "ISO, MDY")]));
            assert_eq!(t.get(&params, "DateStyle"), Some(has), "{given:?}");
        }
    }

    #[test]
    fn values_that_no_quoting_makes_safe_are_refused() {
        let t = table();
        let mut p = t.unknown();
        assert_eq!(t.set(&mut p, "TimeZone", "a\u{8140}b"), Err(BadParam::Value));
        assert_eq!(t.set(&mut p, "nonsense", "1"), Err(BadParam::Unknown));
        assert_eq!(t.set(&mut p, "application_name", "naïve\n"), Ok(()));
        assert_eq!(t.get(&p, "Application_Name"), Some("na?ve?"));
        assert_eq!(t.set(&mut p, "my.setting", "x"), Ok(()));
    }
}
