//! A pool's recorded figures as the moments that advice is made of.

use weir_http::ApiError;
use weir_monitor::{Moment, Sample, Scale, Watch, place};

/// The moments of a pool's past; those of which nothing is known are left out.
pub(super) async fn moments(
    watch: &Watch,
    pool: &str,
    scale: Scale,
    from: u64,
    count: u64,
) -> Result<Vec<Moment>, ApiError> {
    let (samples, _) = watch.history(pool, scale, from, count).await?;
    Ok(converted(&samples))
}

/// Converts samples to moments; leaves out those of which nothing is known.
fn converted(samples: &[Sample]) -> Vec<Moment> {
    // Looked up once, not for each of thousands of samples.
    let [waiting, active, idle, in_transaction, rate, mean, wait, share, pinned] = [
        "clients_waiting",
        "servers_active",
        "servers_idle",
        "servers_idle_in_transaction",
        "transactions_per_second",
        "transaction_ms_mean",
        "wait_ms_p95",
        "idle_in_transaction_share",
        "servers_pinned",
    ]
    .map(place);
    let moment = |sample: &Sample| {
        let known = |place: Option<usize>| Some(f64::from(sample[place?])).filter(|value| !value.is_nan());
        Some(Moment {
            clients_waiting: known(waiting)?,
            servers_active: known(active)?,
            servers_idle: known(idle)?,
            servers_idle_in_transaction: known(in_transaction)?,
            transactions_per_second: known(rate),
            transaction_ms_mean: known(mean),
            wait_ms_p95: known(wait),
            idle_in_transaction_share: known(share),
            servers_pinned: known(pinned).unwrap_or(0.0),
        })
    };
    samples.iter().filter_map(moment).collect()
}
