//! The type of a table: columns with their types, rows, and the snapshot that rows are computed from.

use weir_config::Config;

use crate::records::Report;

/// The input of all tables.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The merged report of all workers.
    pub report: &'a Report,
    /// The configuration in force.
    pub config: &'a Config,
    /// The reply to SHOW VERSION, such as `Weir 0.1.0`.
    pub version: &'a str,
    /// The current time: microseconds since 1970.
    pub now_wall: u64,
    /// Whether the reader may not see queries of the configuration, which may hold secrets.
    pub hides_queries: bool,
}

/// The type of a column, as drivers receive it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnType {
    /// `text`
    Text,
    /// `int4`
    Int4,
    /// `int8`
    Int8,
    /// `numeric`
    Numeric,
    /// `bytea`
    Bytea,
}

impl ColumnType {
    /// PostgreSQL's OID of the type (`pg_type.dat`).
    pub const fn oid(self) -> u32 {
        match self {
            ColumnType::Text => 25,
            ColumnType::Int4 => 23,
            ColumnType::Int8 => 20,
            ColumnType::Numeric => 1700,
            ColumnType::Bytea => 17,
        }
    }

    /// The size of a value in bytes (`typlen`); -1 if it varies.
    pub const fn size(self) -> i16 {
        match self {
            ColumnType::Int4 => 4,
            ColumnType::Int8 => 8,
            ColumnType::Text | ColumnType::Numeric | ColumnType::Bytea => -1,
        }
    }
}

/// One column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// The column's name.
    pub name: &'static str,
    /// The column's type.
    pub kind: ColumnType,
}

/// One row: a value for each column, as text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// A table to show.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// The columns.
    pub columns: &'static [Column],
    /// The rows, each with a value for each column; `None` is NULL.
    pub rows: Vec<Row>,
}

pub(super) const fn text_column(name: &'static str) -> Column {
    Column { name, kind: ColumnType::Text }
}

pub(super) const fn int4(name: &'static str) -> Column {
    Column { name, kind: ColumnType::Int4 }
}

pub(super) const fn int8(name: &'static str) -> Column {
    Column { name, kind: ColumnType::Int8 }
}

pub(super) const fn numeric(name: &'static str) -> Column {
    Column { name, kind: ColumnType::Numeric }
}

pub(super) const fn bytea(name: &'static str) -> Column {
    Column { name, kind: ColumnType::Bytea }
}

/// A value, as text.
pub(super) fn text(value: impl ToString) -> Option<String> {
    Some(value.to_string())
}

/// A flag as the number that PgBouncer prints for it.
pub(super) fn flag(value: bool) -> Option<String> {
    text(u8::from(value))
}
