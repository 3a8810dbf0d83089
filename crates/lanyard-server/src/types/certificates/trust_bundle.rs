//! ClusterTrustBundle: the root certificates that everybody in the cluster may trust, for one purpose.
//!
//! In this version upstream serves it as `v1beta1` only; from the next one on it is `v1`, unchanged.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use x509_parser::{parse_x509_certificate, prelude::X509Certificate};

use super::{
    super::{
        ALL_VERBS,
        column::{self, NAME, name_cell},
        names::{validate_name, validate_name_prefix},
        object_meta::{validate_finalizer_domains, validate_named},
    },
    GROUP, signer_name,
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    pem,
    resource::{Column, NameRule, Resource, Rules, Scope, View, WriteContext},
    schema::builtin,
};

/// The largest bundle.
const MAX_BYTES: usize = 1 << 20;

const BUNDLE: &str = "spec.trustBundle";

pub(in super::super) fn resource() -> Resource {
    Resource {
        storage: "clustertrustbundles.certificates.k8s.io".into(),
        plural: "clustertrustbundles".into(),
        singular: "clustertrustbundle".into(),
        kind: "ClusterTrustBundle".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[],
        views: ["v1", "v1beta1"]
            .map(|version| {
                let model = format!("io.k8s.api.certificates.{version}.ClusterTrustBundle");
                View::new(GROUP, version, builtin(&model))
            })
            .into(),
        rules: Arc::new(TrustBundles),
    }
}

static COLUMNS: [Column; 2] =
    [NAME, column::text("SignerName", "The signer whose certificates the bundle verifies.")];

struct TrustBundles;

impl Rules for TrustBundles {
    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let signer = object.text(&["spec", "signerName"]);
        let mut errors = validate_named(object, Scope::Cluster, |name, is_prefix| {
            name_problems(signer, name, is_prefix)
        });
        errors.extend(validate_finalizer_domains(object));
        check_signer(signer, &mut errors);
        check_bundle(object.text(&["spec", "trustBundle"]), &mut errors);
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        _context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        let text = |object: &Value, field| object.text(&["spec", field]).to_owned();
        let signer = text(new, "signerName");
        let mut errors = Vec::new();
        for problem in name_problems(&signer, new.name(), false) {
            errors.push(FieldError::invalid_str("metadata.name", new.name(), problem));
        }
        errors.extend(validate_finalizer_domains(new));
        check_signer(&signer, &mut errors);
        // What is stored was good when it came, whatever we think of it by now.
        let bundle = text(new, "trustBundle");
        if bundle != text(old, "trustBundle") {
            check_bundle(&bundle, &mut errors);
        }
        if signer != text(old, "signerName") {
            errors.push(FieldError::invalid_str("spec.signerName", &signer, "field is immutable"));
        }
        errors
    }

    fn checks_metadata(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let signer = match object.text(&["spec", "signerName"]) {
            "" => "<none>",
            signer => signer,
        };
        vec![name_cell(object), signer.into()]
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        match field {
            "spec.signerName" => object.text(&["spec", "signerName"]).to_owned(),
            _ => String::new(),
        }
    }
}

/// The bundles of a signer begin with its name, so that nobody else's can be taken for them.
fn name_problems(signer: &str, name: &str, is_prefix: bool) -> Vec<String> {
    let rule = if is_prefix { validate_name_prefix } else { validate_name };
    if signer.is_empty() {
        if name.contains(':') {
            let problem = "ClusterTrustBundle without signer name must not have \":\" in its name";
            return vec![problem.into()];
        }
        return rule(NameRule::DnsSubdomain, name);
    }
    let prefix = format!("{}:", signer.replace('/', ":"));
    match name.strip_prefix(&prefix) {
        Some(rest) => rule(NameRule::DnsSubdomain, rest),
        None => vec![format!(
            "ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}"
        )],
    }
}

fn check_signer(signer: &str, errors: &mut Vec<FieldError>) {
    if !signer.is_empty() {
        errors.extend(signer_name::validate("spec.signerName", signer));
    }
}

