//! What `kubectl get pods` shows: one word for the state of all containers.

use serde_json::Value;

use super::super::{
    column::{self, AGE, NAME, age_cell, name_cell, since},
    path::{flag, items, number},
};
use crate::{object::ObjectExt, resource::Column, schema::time};

pub(super) static COLUMNS: [Column; 9] = [
    NAME,
    column::text("Ready", "How many of the containers are ready."),
    column::text("Status", "The state of the containers as a whole."),
    column::text("Restarts", "How often containers were restarted, and when the last time."),
    AGE,
    column::wide("IP", "The address of the pod."),
    column::wide("Node", "The node that the pod is bound to."),
    column::wide("Nominated Node", "The node that is being cleared for the pod."),
    column::wide("Readiness Gates", "How many of the further conditions are met."),
];

/// The cells of a row.
pub(super) fn cells(pod: &Value, now: i64) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match (summary.restarts, summary.restarted) {
        (0, _) | (_, None) => summary.restarts.to_string(),
        (count, Some(time)) => format!("{count} ({} ago)", since(time, now)),
    };
    let address = items(&pod["status"], "podIPs").first().map_or("", |ip| ip.text(&["ip"]));
    vec![
        name_cell(pod),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age_cell(pod, now),
        or_none(address).into(),
        or_none(pod.text(&["spec", "nodeName"])).into(),
        or_none(pod.text(&["status", "nominatedNodeName"])).into(),
        readiness_gates(pod).into(),
    ]
}

/// The containers of a pod at a glance.
struct Summary<'a> {
    total: usize,
    ready: usize,
    reason: String,
    restarts: i64,
    /// When the last of them was.
    restarted: Option<&'a str>,
}

impl<'a> Summary<'a> {
    fn of(pod: &'a Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let (phase, why) = (status.text(&["phase"]), status.text(&["reason"]));
        let sidecars = items(spec, "initContainers").iter().filter(|c| is_sidecar(c));
        let gated = items(status, "conditions").iter().any(|condition| {
            condition.text(&["type"]) == "PodScheduled"
                && condition.text(&["reason"]) == "SchedulingGated"
        });
        let mut summary = Self {
            total: items(spec, "containers").len() + sidecars.count(),
            ready: 0,
            reason: if why.is_empty() { phase } else { why }.to_owned(),
            restarts: 0,
            restarted: None,
        };
        if gated {
            summary.reason = "SchedulingGated".into();
        }
        let (initializing, sidecars) = summary.initialize(spec, status);
        if !initializing || has_condition(status, "Initialized") {
            (summary.restarts, summary.restarted) = sidecars;
            summary.run(status);
        }
        if pod.is_deleting() {
            if why == "NodeLost" {
                summary.reason = "Unknown".into();
            } else if !matches!(phase, "Failed" | "Succeeded") {
                summary.reason = "Terminating".into();
            }
        }
        summary
    }

    /// The init containers, one after another, until one is not done; the restarts of sidecars.
    fn initialize(&mut self, spec: &'a Value, status: &'a Value) -> (bool, (i64, Option<&'a str>)) {
        let mut sidecars = (0, None);
        for (at, container) in items(status, "initContainerStatuses").iter().enumerate() {
            let named = |c: &&Value| c.text(&["name"]) == container.text(&["name"]);
            let sidecar = items(spec, "initContainers").iter().find(named).is_some_and(is_sidecar);
            count(container, &mut self.restarts, &mut self.restarted);
            if sidecar {
                count(container, &mut sidecars.0, &mut sidecars.1);
            }
            let terminated = container.at(&["state", "terminated"]).filter(|s| s.is_object());
            let waiting = container.text(&["state", "waiting", "reason"]);
            if terminated.is_some_and(|state| number(state, "exitCode") == 0) {
                continue;
            }
            if sidecar && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            self.reason = match terminated {
                Some(state) => format!("Init:{}", end_reason(state)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{at}/{}", items(spec, "initContainers").len()),
            };
            return (true, sidecars);
        }
        (false, sidecars)
    }

    /// The containers proper, the last first.
    fn run(&mut self, status: &'a Value) {
        let (mut running, mut failure) = (false, String::new());
        for container in items(status, "containerStatuses").iter().rev() {
            count(container, &mut self.restarts, &mut self.restarted);
            let waiting = container.text(&["state", "waiting", "reason"]);
            let terminated = container.at(&["state", "terminated"]).filter(|s| s.is_object());
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(state) = terminated {
                self.reason = end_reason(state);
                if number(state, "exitCode") != 0 {
                    failure.clone_from(&self.reason);
                }
            } else if flag(container, "ready") && container.at(&["state", "running"]).is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && has_condition(status, "Ready") {
                self.reason = "Running".into();
            } else if !failure.is_empty() {
                self.reason = failure;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }
}

fn end_reason(state: &Value) -> String {
    match (state.text(&["reason"]), number(state, "signal")) {
        ("", 0) => format!("ExitCode:{}", number(state, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn count<'a>(container: &'a Value, restarts: &mut i64, last: &mut Option<&'a str>) {
    *restarts += number(container, "restartCount");
    let ended = container.text(&["lastState", "terminated", "finishedAt"]);
    let seconds = |time: &str| time::unix_seconds(time);
    if !ended.is_empty() && last.and_then(seconds) < seconds(ended) {
        *last = Some(ended);
    }
}

fn is_sidecar(container: &Value) -> bool {
    container.text(&["restartPolicy"]) == "Always"
}

fn has_condition(status: &Value, name: &str) -> bool {
    items(status, "conditions")
        .iter()
        .any(|c| c.text(&["type"]) == name && c.text(&["status"]) == "True")
}

fn readiness_gates(pod: &Value) -> String {
    let gates = items(&pod["spec"], "readinessGates");
    if gates.is_empty() {
        return "<none>".into();
    }
    let met = |gate: &&Value| has_condition(&pod["status"], gate.text(&["conditionType"]));
    format!("{}/{}", gates.iter().filter(met).count(), gates.len())
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_state_of_a_pod_is_one_word() {
        let check = |status: Value, expected: &[&str]| {
            let pod = json!({
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]},
                "status": status,
            });
            let row = cells(&pod, 1_600_000_000);
            assert_eq!(row[1..4], expected.iter().map(|c| json!(c)).collect::<Vec<_>>(), "{pod}");
        };
        check(json!({"phase": "Pending"}), &["0/1", "Pending", "0"]);
        check(
            json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
            &["0/1", "Init:0/1", "0"],
        );
        check(
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "ready": true, "restartCount": 2,
                "state": {"running": {}},
                "lastState": {"terminated": {"finishedAt": "2020-09-13T12:26:30Z"}}}]}),
            &["1/1", "Running", "2 (10s ago)"],
        );
        check(
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            &["0/1", "CrashLoopBackOff", "0"],
        );
        check(
            json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]}),
            &["0/1", "ExitCode:3", "0"],
        );
    }
}
