//! Which requests nobody needs any more.

use serde_json::Value;
use x509_parser::parse_x509_certificate;

use super::{conditions, has_certificate};
use crate::{
    object::ObjectExt,
    pem,
    schema::{decode_bytes, time},
};

const HOUR: i64 = 3600;
/// How long a request is kept after it was decided.
const DECIDED: i64 = HOUR;
/// How long a request waits for a decision, or for its certificate.
const WAITING: i64 = 24 * HOUR;

/// Whether a request is to be removed; `now` is in seconds since 1970.
pub(super) fn is_stale(object: &Value, now: i64) -> bool {
    let issued = has_certificate(object);
    let older = |text: &str, seconds: i64| {
        time::unix_seconds(text).is_some_and(|then| now.saturating_sub(then) > seconds)
    };
    if conditions(object).is_empty() {
        return older(object.text(&["metadata", "creationTimestamp"]), WAITING);
    }
    conditions(object).iter().any(|condition| {
        let updated = condition.text(&["lastUpdateTime"]);
        match condition.text(&["type"]) {
            "Denied" | "Failed" => older(updated, DECIDED),
            "Approved" if issued => older(updated, DECIDED) || has_expired(object, now),
            "Approved" => older(updated, WAITING),
            _ => false,
        }
    })
}

fn has_expired(object: &Value, now: i64) -> bool {
    let text = decode_bytes(object.text(&["status", "certificate"])).unwrap_or_default();
    let Some(block) = pem::blocks(&text).next() else { return false };
    parse_x509_certificate(&block.bytes)
        .is_ok_and(|(_, certificate)| certificate.validity().not_after.timestamp() < now)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;
    use crate::schema::encode_bytes;

    #[test]
    fn requests_are_kept_as_long_as_upstream_keeps_them() {
        const CREATED: &str = "2026-01-01T00:00:00Z";
        let created = time::unix_seconds(CREATED).unwrap();
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2025, 1, 1);
        let expired = params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem();
        let check = |kind: &str, certificate: &str, seconds: i64, expected: bool| {
            let mut object = json!({"metadata": {"creationTimestamp": CREATED}, "status": {}});
            if !kind.is_empty() {
                object["status"]["conditions"] = json!([{"type": kind, "lastUpdateTime": CREATED}]);
            }
            object["status"]["certificate"] = encode_bytes(certificate).into();
            assert_eq!(is_stale(&object, created + seconds), expected, "{kind} {seconds}");
        };
        check("", "", 24 * HOUR, false);
        check("", "", 24 * HOUR + 1, true);
        for kind in ["Denied", "Failed"] {
            check(kind, "", HOUR, false);
            check(kind, "", HOUR + 1, true);
        }
        check("Approved", "x", HOUR, false);
        check("Approved", "x", HOUR + 1, true);
        check("Approved", &expired, 1, true);
        check("Approved", "", 24 * HOUR, false);
        check("Approved", "", 24 * HOUR + 1, true);
        check("Other", "", 48 * HOUR, false);
    }
}
