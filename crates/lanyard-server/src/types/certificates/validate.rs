//! What a request for a certificate may say, and what may be decided about it.

use serde_json::Value;
use x509_parser::parse_x509_certificate;

use super::{
    super::object_meta::validate_finalizer_domains,
    request::{APPROVED, DENIED, FAILED, conditions},
    signer_name,
};
use crate::{
    certificate_request::CertificateRequest,
    field::{FieldError, quoted},
    object::ObjectExt,
    pem,
    resource::Subresource,
    schema::decode_bytes,
};

/// Everything a certificate may be for, sorted.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// The name of requests from before signers had names; no new one may use it.
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

/// The shortest life of a certificate that can be asked for, in seconds.
const MIN_EXPIRATION: i64 = 600;

const CONDITIONS: &str = "status.conditions";
const CERTIFICATE: &str = "status.certificate";

/// The problems of a new request.
pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = validate_finalizer_domains(object);
    check_spec(object, &mut errors);
    errors
}

/// The problems of a change. The spec cannot change, and was checked when it was new.
pub(super) fn update(
    new: &Value,
    old: &Value,
    subresource: Option<Subresource>,
) -> Vec<FieldError> {
    let mut errors = validate_finalizer_domains(new);
    check_conditions(new, &mut errors);
    let changed = new.at(CERTIFICATE_AT) != old.at(CERTIFICATE_AT);
    if changed && let Err(problem) = check_certificate(new.text(CERTIFICATE_AT)) {
        errors.push(FieldError::invalid_str(CERTIFICATE, "<certificate data>", problem));
    }
    check_kept(new, old, subresource, &mut errors);
    if !changed {
        return errors;
    }
    if subresource != Some(Subresource::Status) {
        errors.push(FieldError::forbidden(CERTIFICATE, "updates may not set certificate content"));
    } else if !old.text(CERTIFICATE_AT).is_empty() {
        let problem = "updates may not modify existing certificate content";
        errors.push(FieldError::forbidden(CERTIFICATE, problem));
    }
    errors
}

const CERTIFICATE_AT: &[&str] = &["status", "certificate"];

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    let request = object.text(&["spec", "request"]);
    if let Err(problem) = CertificateRequest::parse(&decode_bytes(request).unwrap_or_default()) {
        let shown = match object.at(&["spec", "request"]) {
            Some(Value::String(_)) => quoted(request),
            _ => "null".into(),
        };
        errors.push(FieldError::invalid_json("spec.request", &shown, problem));
    }
    check_usages(&usages(object), errors);
    let signer = object.text(&["spec", "signerName"]);
    if signer == LEGACY_SIGNER {
        let problem = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid_str("spec.signerName", signer, problem));
    } else {
        errors.extend(signer_name::validate("spec.signerName", signer));
    }
    let expiration = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
    if let Some(seconds) = expiration.filter(|seconds| *seconds < MIN_EXPIRATION) {
        let problem = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid("spec.expirationSeconds", &seconds.into(), problem));
    }
}

fn check_usages(usages: &[&str], errors: &mut Vec<FieldError>) {
    if usages.is_empty() {
        errors.push(FieldError::required("spec.usages", ""));
    }
    let path = |index: usize| format!("spec.usages[{index}]");
    for (index, usage) in usages.iter().enumerate() {
        if !USAGES.contains(usage) {
            errors.push(FieldError::not_supported(path(index), usage, &USAGES));
        }
    }
    let mut seen = std::collections::HashSet::new();
    for (index, usage) in usages.iter().enumerate() {
        if !seen.insert(usage) {
            errors.push(FieldError::duplicate(path(index), &(*usage).into()));
        }
    }
}

/// `spec.usages`.
fn usages(object: &Value) -> Vec<&str> {
    let usages = object.at(&["spec", "usages"]).and_then(Value::as_array);
    usages.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn check_conditions(object: &Value, errors: &mut Vec<FieldError>) {
    const EXCLUSIVE: &str = "Approved and Denied conditions are mutually exclusive";
    let mut seen = std::collections::HashSet::new();
    for (index, condition) in conditions(object).iter().enumerate() {
        let path = |field: &str| format!("{CONDITIONS}[{index}].{field}");
        let kind = condition.text(&["type"]);
        if kind.is_empty() {
            errors.push(FieldError::required(path("type"), ""));
        }
        let allowed: &[&str] = match kind {
            APPROVED | DENIED | FAILED => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        match condition.text(&["status"]) {
            "" => errors.push(FieldError::required(path("status"), "")),
            status if allowed.contains(&status) => {}
            status => errors.push(FieldError::not_supported(path("status"), status, allowed)),
        }
        let other = match kind {
            APPROVED => DENIED,
            DENIED => APPROVED,
            _ => "",
        };
        if !other.is_empty() && seen.contains(other) {
            errors.push(FieldError::invalid_str(CONDITIONS, kind, EXCLUSIVE));
        }
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(path("type"), &kind.into()));
        }
    }
}

