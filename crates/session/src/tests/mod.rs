//! What sessions do, in sentences, and the properties that hold for every input.

mod answers;
mod cancels;
mod limits;
mod logins;
mod repeat;
mod resets;
mod rig;
mod splits;
mod sql_names;
mod statements;
mod watched;
