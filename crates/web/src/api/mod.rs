//! The paths of the API. Their handlers are the files beside this one; `openapi.json` describes input and output, and
//! a test compares it with the paths.

mod access_rules;
mod advice;
mod alerts;
mod applied_advice;
mod audit;
mod body;
mod change;
mod cluster;
mod connections;
mod database_servers;
mod databases;
mod dry_run;
mod events;
mod gate;
mod history;
mod incidents;
mod lab;
mod log;
mod login;
mod moments;
mod oidc;
mod page;
mod params;
mod pools;
mod process;
mod statements;
mod users;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRef, Request};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, post, put};
use axum::{Router, middleware};
use tokio::time::timeout;
use weir_admin::{ConfigAccess, ServerProbes};
use weir_config::WebRole;
use weir_http::{Access, ApiError, HeldBody, RequiredRole, SingleSignOn, Ticket, Timeouts, guard};
use weir_monitor::{ActivityProbe, AlertWatch, Capacities, ExportCounter, LastFigures, Watch, Workers};

use crate::audit::Audit;
use crate::health::Probe;
use crate::lab::Lab;
use crate::pool_tests::PoolTests;
use crate::versions::Versions;
use crate::{compress, docs, health, metrics, panel};
use applied_advice::AppliedAdvice;
use gate::{Gate, MAX_BODY};

/// Health checks, which are answered under any load.
const HEALTH: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// The state of the handlers.
#[derive(Clone)]
struct App {
    workers: Workers,
    access: Access,
    audit: Audit,
    alerts: AlertWatch,
    config: Arc<dyn ConfigAccess>,
    versions: Versions,
    pool_tests: PoolTests,
    activity_probe: ActivityProbe,
    capacities: Capacities,
    applied: AppliedAdvice,
    probe: Probe,
    version: &'static str,
    watch: Watch,
    lab: Lab,
    sso: SingleSignOn,
    exports: ExportCounter,
    figures: LastFigures,
}

/// Handlers take the parts of the state that they need.
macro_rules! handlers_take {
    ($($part:ident: $type:ty),* $(,)?) => {
        $(impl FromRef<App> for $type {
            fn from_ref(app: &App) -> $type {
                app.$part.clone()
            }
        })*
    };
}

handlers_take! {
    access: Access,
    alerts: AlertWatch,
    audit: Audit,
    config: Arc<dyn ConfigAccess>,
    versions: Versions,
    pool_tests: PoolTests,
    activity_probe: ActivityProbe,
    capacities: Capacities,
    applied: AppliedAdvice,
    probe: Probe,
    workers: Workers,
    watch: Watch,
    lab: Lab,
    exports: ExportCounter,
    figures: LastFigures,
    sso: SingleSignOn,
}

impl FromRef<App> for (PoolTests, ActivityProbe) {
    fn from_ref(app: &App) -> (PoolTests, ActivityProbe) {
        (app.pool_tests.clone(), app.activity_probe.clone())
    }
}

impl FromRef<App> for (Access, SingleSignOn) {
    fn from_ref(app: &App) -> (Access, SingleSignOn) {
        (app.access.clone(), app.sso.clone())
    }
}

impl FromRef<App> for &'static str {
    fn from_ref(app: &App) -> &'static str {
        app.version
    }
}

