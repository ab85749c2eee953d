//! What happens in a pool that is recorded, as the record is given it.

use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::Dirty;
use weir_pgwire::sql::StateUse;
use weir_session::StatementId;

use crate::handles::PoolIx;

/// A statement, and what it does with session state.
#[derive(Clone, Debug)]
pub(crate) struct StatementUse {
    pub(crate) id: u64,
    pub(crate) text: Box<str>,
    pub(crate) uses: Arc<StateUse>,
}

/// A statement that was executed.
pub(crate) struct Execution {
    pub(crate) statement: StatementId,
    /// None where it does nothing with session state.
    pub(crate) usage: Option<StatementUse>,
    pub(crate) failed: bool,
    pub(crate) rolled_back: bool,
}

/// A pool that may be recorded.
pub(crate) struct RecordedPool<'a> {
    pub(crate) ix: PoolIx,
    pub(crate) database: &'a Arc<str>,
    pub(crate) user: &'a Arc<str>,
    pub(crate) mode: PoolMode,
}

/// Whose requests were executed, and the rules of the pool.
pub(crate) struct Executor<'a> {
    pub(crate) client: u64,
    pub(crate) application: &'a str,
    /// Whether a setting follows the client from its server.
    pub(crate) follows: &'a dyn Fn(&str) -> bool,
    /// The kinds of state that would keep the client at a server in mode auto.
    pub(crate) pins: Dirty,
    /// The server has answered everything, and is in no transaction.
    pub(crate) is_free: bool,
}
