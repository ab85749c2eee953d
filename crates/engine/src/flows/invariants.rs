//! For tests and the simulator: invariants between inputs, and clients that are frozen and thawed.

use weir_base::{Peer, PoolMode};

use crate::engine::Engine;
use crate::handles::{PoolIx, Waiter};
use crate::peers::{ClientPhase, ServerPhase, ServerSlot, ServerState};
use crate::traffic::relay::AHEAD;

impl Engine {
    /// Freezes a client to bytes and thaws it, in place: as if it had moved. Returns whether that was possible now.
    /// For the simulator, which does it to clients at random moments.
    pub fn refreeze(&mut self, peer: Peer) -> bool {
        let Some(mut slot) = self.peers.take_client(peer) else { return false };
        let frozen = match &slot.phase {
            ClientPhase::Ready(client) if slot.link.is_none() => {
                weir_session::frozen::freeze(client, &self.sessions.params)
            }
            _ => None,
        };
        let done = frozen.is_some();
        if let Some(bytes) = frozen {
            // Releases its charge before it is charged again.
            slot.phase = ClientPhase::Gone;
            let pool = &self.pools.get(slot.pool).accepted;
            let thawed = weir_session::frozen::thaw(&bytes, &self.sessions.params, &mut self.sessions.interner, pool);
            slot.phase = ClientPhase::Ready(thawed.expect("what was frozen here thaws here"));
        }
        self.peers.put_client(slot);
        done
    }

    /// Whether a connection is a probe of a host that may give no answer. For tests.
    pub fn is_probe(&self, peer: Peer) -> bool {
        self.peers.probe(peer).is_some()
    }

    /// Asserts the invariants between inputs. Walks over everything.
    ///
    /// # Panics
    /// When an invariant is broken.
    pub fn check(&self) {
        assert!(self.common.is_done(), "a turn has left work to do");
        self.check_client_counts();
        self.check_links();
        self.check_logins();
        self.pools.indices().into_iter().for_each(|ix| self.check_pool(ix));
    }

    fn check_links(&self) {
        for client in self.peers.clients() {
            let Some(server) = client.link else { continue };
            let owner = self.peers.servers().find(|s| s.peer == server).map(|s| s.link);
            assert_eq!(owner, Some(Some(client.peer)), "a client's server does not know it");
            let asked = self.peers.servers().any(|s| s.peer == server && s.phase() == Some(ServerPhase::Checking));
            let linked = match client.phase {
                ClientPhase::Ready(_) | ClientPhase::Streaming(_) => true,
                ClientPhase::Welcome(_) => asked,
                _ => false,
            };
            assert!(linked, "a client that may not ask has a server");
        }
        for server in self.peers.servers() {
            let Some(client) = server.link else { continue };
            let link = self.peers.clients().find(|c| c.peer == client).map(|c| c.link);
            assert_eq!(link, Some(Some(server.peer)), "a server's client does not know it");
            assert!(server.phase() != Some(ServerPhase::Idle), "an idle server has a client");
            self.check_pipeline(server);
        }
        for server in self.peers.servers() {
            if let ServerState::Up(session, ServerPhase::Idle) = &server.state {
                assert!(!session.is_unusable(), "an idle server sent an unsolicited message, and is kept");
            }
        }
    }

    fn check_pipeline(&self, server: &ServerSlot) {
        let released = self.pools.get(server.pool).mode() != PoolMode::Session;
        let pipelined = server.clock.pipelined();
        assert!(pipelined <= AHEAD || !released, "others wait, and a pipeline continues for {pipelined} transactions");
    }

    fn check_pool(&self, ix: PoolIx) {
        let slot = self.pools.get(ix);
        slot.check();
        for (peer, ..) in slot.pool.servers() {
            let here = || self.peers.servers().any(|s| s.peer == peer && s.pool == ix);
            let known = self.cluster.lent.get(&peer).is_some_and(|lent| lent.pool == ix) || here();
            assert!(known, "a pool has a server that is gone: {peer:?}");
        }
        for (peer, _) in slot.pool.waiting() {
            let waits = match Waiter::of(peer) {
                Waiter::Client(_) => self.peers.clients().any(|c| c.peer == peer && c.pool == ix && c.pause.waits),
                Waiter::AuthQuery(_) => self.entry.queries.waits(peer, ix),
                Waiter::Borrower(_) => !slot.lending.is_borrower(),
            };
            assert!(waits, "a pool's queue holds one who does not wait: {peer:?}");
        }
    }
}