/// The paths, the roles for reading and for changes, and the handlers.
fn paths() -> Vec<(&'static str, RequiredRole, RequiredRole, MethodRouter<App>)> {
    vec![
        ("/healthz", ANYONE, ANYONE, get(health::alive)),
        ("/readyz", ANYONE, ANYONE, get(health::ready)),
        ("/metrics", VIEWER, ADMIN, get(metrics::metrics)),
        ("/api/v1/openapi.json", ANYONE, ADMIN, get(openapi)),
        ("/api/v1/login", ANYONE, ANYONE, get(login::ways).post(login::login)),
        ("/api/v1/logout", ANYONE, ANYONE, post(login::logout)),
        ("/api/v1/oidc/login", ANYONE, ADMIN, get(oidc::login)),
        ("/api/v1/oidc/callback", ANYONE, ADMIN, get(oidc::callback)),
        ("/api/v1/me", ANYONE, ADMIN, get(login::me)),
        ("/api/v1/audit", OPERATOR, ADMIN, get(audit::audit)),
        ("/api/v1/status", VIEWER, ADMIN, get(process::status)),
        ("/api/v1/cluster", VIEWER, ADMIN, get(cluster::cluster)),
        ("/api/v1/reload", VIEWER, OPERATOR, post(versions::reload)),
        ("/api/v1/drain", VIEWER, ADMIN, post(process::drain)),
        ("/api/v1/settings", VIEWER, ADMIN, get(process::settings)),
        ("/api/v1/settings/{key}", VIEWER, ADMIN, put(process::set)),
        ("/api/v1/config/pending", OPERATOR, ADMIN, get(versions::pending)),
        ("/api/v1/config/versions", VIEWER, ADMIN, get(versions::list)),
        ("/api/v1/config/versions/{number}", VIEWER, ADMIN, get(versions::one)),
        ("/api/v1/config/versions/{number}/preview", VIEWER, ADMIN, post(versions::preview)),
        ("/api/v1/config/versions/{number}/restore", VIEWER, ADMIN, post(versions::restore)),
        ("/api/v1/pool-keys", VIEWER, ADMIN, get(process::pool_keys)),
        ("/api/v1/advice", VIEWER, ADMIN, get(advice::advice)),
        ("/api/v1/advice/{name}/apply", VIEWER, ADMIN, post(advice::apply)),
        ("/api/v1/advice/{name}/undo", VIEWER, ADMIN, post(advice::undo)),
        ("/api/v1/advice/{name}/keep", VIEWER, ADMIN, post(advice::keep)),
        ("/api/v1/incidents", VIEWER, ADMIN, get(incidents::list)),
        ("/api/v1/incidents/past", VIEWER, ADMIN, get(incidents::past)),
        ("/api/v1/alerts", VIEWER, ADMIN, get(alerts::list)),
        ("/api/v1/alerts/past", VIEWER, ADMIN, get(alerts::past)),
        ("/api/v1/alerts/test", VIEWER, OPERATOR, post(alerts::test)),
        ("/api/v1/silences", VIEWER, OPERATOR, post(alerts::silence)),
        ("/api/v1/silences/{id}", VIEWER, OPERATOR, delete(alerts::end_silence)),
        ("/api/v1/statements", VIEWER, ADMIN, get(statements::list)),
        ("/api/v1/statements/reset", VIEWER, OPERATOR, post(statements::reset)),
        ("/api/v1/dry-run", VIEWER, ADMIN, get(dry_run::all)),
        ("/api/v1/start-record", VIEWER, OPERATOR, post(dry_run::start_all)),
        ("/api/v1/stop-record", VIEWER, OPERATOR, post(dry_run::stop_all)),
        ("/api/v1/log", VIEWER, ADMIN, get(log::list)),
        ("/api/v1/events", VIEWER, ADMIN, get(events::events)),
        ("/api/v1/history", VIEWER, ADMIN, get(history::overview)),
        ("/api/v1/pools", VIEWER, ADMIN, get(pools::list).post(change::make)),
        // A pool may have this name.
        (
            "/api/v1/pools/test",
            VIEWER,
            ADMIN,
            post(change::test).get(pools::one).patch(change::alter).delete(change::delete),
        ),
        ("/api/v1/pools/{name}", VIEWER, ADMIN, get(pools::one).patch(change::alter).delete(change::delete)),
        ("/api/v1/pools/{name}/config", VIEWER, ADMIN, get(change::config)),
        ("/api/v1/pools/{name}/history", VIEWER, ADMIN, get(history::history)),
        ("/api/v1/pools/{name}/dry-run", VIEWER, ADMIN, get(dry_run::one)),
        ("/api/v1/pools/{name}/start-record", VIEWER, OPERATOR, post(dry_run::start)),
        ("/api/v1/pools/{name}/stop-record", VIEWER, OPERATOR, post(dry_run::stop)),
        ("/api/v1/pools/{name}/pause", VIEWER, OPERATOR, post(pools::pause)),
        ("/api/v1/pools/{name}/resume", VIEWER, OPERATOR, post(pools::resume)),
        ("/api/v1/pools/{name}/reconnect", VIEWER, OPERATOR, post(pools::reconnect)),
        ("/api/v1/pools/{name}/retry", VIEWER, OPERATOR, post(pools::retry)),
        ("/api/v1/pools/{name}/switch", VIEWER, OPERATOR, post(pools::switch)),
        ("/api/v1/pools/{name}/kill", VIEWER, OPERATOR, post(pools::kill)),
        ("/api/v1/pools/{name}/disable", VIEWER, OPERATOR, post(pools::disable)),
        ("/api/v1/pools/{name}/enable", VIEWER, OPERATOR, post(pools::enable)),
        ("/api/v1/pools/{name}/backends/{process_id}/cancel", VIEWER, ADMIN, post(incidents::cancel)),
        ("/api/v1/pools/{name}/backends/{process_id}/terminate", VIEWER, ADMIN, post(incidents::terminate)),
        ("/api/v1/databases", VIEWER, ADMIN, get(databases::list)),
        ("/api/v1/database-servers", VIEWER, ADMIN, get(database_servers::list)),
        ("/api/v1/access-rules", VIEWER, ADMIN, get(access_rules::access_rules)),
        ("/api/v1/users", VIEWER, ADMIN, get(users::list).post(users::make)),
        ("/api/v1/users/{name}", VIEWER, ADMIN, get(users::one).patch(users::alter).delete(users::delete)),
        ("/api/v1/users/{name}/test", VIEWER, ADMIN, post(users::test)),
        ("/api/v1/pause", VIEWER, OPERATOR, post(pools::pause_all)),
        ("/api/v1/resume", VIEWER, OPERATOR, post(pools::resume_all)),
        ("/api/v1/reconnect", VIEWER, OPERATOR, post(pools::reconnect_all)),
        ("/api/v1/clients", VIEWER, ADMIN, get(connections::clients)),
        ("/api/v1/clients/{id}", VIEWER, OPERATOR, delete(connections::kill)),
        ("/api/v1/servers", VIEWER, ADMIN, get(connections::servers)),
        ("/api/v1/lab", VIEWER, ADMIN, get(lab::list)),
        ("/lab/{report}/{file}", VIEWER, ADMIN, get(lab::file)),
        ("/lab/{report}/raw/{file}", VIEWER, ADMIN, get(lab::raw)),
    ]
}

