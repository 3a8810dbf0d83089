//! Prometheus metrics, named as kube-apiserver names them where it has the same thing.
//!
//! Labels take only values from closed sets (verbs, served resources, status codes), so that no client
//! can make the number of series grow.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry as Metrics,
};

use crate::{name::Name, registry::Registry};

/// What a finished request is counted under.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The verb.
    pub verb: &'static str,
    /// The API group of a served resource, or empty.
    pub group: Name,
    /// The served resource, or empty.
    pub resource: Name,
    /// The HTTP status code.
    pub code: u16,
}

/// Labels of the latency histogram: without the code, to keep it small.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LatencyLabels {
    verb: &'static str,
    resource: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: Name,
}

/// All metrics of a server.
pub struct ServerMetrics {
    metrics: Metrics,
    requests: Family<RequestLabels, Counter>,
    latency: Family<LatencyLabels, Histogram>,
    inflight: Gauge,
    objects: Family<ResourceLabels, Gauge>,
    watchers: Family<ResourceLabels, Gauge>,
    revision: Gauge<u64, AtomicU64>,
    store_bytes: Gauge<i64, AtomicI64>,
}

impl Default for ServerMetrics {
    fn default() -> Self {
        let mut metrics = Metrics::default();
        let requests = Family::default();
        let latency = Family::new_with_constructor(latency_histogram as fn() -> Histogram);
        let (inflight, objects, watchers) =
            (Gauge::default(), Family::default(), Family::default());
        let (revision, store_bytes) = (Gauge::default(), Gauge::default());
        metrics.register("apiserver_request", "Requests answered", requests.clone());
        metrics.register("apiserver_request_duration_seconds", "Time to answer", latency.clone());
        metrics.register(
            "apiserver_current_inflight_requests",
            "Requests being answered",
            inflight.clone(),
        );
        metrics.register("apiserver_storage_objects", "Objects stored", objects.clone());
        metrics.register("apiserver_registered_watchers", "Open watches", watchers.clone());
        metrics.register(
            "lanyard_store_revision",
            "Newest revision of the store",
            revision.clone(),
        );
        metrics.register(
            "lanyard_store_size_bytes",
            "Size of the store on disk",
            store_bytes.clone(),
        );
        Self { metrics, requests, latency, inflight, objects, watchers, revision, store_bytes }
    }
}

impl ServerMetrics {
    /// Counts a finished request.
    pub fn finished(&self, labels: RequestLabels, took: Duration) {
        let long_running = labels.verb == "watch";
        let latency = LatencyLabels { verb: labels.verb, resource: labels.resource.clone() };
        self.requests.get_or_create(&labels).inc();
        if !long_running {
            self.latency.get_or_create(&latency).observe(took.as_secs_f64());
        }
    }

    /// Counts a request as being answered until the guard is dropped.
    pub fn inflight(self: &Arc<Self>) -> InflightGuard {
        self.inflight.inc();
        InflightGuard(self.clone())
    }

    /// The text of `/metrics`.
    pub fn render(&self, registry: &Registry) -> String {
        // Types that are no longer served are forgotten.
        self.objects.clear();
        self.watchers.clear();
        for collection in &registry.served().collections {
            let (objects, watchers) = collection.counts();
            let labels = ResourceLabels { resource: collection.resource.storage.clone() };
            self.objects.get_or_create(&labels).set(objects as i64);
            self.watchers.get_or_create(&labels).set(watchers as i64);
        }
        let stats = registry.store.stats();
        self.revision.set(stats.revision.0);
        self.store_bytes.set(stats.disk_bytes as i64);
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.metrics);
        text
    }
}

/// Counts a request for as long as it lives.
pub struct InflightGuard(Arc<ServerMetrics>);

impl Drop for InflightGuard {
    fn drop(&mut self) {
        self.0.inflight.dec();
    }
}

fn latency_histogram() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
    ])
}
