//! The bytes that the functions of this module look at, counted where assertions are on: so that their growth with a
//! text is tested, and a worker's turns are measured, without a clock.

/// This many bytes were looked at.
#[cfg(not(debug_assertions))]
#[inline(always)]
pub(super) fn count(_: usize) {}

/// This many bytes were looked at.
#[cfg(debug_assertions)]
#[inline]
pub(super) fn count(bytes: usize) {
    COUNTED.with(|counted| counted.set(counted.get() + bytes as u64 + 1));
}

#[cfg(debug_assertions)]
thread_local! {
    static COUNTED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// How many steps the functions of this module have taken on this thread; 0 where assertions are off.
pub fn steps_taken() -> u64 {
    #[cfg(debug_assertions)]
    return COUNTED.get();
    #[cfg(not(debug_assertions))]
    0
}

/// How many steps a function takes.
#[cfg(test)]
pub(super) fn of(run: impl FnOnce()) -> u64 {
    let before = steps_taken();
    run();
    steps_taken() - before
}
