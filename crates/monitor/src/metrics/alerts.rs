//! The metrics of alerts: what fires, and whether the targets get their messages.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::labels::count_of;
use crate::alerts::TargetReport;

/// A figure of each target: its name, its help, and its value.
type Figure<V> = (&'static str, &'static str, fn(&TargetReport) -> V);

/// Alerts, and the targets that are configured.
#[derive(Debug, Default)]
pub(super) struct AlertFigures {
    pub(super) firing: u32,
    pub(super) targets: Vec<TargetReport>,
}

impl AlertFigures {
    pub(super) fn encode(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Alerts that fire and are not silenced";
        to.encode_descriptor("weir_alerts_firing", help, None, MetricType::Gauge)?.encode_gauge(&self.firing)?;
        let gauges: [Figure<u32>; 2] = [
            ("weir_alert_target_failing", "1 while the last message could not be sent to a target", |of| {
                u32::from(of.error.is_some())
            }),
            ("weir_alert_messages_queued", "Messages that wait for a target", |of| of.queued as u32),
        ];
        for (name, help, value) in gauges {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for target in &self.targets {
                family.encode_family(&[("target", target.kind)])?.encode_gauge(&value(target))?;
            }
        }
        let counters: [Figure<u64>; 2] = [
            ("weir_alert_messages_sent", "Messages that a target took", |of| of.sent),
            ("weir_alert_messages_dropped", "Messages that were given up", |of| of.dropped),
        ];
        for (name, help, value) in counters {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for target in &self.targets {
                count_of(&mut family, &[("target", target.kind)], value(target))?;
            }
        }
        Ok(())
    }
}
