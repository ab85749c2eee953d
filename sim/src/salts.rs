//! A cache of salted passwords: the same password, salt and rounds give the same result, and PBKDF2 is most of a
//! login's cost. The rest of a login is not cached.

use std::cell::RefCell;
use std::collections::HashMap;

use weir_auth::ScramVerifier;

type Salted = [u8; 32];

/// A password, a salt and a number of rounds.
type Recipe = (String, Vec<u8>, u32);

/// At this size the cache is cleared.
const MOST: usize = 4_096;

thread_local! {
    static SALTED: RefCell<HashMap<Recipe, Salted>> = RefCell::default();
    static VERIFIERS: RefCell<HashMap<String, ScramVerifier>> = RefCell::default();
}

/// The result of [`weir_auth::salt_password`], cached.
pub(crate) fn salted(password: &str, salt: &[u8], iterations: u32) -> Salted {
    SALTED.with_borrow_mut(|known| {
        if known.len() >= MOST {
            known.clear();
        }
        *known
            .entry((password.to_owned(), salt.to_vec(), iterations))
            .or_insert_with(|| weir_auth::salt_password(password, salt, iterations))
    })
}

/// A user's verifier, created by `make` on first use.
pub(crate) fn verifier(user: &str, make: impl FnOnce() -> ScramVerifier) -> ScramVerifier {
    VERIFIERS.with_borrow_mut(|known| match known.get(user) {
        Some(verifier) => verifier.clone(),
        None => {
            let verifier = make();
            known.insert(user.to_owned(), verifier.clone());
            verifier
        }
    })
}
