//! A worker's side of the quotas of clients. Worker 0 counts all clients. Where a limit is set, a client requests
//! admission after its login, so that unauthenticated clients use no quota.

use std::collections::HashMap;

use weir_base::ConnId;
use weir_session::Refusal;

use super::{ClientUse, IfFull, Key, QuotaRequest, Resource};

/// The clients of this worker that wait for admission; and, at worker 0, the number of clients in the process.
#[derive(Default)]
pub(crate) struct ClientQuota {
    total: u32,
    /// What counts as full: `max_clients`, or more after a reload that has lowered it below what is connected.
    full_at: Option<u32>,
    requests: HashMap<u64, ConnId>,
}

impl ClientQuota {
    /// Worker 0: the number of clients of the process.
    pub(crate) fn total(&self) -> u32 {
        self.total
    }

    /// Worker 0: how many clients count as full, where at most `max_clients` are wanted. After a reload those that are
    /// connected stay, so that connections beyond are still refused with a reason, and operators get in.
    pub(crate) fn full_at(&mut self, max_clients: u32) -> u32 {
        let connected = self.full_at.map_or(self.total, |before| before.min(self.total));
        *self.full_at.insert(max_clients.max(connected))
    }

    /// Worker 0: a client was accepted.
    pub(crate) fn add(&mut self) {
        self.total += 1;
    }

    /// Worker 0: a client has disconnected.
    pub(crate) fn remove(&mut self) {
        self.total = self.total.saturating_sub(1);
    }

    /// The request for a client's admission.
    pub(crate) fn request(&mut self, id: u64, client: ConnId, counts_for: ClientUse) -> QuotaRequest {
        self.requests.insert(id, client);
        QuotaRequest::Acquire { id, resource: Resource::Client(counts_for), if_full: IfFull::Refuse }
    }

    /// The client of an answered request; it may have disconnected.
    pub(crate) fn answered(&mut self, id: u64) -> Option<ConnId> {
        self.requests.remove(&id)
    }
}

/// The error for a client when a key is full.
pub(crate) fn refusal(full: &Key) -> Refusal {
    match full {
        Key::ClientsOfUser(_) => Refusal::TooManyUserClients,
        Key::ClientsOfAddress(_) => Refusal::TooManyAddressClients,
        Key::ClientsOfDatabase(_) | Key::ServersOfDatabase(_) | Key::ServersOfUser(_) | Key::ConnectionsOf(_) => {
            Refusal::TooManyDatabaseClients
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::counter::Counter;
    use super::*;

    fn client(database: &str, user: &str, address: Option<&str>) -> Resource {
        let address = address.map(|text| text.parse().unwrap());
        Resource::Client(ClientUse { database: database.into(), user: user.into(), address })
    }

    /// The limits of clients of each database, user and address.
    type Most = (u32, u32, u32);

    fn enter(counter: &mut Counter, client: &Resource, most: Most) -> Result<(), Refusal> {
        let limit = |key: &Key| match key {
            Key::ClientsOfDatabase(_) => most.0,
            Key::ClientsOfUser(_) => most.1,
            _ => most.2,
        };
        counter.acquire(weir_base::WorkerId(0), client, &limit).map_err(|full| refusal(&full))
    }

    fn leave(counter: &mut Counter, client: Resource) {
        let request = QuotaRequest::Release { resource: client, count: 1 };
        assert_eq!(counter.receive(weir_base::WorkerId(0), request, 1, &|_: &Key| 0), []);
    }

    #[test]
    fn each_limit_counts_what_it_is_for_and_zero_is_none() {
        let mut counter = Counter::default();
        for _ in 0..3 {
            enter(&mut counter, &client("db", "ann", Some("10.0.0.1")), (0, 0, 0)).unwrap();
        }
        let mut try_in = |database, user, address, most| {
            let client = client(database, user, address);
            let answer = enter(&mut counter, &client, most);
            if answer.is_ok() {
                leave(&mut counter, client);
            }
            answer
        };
        let one = Some("10.0.0.1");
        let database = (3, 0, 0);
        assert_eq!(try_in("db", "bob", None, database), Err(Refusal::TooManyDatabaseClients));
        assert_eq!(try_in("other", "ann", one, database), Ok(()));
        let user = (0, 3, 0);
        assert_eq!(try_in("other", "ann", None, user), Err(Refusal::TooManyUserClients));
        assert_eq!(try_in("db", "bob", one, user), Ok(()));
        let address = (0, 0, 3);
        assert_eq!(try_in("other", "bob", one, address), Err(Refusal::TooManyAddressClients));
        assert_eq!(try_in("db", "ann", Some("10.0.0.2"), address), Ok(()));
        assert_eq!(try_in("db", "ann", None, address), Ok(()), "the Unix socket has no address");
        assert_eq!(try_in("db", "ann", one, (4, 4, 4)), Ok(()));
    }

    #[test]
    fn a_refused_client_takes_no_place_and_one_that_leaves_gives_all_of_its_own_back() {
        let mut counter = Counter::default();
        let most = (1, 1, 1);
        let (first, second) = (client("db", "ann", Some("::1")), client("db", "bob", Some("::2")));
        enter(&mut counter, &first, most).unwrap();
        assert!(enter(&mut counter, &second, most).is_err());
        leave(&mut counter, first.clone());
        enter(&mut counter, &second, most).unwrap();
        assert!(enter(&mut counter, &first, most).is_err());
        leave(&mut counter, second);
        assert!(counter.is_empty());
    }
}