/// A bundle is a list of CA certificates, each one once.
fn check_bundle(text: &str, errors: &mut Vec<FieldError>) {
    if text.len() > MAX_BYTES {
        errors.push(FieldError::too_long(BUNDLE, MAX_BYTES));
        return;
    }
    let before = errors.len();
    let mut refuse =
        |problem: String| errors.push(FieldError::invalid_str(BUNDLE, "<value omitted>", problem));
    let mut found = HashMap::<Vec<u8>, Vec<usize>>::new();
    for (index, block) in pem::blocks(text.as_bytes()).enumerate() {
        match block_problem(&block) {
            Some(problem) => refuse(format!("entry {index} {problem}")),
            None => found.entry(block.bytes).or_default().push(index),
        }
    }
    if found.is_empty() && errors.len() == before {
        let problem = "at least one trust anchor must be provided";
        errors.push(FieldError::invalid_str(BUNDLE, "<value omitted>", problem));
    }
    if errors.len() > before {
        return;
    }
    let mut twice: Vec<Vec<usize>> = found.into_values().filter(|at| at.len() > 1).collect();
    twice.sort_unstable();
    for at in twice {
        let at: Vec<String> = at.iter().map(usize::to_string).collect();
        let problem = format!("duplicate trust anchor (indices [{}])", at.join(" "));
        errors.push(FieldError::invalid_str(BUNDLE, "<value omitted>", problem));
    }
}

fn block_problem(block: &pem::Block) -> Option<String> {
    if block.label != "CERTIFICATE" {
        return Some(format!("has bad block type: {}", block.label));
    }
    if block.headers {
        return Some("has PEM block headers".into());
    }
    let Some(certificate) = parse(&block.bytes) else {
        return Some("does not parse as X.509".into());
    };
    (!certificate.is_ca()).then(|| "does not have the CA bit set".into())
}

/// One certificate and nothing else, with no extension twice: which one counts would be anybody's guess.
fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = parse_x509_certificate(der).ok()?;
    let unambiguous = certificate.extensions_map().is_ok();
    (rest.is_empty() && unambiguous).then_some(certificate)
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    fn certificate(is_ca: IsCa) -> String {
        let mut params = CertificateParams::default();
        params.is_ca = is_ca;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn a_bundle_holds_authorities_and_nothing_else() {
        let check = |text: &str, expected: &[&str]| {
            let mut errors = Vec::new();
            check_bundle(text, &mut errors);
            let head = "spec.trustBundle: Invalid value: \"<value omitted>\": ";
            let texts: Vec<String> =
                errors.iter().map(|e| e.to_string().replace(head, "")).collect();
            assert_eq!(texts, expected, "{text}");
        };
        let ca = || certificate(IsCa::Ca(BasicConstraints::Unconstrained));
        let (a, b, leaf) = (ca(), ca(), certificate(IsCa::ExplicitNoCa));
        check(&a, &[]);
        check(&format!("words\n{a}more\n{b}"), &[]);
        check("", &["at least one trust anchor must be provided"]);
        check("words", &["at least one trust anchor must be provided"]);
        check(&leaf, &["entry 0 does not have the CA bit set"]);
        check(&certificate(IsCa::NoCa), &["entry 0 does not have the CA bit set"]);
        check(
            &format!("{a}{b}{a}{b}{b}"),
            &["duplicate trust anchor (indices [0 2])", "duplicate trust anchor (indices [1 3 4])"],
        );
        check(&format!("{a}{a}{leaf}"), &["entry 2 does not have the CA bit set"]);
        let with_headers = a.replacen("CERTIFICATE-----", "CERTIFICATE-----\na: b\n", 1);
        check(&with_headers, &["entry 0 has PEM block headers"]);
        check(&a.replace("CERTIFICATE", "X509"), &["entry 0 has bad block type: X509"]);
        let broken = "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n";
        check(&format!("{a}{broken}"), &["entry 1 does not parse as X.509"]);
        check(
            &"x".repeat(MAX_BYTES + 1),
            &["spec.trustBundle: Too long: may not be more than 1048576 bytes"],
        );
    }

    #[test]
    fn the_bundles_of_a_signer_carry_its_name() {
        let check = |signer: &str, name: &str, good: bool| {
            assert_eq!(name_problems(signer, name, false).is_empty(), good, "{signer} {name}");
        };
        check("", "a", true);
        check("", "a:b", false);
        check("", "A", false);
        check("example.com/s", "example.com:s:a", true);
        check("example.com/s", "example.com:s:", false);
        check("example.com/s", "example.com:t:a", false);
        check("example.com/s", "a", false);
    }
}
