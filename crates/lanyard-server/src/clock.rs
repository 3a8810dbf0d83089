//! The wall clock in the formats of the API.

use jiff::Timestamp;

/// Now, as `metadata.creationTimestamp` has it: RFC 3339, whole seconds, UTC.
pub fn now_rfc3339() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Now, in seconds since 1970.
pub fn now_seconds() -> i64 {
    Timestamp::now().as_second()
}

/// A moment in RFC 3339 with microseconds, as leases and events have it.
pub fn rfc3339_micro(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// A moment as headers have it, e.g. `Last-Modified`.
pub fn http_date(moment: Timestamp) -> String {
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// A moment in seconds since 1970, in RFC 3339; the farthest one there is when it is too far away.
pub fn rfc3339(seconds: i64) -> String {
    let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