const ANYONE: RequiredRole = RequiredRole::Anyone;
const VIEWER: RequiredRole = RequiredRole::Role(WebRole::Viewer);
const OPERATOR: RequiredRole = RequiredRole::Role(WebRole::Operator);
const ADMIN: RequiredRole = RequiredRole::Role(WebRole::Admin);

/// What is behind the paths.
pub(crate) struct Behind {
    pub(crate) workers: Workers,
    pub(crate) access: Access,
    pub(crate) sso: SingleSignOn,
    pub(crate) config: Arc<dyn ConfigAccess>,
    pub(crate) probes: Arc<dyn ServerProbes>,
    pub(crate) activity_probe: ActivityProbe,
    pub(crate) watch: Watch,
    pub(crate) versions: Versions,
    pub(crate) alerts: AlertWatch,
    pub(crate) exports: ExportCounter,
    pub(crate) lab: Lab,
    pub(crate) audit: Audit,
    pub(crate) timeouts: Timeouts,
    /// The version that SHOW VERSION shows.
    pub(crate) version: &'static str,
}

/// All paths, behind the guard.
pub(crate) fn router(behind: Behind) -> Router {
    let Behind {
        workers,
        access,
        sso,
        config,
        probes,
        activity_probe,
        watch,
        versions,
        alerts,
        exports,
        lab,
        audit,
        timeouts,
        version,
    } = behind;
    let empty = Router::new();
    let pool_tests = PoolTests::new(config.clone(), probes.clone());
    let capacities = Capacities::new(probes);
    let probe = Probe::new(workers.clone());
    let applied = AppliedAdvice::new(workers.clone(), watch.clone(), audit.clone());
    let gated = |reads, changes, methods: MethodRouter<App>| {
        let gate = Gate { access: access.clone(), audit: audit.clone(), reads, changes, body_timeout: timeouts.body };
        methods.route_layer(middleware::from_fn_with_state(gate, gate::pass))
    };
    let router = paths()
        .into_iter()
        .fold(empty, |router, (path, reads, changes, methods)| router.route(path, gated(reads, changes, methods)));
    router
        .merge(panel::router())
        .merge(docs::router())
        .method_not_allowed_fallback(async || ApiError::NoSuchMethod)
        .fallback(async || ApiError::NoSuchPath)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(move |request: Request, next: Next| in_bounds(request, next, timeouts.request)))
        .layer(middleware::from_fn_with_state(access.clone(), guard))
        .layer(compress::layer())
        .with_state(App {
            workers,
            access,
            audit,
            alerts,
            config,
            versions,
            pool_tests,
            activity_probe,
            capacities,
            applied,
            probe,
            version,
            watch,
            lab,
            sso,
            exports,
            figures: LastFigures::default(),
        })
}

