//! Probes and hooks: exactly one thing to do, at sensible times.

use serde_json::Value;

use super::super::{
    path::{Path, items, number, part},
    ports::{validate_port, validate_port_number},
};
use crate::{field::FieldError, object::ObjectExt};

/// The ways to do something, in upstream's order.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

const NEGATIVE: &str = "must be greater than or equal to 0";

/// The problems of the probes and hooks of a container. `grace` is how long the pod may take to end.
pub(super) fn validate_handlers(
    container: &Value,
    grace: Option<i64>,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(lifecycle) = part(container, "lifecycle") {
        let path = path.child("lifecycle");
        for hook in ["postStart", "preStop"] {
            if let Some(handler) = part(lifecycle, hook) {
                errors.extend(validate_handler(handler, grace, &path.child(hook)));
            }
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = part(container, name) else { continue };
        let path = path.child(name);
        errors.extend(validate_probe(probe, grace, &path));
        let successes = number(probe, "successThreshold");
        let ends = probe.get("terminationGracePeriodSeconds").filter(|value| !value.is_null());
        match name {
            "readinessProbe" => {
                let at = path.child("terminationGracePeriodSeconds");
                let problem = "must not be set for readinessProbes";
                errors.extend(ends.map(|ends| FieldError::invalid(at, ends, problem)));
            }
            _ if successes != 1 => {
                let at = path.child("successThreshold");
                errors.push(FieldError::invalid(at, &successes.into(), "must be 1"));
            }
            _ => {}
        }
    }
    errors
}

fn validate_probe(probe: &Value, grace: Option<i64>, path: &Path) -> Vec<FieldError> {
    let mut errors = validate_handler(probe, grace, path);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        let value = number(probe, field);
        if value < 0 {
            errors.push(FieldError::invalid(path.child(field), &value.into(), NEGATIVE));
        }
    }
    let field = "terminationGracePeriodSeconds";
    if let Some(seconds) = probe.get(field).and_then(Value::as_i64).filter(|s| *s <= 0) {
        let problem = "must be greater than 0";
        errors.push(FieldError::invalid(path.child(field), &seconds.into(), problem));
    }
    errors
}

fn validate_handler(handler: &Value, grace: Option<i64>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut handlers = 0;
    for name in HANDLERS {
        let Some(action) = part(handler, name) else { continue };
        let path = path.child(name);
        if handlers > 0 {
            let problem = "may not specify more than 1 handler type";
            errors.push(FieldError::forbidden(path, problem));
            continue;
        }
        handlers += 1;
        errors.extend(validate_action(name, action, grace, &path));
    }
    if handlers == 0 {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
    errors
}

fn validate_action(name: &str, action: &Value, grace: Option<i64>, path: &Path) -> Vec<FieldError> {
    match name {
        "exec" if items(action, "command").is_empty() => {
            vec![FieldError::required(path.child("command"), "")]
        }
        "httpGet" => validate_http_get(action, path),
        "tcpSocket" => {
            validate_port(action.get("port").unwrap_or(&Value::Null), &path.child("port"))
        }
        "grpc" => {
            validate_port_number(number(action, "port"), path.child("port")).into_iter().collect()
        }
        "sleep" => {
            let seconds = number(action, "seconds");
            let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) else {
                return Vec::new();
            };
            let problem = format!(
                "must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            );
            vec![FieldError::invalid(path, &seconds.into(), problem)]
        }
        _ => Vec::new(),
    }
}

fn validate_http_get(action: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if action.text(&["path"]).is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    let port = action.get("port").unwrap_or(&Value::Null);
    errors.extend(validate_port(port, &path.child("port")));
    let scheme = action.text(&["scheme"]);
    if !matches!(scheme, "HTTP" | "HTTPS") {
        errors.push(FieldError::not_supported(path.child("scheme"), scheme, &["HTTP", "HTTPS"]));
    }
    for header in items(action, "httpHeaders") {
        let name = header.text(&["name"]);
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(good) {
            let problem = "a valid HTTP header must consist of alphanumeric characters or '-' \
                           (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";
            errors.push(FieldError::invalid_str(path.child("httpHeaders"), name, problem));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_probes_and_hooks() {
        let check = |container: Value, expected: &[&str]| {
            let errors = validate_handlers(&container, Some(30), &Path::new("c"));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{container}");
        };
        let probe = |handler: Value| {
            let mut probe = json!({"successThreshold": 1});
            probe.as_object_mut().unwrap().extend(handler.as_object().unwrap().clone());
            probe
        };
        check(json!({"livenessProbe": probe(json!({"exec": {"command": ["a"]}}))}), &[]);
        check(
            json!({"livenessProbe": probe(json!({}))}),
            &["c.livenessProbe: Required value: must specify a handler type"],
        );
        check(
            json!({"readinessProbe": probe(json!({"httpGet": {"path": "/", "scheme": "FTP", "port": 0}}))}),
            &[
                "c.readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "c.readinessProbe.httpGet.scheme: Unsupported value: \"FTP\": supported values: \"HTTP\", \"HTTPS\"",
            ],
        );
        check(
            json!({"startupProbe": {"tcpSocket": {"port": "http"}, "grpc": {"port": 1}, "successThreshold": 2}}),
            &[
                "c.startupProbe.grpc: Forbidden: may not specify more than 1 handler type",
                "c.startupProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        );
        check(
            json!({"lifecycle": {"preStop": {"sleep": {"seconds": 31}}}}),
            &[
                "c.lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        );
    }
}
