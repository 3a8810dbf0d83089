//! Texts for those whose pods may not do what they think.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::path::{Path, items, number, part};
use crate::{field::quoted, object::ObjectExt};

/// Sources of volumes that no longer work, and since when.
const OLD_SOURCES: [(&str, &str); 8] = [
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The texts about a pod spec.
pub(in super::super) fn spec_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for (path, constraint) in path.items(spec, "topologySpreadConstraints") {
        if part(constraint, "labelSelector").is_none() {
            let at = path.child("labelSelector");
            warnings.push(format!("{at}: a null labelSelector results in matching no pod"));
        }
    }
    for (path, volume) in path.items(spec, "volumes") {
        for (source, since) in OLD_SOURCES {
            if part(volume, source).is_some() {
                warnings.push(format!("{}: {since}", path.child(source)));
            }
        }
    }
    for list in ["initContainers", "containers"] {
        for (path, container) in path.items(spec, list) {
            warnings.extend(hidden_variables(container, &path));
        }
    }
    if number(spec, "terminationGracePeriodSeconds") < 0 {
        warnings.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            path.child("terminationGracePeriodSeconds")
        ));
    }
    warnings
}

/// Variables that are defined twice; the first one may still be used by those in between.
fn hidden_variables(container: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut known = BTreeSet::new();
    for (at, variable) in items(container, "env").iter().enumerate() {
        let (name, value) = (variable.text(&["name"]), variable.text(&["value"]));
        let reference = format!("$({name})");
        let lost = value == reference || !value.contains(&reference);
        if !known.insert(name) && lost {
            warnings.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                path.child("env").index(at),
                quoted(name)
            ));
        }
    }
    warnings
}
