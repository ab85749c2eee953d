//! Lists in pages, ordered by name.

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use serde::Deserialize;
use weir_http::ApiError;

use super::params::within;

/// Entries of a page by default, and at most.
const PAGE: usize = 100;
const MAX_PAGE: usize = 1000;

/// The requested page.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PageQuery {
    #[serde(default)]
    after: String,
    limit: Option<usize>,
}

/// The query of a request for a page.
pub(super) type PageParams = Result<Query<PageQuery>, QueryRejection>;

/// The requested page.
pub(super) struct PageRequest {
    after: String,
    limit: usize,
}

impl PageRequest {
    pub(super) fn of(asked: PageParams) -> Result<PageRequest, ApiError> {
        let Query(PageQuery { after, limit }) = asked?;
        Ok(PageRequest { after, limit: page_limit(limit)? })
    }

    /// The entries of this page, of all that are sorted by their names, and the value of `after` for the next page;
    /// none on the last one.
    pub(super) fn cut<T>(&self, all: impl IntoIterator<Item = T>, name: fn(&T) -> &str) -> (Vec<T>, Option<String>) {
        let mut left = all.into_iter().filter(|one| name(one) > self.after.as_str());
        let page: Vec<T> = left.by_ref().take(self.limit).collect();
        let next = left.next().and(page.last()).map(|last| name(last).to_owned());
        (page, next)
    }
}

/// The entries of a page: as many as requested, up to the limit.
pub(super) fn page_limit(wanted: Option<usize>) -> Result<usize, ApiError> {
    within("limit", wanted.unwrap_or(PAGE), MAX_PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_each_other_and_the_last_one_says_so() {
        let page = |after: &str, limit| {
            let page_request = PageRequest { after: after.to_owned(), limit };
            let (names, next) = page_request.cut(["a", "b", "c", "d"], |name| name);
            (names.concat(), next)
        };
        assert_eq!(page("", 3), ("abc".to_owned(), Some("c".to_owned())));
        assert_eq!(page("c", 3), ("d".to_owned(), None));
        assert_eq!(page("", 4), ("abcd".to_owned(), None));
        assert_eq!(page("d", 1), (String::new(), None));
    }
}
