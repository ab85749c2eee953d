//! The bytes that the functions of this module look at, counted in tests: so that their growth with a text is tested without a clock.

/// This many bytes were looked at.
#[cfg(not(test))]
#[inline(always)]
pub(super) fn count(_: usize) {}

/// This many bytes were looked at.
#[cfg(test)]
pub(super) fn count(bytes: usize) {
    COUNTED.with(|counted| counted.set(counted.get() + bytes as u64 + 1));
}

#[cfg(test)]
thread_local! {
    static COUNTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many steps a function takes.
#[cfg(test)]
pub(super) fn of(run: impl FnOnce()) -> u64 {
    let before = COUNTED.get();
    run();
    COUNTED.get() - before
}
