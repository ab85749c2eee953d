//! The metrics of alerts: what fires, and whether the targets get their messages.

use super::family::{Family, Sink, Value};
use crate::alerts::TargetReport;

/// A figure of each target.
type Figure = (Family<'static>, fn(&TargetReport) -> Value<'static>);

/// Alerts, and the targets that are configured.
#[derive(Debug, Default)]
pub(super) struct AlertFigures {
    pub(super) firing: u32,
    pub(super) targets: Vec<TargetReport>,
}

impl AlertFigures {
    pub(super) fn write(&self, to: &mut dyn Sink) {
        to.single(Family::gauge("weir_alerts_firing", "Alerts that fire and are not silenced"), self.firing);
        let help = "1 while the last message could not be sent to a target";
        let figures: [Figure; 4] = [
            (Family::gauge("weir_alert_target_failing", help), |of| of.error.is_some().into()),
            (Family::gauge("weir_alert_messages_queued", "Messages that wait for a target"), |of| {
                (of.queued as u64).into()
            }),
            (Family::counter("weir_alert_messages_sent", "Messages that a target took"), |of| of.sent.into()),
            (Family::counter("weir_alert_messages_dropped", "Messages that were given up"), |of| of.dropped.into()),
        ];
        for (family, value) in figures {
            to.family(family);
            self.targets.iter().for_each(|target| to.point(&[("target", target.kind)], value(target)));
        }
    }
}