/// The end of the path of the only request that may take longer than any other: it has a limit of its own, the pool's
/// `switch_timeout`.
const SWITCH: &str = "/switch";

/// Counts a request until its answer has been sent. Refuses a body whose Content-Length is too large before reading
/// it, and times out a request whose body or answer takes too long.
async fn in_bounds(mut request: Request, next: Next, longest: Duration) -> Response {
    let said = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|length| length > MAX_BODY as u64) {
        return ApiError::TooLong.into_response();
    }
    let health = HEALTH.contains(&request.uri().path());
    let serving = request.extensions_mut().get::<Ticket>().cloned().map(|ticket| ticket.serve(health));
    let answer = match request.uri().path().ends_with(SWITCH) {
        true => next.run(request).await,
        false => timeout(longest, next.run(request)).await.unwrap_or_else(|_| ApiError::TooSlow.into_response()),
    };
    match serving {
        Some(serving) => answer.map(|body| Body::new(HeldBody { body, _serving: serving })),
        None => answer,
    }
}

async fn openapi() -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], include_str!("openapi.json"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_description_has_every_path() {
        let description: serde_json::Value = serde_json::from_str(include_str!("openapi.json")).expect("JSON");
        let described: BTreeSet<&str> =
            description["paths"].as_object().expect("paths").keys().map(String::as_str).collect();
        assert_eq!(described, paths().into_iter().map(|(path, ..)| path).collect());
    }

    #[test]
    fn the_description_names_the_figures_of_a_pool() {
        let description: serde_json::Value = serde_json::from_str(include_str!("openapi.json")).expect("JSON");
        let names: Vec<_> = weir_monitor::SERIES.iter().map(|series| series.name).collect();
        assert_eq!(description["components"]["schemas"]["SeriesName"]["enum"], serde_json::json!(names));
    }

    #[test]
    fn each_schema_of_the_description_is_there_once() {
        let (_, schemas) = include_str!("openapi.json").split_once("\"schemas\": {").expect("schemas");
        let mut known = BTreeSet::new();
        let names = schemas.lines().filter(|line| line.starts_with("   \""));
        let twice: Vec<&str> = names.filter(|name| !known.insert(*name)).collect();
        assert!(twice.is_empty() && known.len() > 50, "{twice:?}");
    }
}
