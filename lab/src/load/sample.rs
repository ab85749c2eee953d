//! Samples of a server's CPU, memory and processes.
