//! The names of signers: `example.com/signer-name`.

use super::super::names::{dns_label, dns_subdomain};
use crate::field::{FieldError, quoted};

const MAX_DOMAIN: usize = 253;
/// A domain, a slash, and a path that can hold a label, a dot and a subdomain.
const MAX_NAME: usize = MAX_DOMAIN + 1 + (MAX_DOMAIN + 63 + 1);

/// The problems of the name of a signer.
pub(super) fn validate(path: &str, name: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let Some((domain, rest)) = name.split_once('/').filter(|(_, rest)| !rest.contains('/')) else {
        let problem =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return vec![FieldError::invalid_str(path, name, problem)];
    };
    let mut errors = Vec::new();
    if domain.len() > MAX_DOMAIN {
        errors.push(FieldError::too_long(path, MAX_DOMAIN));
    }
    check_labels(path, domain, dns_label, &mut errors);
    if !domain.contains('.') {
        let problem = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid_str(path, domain, problem));
    }
    check_labels(path, rest, |label| dns_subdomain(label, "characters"), &mut errors);
    if name.len() > MAX_NAME {
        errors.push(FieldError::too_long(path, MAX_NAME));
    }
    errors
}

/// The problems of the first label that has any: those of the others would read the same.
fn check_labels(
    path: &str,
    labels: &str,
    problems: impl Fn(&str) -> Vec<String>,
    errors: &mut Vec<FieldError>,
) {
    let first = labels.split('.').find_map(|label| {
        let problems = problems(label);
        (!problems.is_empty()).then_some((label, problems))
    });
    let Some((label, problems)) = first else { return };
    errors.extend(problems.into_iter().map(|problem| {
        let problem = format!("validating label {}: {problem}", quoted(label));
        FieldError::invalid_str(path, labels, problem)
    }));
}
