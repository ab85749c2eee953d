//! What a role or a database gives to each session from its beginning (`ALTER ROLE … SET`, `ALTER DATABASE … SET`), as a part
//! of Weir's questions over `pg_db_role_setting`: it is no state of a session.
//!
//! Source: PostgreSQL's documentation, "pg_db_role_setting"; postinit.c, `process_settings`, has the order.

/// The condition for the rows that hold for a session.
macro_rules! of_session {
    () => {
        "setrole OPERATOR(pg_catalog.=) ANY(ARRAY[0::pg_catalog.oid,(SELECT oid FROM pg_catalog.pg_roles WHERE rolname \
         OPERATOR(pg_catalog.=) session_user)]) AND setdatabase OPERATOR(pg_catalog.=) ANY(ARRAY[0::pg_catalog.oid,\
         (SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database())])"
    };
}

/// The order and the limit by which the one of several counts that PostgreSQL takes.
macro_rules! that_counts {
    () => {
        "ORDER BY setrole OPERATOR(pg_catalog.=) 0::pg_catalog.oid,setdatabase OPERATOR(pg_catalog.=) 0::pg_catalog.oid LIMIT 1"
    };
}

pub(crate) use {of_session, that_counts};
