//! A server's reported parameters, as the messages that clients receive at their login (PgBouncer's welcome message).

use std::sync::Arc;

use weir_pgwire::put_back;
use weir_session::{ParamTable, Params};

/// The login messages for clients of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    pub(crate) reported: Arc<Reported>,
    pub(crate) params: Arc<Params>,
}

impl Welcome {
    /// Whether a parameter has another value in these login messages.
    pub(crate) fn has_other(&self, name: &str, value: &str) -> bool {
        let mut known = self.reported.parameters.iter().filter(|known| known.name == name);
        known.next().is_none_or(|known| known.value != value)
    }

    /// These login messages with another value of a parameter.
    pub(crate) fn with(&self, table: &ParamTable, name: &str, value: &str) -> Welcome {
        let mut reported = self.reported.list();
        match reported.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => value.clone_into(known),
            None => reported.push((name.to_owned(), value.to_owned())),
        }
        let mut params = (*self.params).clone();
        table.take_report(&mut params, name, value);
        Welcome { reported: Arc::new(Reported::new(table, reported)), params: Arc::new(params) }
    }
}

/// ParameterStatus messages, encoded once: most clients of a pool receive the same.
#[derive(Debug)]
pub(crate) struct Reported {
    messages: Vec<u8>,
    parameters: Vec<Parameter>,
}

#[derive(Debug)]
struct Parameter {
    name: String,
    value: String,
    /// The parameter's index among the tracked ones.
    tracked: Option<usize>,
    /// The end of the parameter's message.
    end: usize,
}

impl Reported {
    /// The messages for a server's reported parameters: names and values.
    pub(crate) fn new(table: &ParamTable, reported: Vec<(String, String)>) -> Reported {
        let (mut messages, mut parameters) = (Vec::new(), Vec::new());
        for (name, value) in reported {
            put_back::parameter_status(&mut messages, &name, &value);
            parameters.push(Parameter { tracked: table.place(&name), name, value, end: messages.len() });
        }
        Reported { messages, parameters }
    }

    /// What the server reported: names and values.
    pub(crate) fn list(&self) -> Vec<(String, String)> {
        self.parameters.iter().map(|parameter| (parameter.name.clone(), parameter.value.clone())).collect()
    }

    /// Appends the messages for a client with these values: the server's values, except where the client has its own.
    pub(crate) fn write(&self, buffer: &mut Vec<u8>, params: &Params) {
        let mut begin = 0;
        for parameter in &self.parameters {
            let own = parameter.tracked.and_then(|index| params.at(index)).filter(|own| *own != parameter.value);
            match own {
                Some(own) => put_back::parameter_status(buffer, &parameter.name, own),
                None => buffer.extend_from_slice(&self.messages[begin..parameter.end]),
            }
            begin = parameter.end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_the_servers_values_except_where_it_has_its_own() {
        let table = ParamTable::new([]);
        let reported =
            [("server_version", "15.1"), ("TimeZone", "UTC"), ("application_name", ""), ("is_superuser", "off")];
        let sample = Reported::new(&table, reported.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
        let with = |values: &[(&str, &str)]| {
            let mut params = table.unknown();
            values.iter().for_each(|(name, value)| table.set(&mut params, name, value).unwrap());
            let mut buffer = Vec::new();
            sample.write(&mut buffer, &params);
            buffer
        };
        let expected = |values: [&str; 4]| {
            let mut buffer = Vec::new();
            for ((name, _), value) in reported.iter().zip(values) {
                put_back::parameter_status(&mut buffer, name, value);
            }
            buffer
        };
        assert_eq!(with(&[]), expected(["15.1", "UTC", "", "off"]));
        assert_eq!(with(&[("timezone", "UTC")]), expected(["15.1", "UTC", "", "off"]));
        assert_eq!(with(&[("application_name", "a"), ("TimeZone", "CET")]), expected(["15.1", "CET", "a", "off"]));
    }
}
