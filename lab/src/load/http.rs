//! HTTP load.