/// A decision stays, and is made at its own address only.
fn check_kept(
    new: &Value,
    old: &Value,
    subresource: Option<Subresource>,
    errors: &mut Vec<FieldError>,
) {
    let count = |object: &Value, kind: &str| {
        conditions(object).iter().filter(|c| c.text(&["type"]) == kind).count()
    };
    for kind in [APPROVED, DENIED, FAILED] {
        if count(new, kind) < count(old, kind) {
            let problem = format!("updates may not remove a condition of type {}", quoted(kind));
            errors.push(FieldError::forbidden(CONDITIONS, problem));
        }
    }
    if subresource == Some(Subresource::Approval) {
        return;
    }
    for kind in [APPROVED, DENIED] {
        if count(new, kind) > count(old, kind) {
            let problem = format!("updates may not add a condition of type {}", quoted(kind));
            errors.push(FieldError::forbidden(CONDITIONS, problem));
        }
    }
}

/// Issued certificates are PEM blocks of certificates, and nothing else.
fn check_certificate(base64: &str) -> Result<(), String> {
    if base64.is_empty() {
        return Ok(());
    }
    let mut found = 0;
    for block in pem::blocks(&decode_bytes(base64).unwrap_or_default()) {
        if block.label != "CERTIFICATE" {
            let label = quoted(&block.label);
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {label}"));
        }
        if block.headers {
            return Err("no PEM block headers are permitted".into());
        }
        found += 1;
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".into());
        }
        let mut rest: &[u8] = &block.bytes;
        while !rest.is_empty() {
            let parsed = parse_x509_certificate(rest);
            (rest, _) = parsed.map_err(|_| "x509: malformed certificate")?;
        }
    }
    match found {
        0 => Err("must contain at least one CERTIFICATE PEM block".into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{certificate_request::tests::request, schema::encode_bytes};

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn a_request_says_what_it_is_for() {
        let good = encode_bytes(request("CN=a", &[]));
        let check = |spec: Value, expected: &[&str]| {
            let mut object = json!({"metadata": {"name": "a"}, "spec": {
                "request": good, "usages": ["client auth"], "signerName": "example.com/a",
            }});
            for (field, value) in spec.as_object().unwrap() {
                object["spec"][field] = value.clone();
            }
            assert_eq!(texts(&create(&object)), expected, "{spec}");
        };
        check(json!({}), &[]);
        check(json!({"expirationSeconds": 600}), &[]);
        check(
            json!({"expirationSeconds": 599}),
            &[
                "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            ],
        );
        check(json!({"usages": []}), &["spec.usages: Required value"]);
        check(json!({"usages": ["any", "any"]}), &["spec.usages[1]: Duplicate value: \"any\""]);
        check(
            json!({"request": "eA=="}),
            &["spec.request: Invalid value: \"eA==\": PEM block type must be CERTIFICATE REQUEST"],
        );
        check(
            json!({"request": null}),
            &["spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST"],
        );
        check(json!({"signerName": ""}), &["spec.signerName: Required value"]);
        check(
            json!({"signerName": LEGACY_SIGNER}),
            &[
                "spec.signerName: Invalid value: \"kubernetes.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
            ],
        );
        check(
            json!({"signerName": "a/b/c"}),
            &[
                "spec.signerName: Invalid value: \"a/b/c\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ],
        );
        check(
            json!({"signerName": "a/b"}),
            &[
                "spec.signerName: Invalid value: \"a\": should be a domain with at least two segments separated by dots",
            ],
        );
    }

    #[test]
    fn decisions_are_made_once_and_where_they_belong() {
        let check = |subresource, old: Value, new: Value, expected: &[&str]| {
            let object = |status: &Value| json!({"metadata": {"name": "a"}, "status": status});
            let errors = update(&object(&new), &object(&old), subresource);
            assert_eq!(texts(&errors), expected, "{old} {new}");
        };
        let with = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
        let (approval, status) = (Some(Subresource::Approval), Some(Subresource::Status));
        check(approval, json!({}), with("Approved"), &[]);
        check(status, json!({}), with("Failed"), &[]);
        check(
            status,
            json!({}),
            with("Denied"),
            &["status.conditions: Forbidden: updates may not add a condition of type \"Denied\""],
        );
        check(
            approval,
            with("Approved"),
            json!({}),
            &[
                "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"",
            ],
        );
        check(
            approval,
            json!({}),
            json!({"conditions": [{"type": "Approved", "status": "False"}, {"type": "", "status": ""}]}),
            &[
                "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
                "status.conditions[1].type: Required value",
                "status.conditions[1].status: Required value",
            ],
        );
        check(
            approval,
            with("Approved"),
            json!({"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]}),
            &[
                "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive",
            ],
        );
        check(
            status,
            json!({}),
            json!({"certificate": "eA=="}),
            &[
                "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block",
            ],
        );
        let block = |label: &str| {
            encode_bytes(format!("-----BEGIN {label}-----\neA==\n-----END {label}-----\n"))
        };
        check(
            approval,
            json!({}),
            json!({"certificate": block("KEY")}),
            &[
                "status.certificate: Invalid value: \"<certificate data>\": only CERTIFICATE PEM blocks are allowed, found \"KEY\"",
                "status.certificate: Forbidden: updates may not set certificate content",
            ],
        );
        check(
            status,
            json!({"certificate": "eA=="}),
            json!({"certificate": block("CERTIFICATE")}),
            &[
                "status.certificate: Invalid value: \"<certificate data>\": x509: malformed certificate",
                "status.certificate: Forbidden: updates may not modify existing certificate content",
            ],
        );
    }
}
