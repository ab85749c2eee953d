//! The one way to take a lock here.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is shared, for oneself. Nobody here leaves it half-changed when it panics, so the others go on.
pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
