//! The volumes of a pod: one source each, and paths that stay inside of the volume.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{
    super::path::{Path, items, number, part},
    env::{validate_field_ref, validate_resource_ref},
};
use crate::{
    field::FieldError, object::ObjectExt, resource::NameRule, schema::quantity,
    types::validate_name,
};

/// The volumes that may be mounted: name to what they are.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The fields of a pod that a file can show.
const FIELD_PATHS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];

/// Sources, in the order in which upstream looks for a second one; what each needs.
const SOURCES: &[(&str, &[&str])] = &[
    ("hostPath", &["path"]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &[]),
    ("quobyte", &["registry"]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &["volumeName"]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &["driver"]),
    ("ephemeral", &[]),
    ("image", &["reference"]),
];

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// The problems of the volumes, and those volumes that have none.
pub(super) fn validate_volumes<'a>(spec: &'a Value, path: &Path) -> (Volumes<'a>, Vec<FieldError>) {
    let (mut volumes, mut errors) = (Volumes::new(), Vec::new());
    for (path, volume) in path.items(spec, "volumes") {
        let name = volume.text(&["name"]);
        let at = path.child("name");
        let mut found = validate_source(volume, &path);
        match name {
            "" => found.push(FieldError::required(&at, "")),
            name => found.extend(
                validate_name(NameRule::DnsLabel, name)
                    .into_iter()
                    .map(|problem| FieldError::invalid_str(&at, name, problem)),
            ),
        }
        if volumes.contains_key(name) {
            found.push(FieldError::duplicate(&at, &name.into()));
        }
        if found.is_empty() {
            volumes.insert(name, volume);
        }
        errors.extend(found);
    }
    (volumes, errors)
}

fn validate_source(volume: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut sources = 0;
    if let Some(empty) = part(volume, "emptyDir") {
        sources += 1;
        if quantity::nanos(empty.text(&["sizeLimit"])).is_some_and(|size| size < 0) {
            let problem = "SizeLimit field must be a valid resource quantity";
            errors.push(FieldError::forbidden(path.child("emptyDir").child("sizeLimit"), problem));
        }
    }
    for (name, required) in SOURCES {
        let Some(source) = part(volume, name) else { continue };
        if sources > 0 {
            let problem = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(path.child(name), problem));
            continue;
        }
        sources += 1;
        let path = path.child(name);
        for field in *required {
            if source.text(&[field]).is_empty() {
                errors.push(FieldError::required(path.child(field), ""));
            }
        }
        errors.extend(validate_details(name, source, &path));
    }
    if sources == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    errors
}

/// What the sources that manifests use most ask for beyond required fields.
fn validate_details(name: &str, source: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match name {
        "hostPath" if !source.text(&["path"]).is_empty() => {
            errors.extend(no_backsteps(source.text(&["path"]), &path.child("path")));
            let kind = source.text(&["type"]);
            if !HOST_PATH_TYPES.contains(&kind) {
                errors.push(FieldError::not_supported(path.child("type"), kind, &HOST_PATH_TYPES));
            }
        }
        "nfs" if !source.text(&["path"]).starts_with('/') => {
            let at = path.child("path");
            let problem = "must be an absolute path";
            errors.push(FieldError::invalid_str(at, source.text(&["path"]), problem));
        }
        "secret" | "configMap" => {
            errors.extend(validate_mode(source, "defaultMode", path));
            for (path, item) in path.items(source, "items") {
                errors.extend(validate_item(item, &path));
            }
        }
        "downwardAPI" => {
            errors.extend(validate_mode(source, "defaultMode", path));
            for file in items(source, "items") {
                errors.extend(validate_downward_file(file, path));
            }
        }
        "projected" => {
            errors.extend(validate_mode(source, "defaultMode", path));
            errors.extend(validate_projections(source, path));
        }
        "ephemeral" if part(source, "volumeClaimTemplate").is_none() => {
            errors.push(FieldError::required(path.child("volumeClaimTemplate"), ""));
        }
        _ => {}
    }
    errors
}

fn validate_projections(projected: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut paths = BTreeSet::new();
    for (at, source) in path.items(projected, "sources") {
        let mut sources = 0;
        for name in ["secret", "configMap"] {
            let Some(projection) = part(source, name) else { continue };
            sources += 1;
            let at = at.child(name);
            let object = projection.text(&["name"]);
            if object.is_empty() {
                errors.push(FieldError::required(at.child("name"), ""));
            }
            for (at, item) in at.items(projection, "items") {
                errors.extend(validate_item(item, &at));
                errors.extend(conflicting(item.text(&["path"]), object, &mut paths, path));
            }
        }
        if let Some(downward) = part(source, "downwardAPI") {
            sources += 1;
            for file in items(downward, "items") {
                errors.extend(validate_downward_file(file, &at.child("downwardAPI")));
                let name = file.text(&["path"]);
                errors.extend(conflicting(name, name, &mut paths, path));
            }
        }
        if let Some(token) = part(source, "serviceAccountToken") {
            sources += 1;
            errors.extend(validate_token(token, &at.child("serviceAccountToken"), path));
        }
        for name in ["clusterTrustBundle", "podCertificate"] {
            sources += usize::from(part(source, name).is_some());
        }
        if sources > 1 {
            let problem = "may not specify more than 1 volume type per source";
            errors.push(FieldError::forbidden(&at, problem));
        }
    }
    errors
}

fn validate_token(token: &Value, at: &Path, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let seconds = number(token, "expirationSeconds");
    let problem = match seconds {
        ..600 => Some("may not specify a duration less than 10 minutes"),
        600..=0x1_0000_0000 => None,
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    if let Some(problem) = problem {
        let at = at.child("expirationSeconds");
        errors.push(FieldError::invalid(at, &seconds.into(), problem));
    }
    match token.text(&["path"]) {
        "" => errors.push(FieldError::required(path.child("path"), "")),
        name => errors.extend(local_path(name, &path.child("path"))),
    }
    errors
}

fn conflicting<'a>(
    name: &'a str,
    shown: &str,
    paths: &mut BTreeSet<&'a str>,
    at: &Path,
) -> Option<FieldError> {
    if name.is_empty() {
        return None;
    }
    let seen = !paths.insert(name);
    seen.then(|| FieldError::invalid_str(at, shown, "conflicting duplicate paths"))
}

fn validate_item(item: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["key", "path"] {
        if item.text(&[field]).is_empty() {
            errors.push(FieldError::required(path.child(field), ""));
        }
    }
    errors.extend(local_path(item.text(&["path"]), &path.child("path")));
    errors.extend(validate_mode(item, "mode", path));
    errors
}

fn validate_downward_file(file: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let name = file.text(&["path"]);
    if name.is_empty() {
        errors.push(FieldError::required(path.child("path"), ""));
    }
    errors.extend(local_path(name, &path.child("path")));
    match (part(file, "fieldRef"), part(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            errors.extend(validate_field_ref(field, &FIELD_PATHS, &path.child("fieldRef")));
            if resource.is_some() {
                let problem = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid_str(path, "resource", problem));
            }
        }
        (None, Some(resource)) => {
            errors.extend(validate_resource_ref(resource, true, &path.child("resourceFieldRef")));
        }
        (None, None) => {
            let problem = "one of fieldRef and resourceFieldRef is required";
            errors.push(FieldError::required(path, problem));
        }
    }
    errors.extend(validate_mode(file, "mode", path));
    errors
}

fn validate_mode(object: &Value, field: &str, path: &Path) -> Option<FieldError> {
    let mode = object.get(field).and_then(Value::as_i64)?;
    let good = (0..=0o777).contains(&mode);
    (!good).then(|| FieldError::invalid(path.child(field), &mode.into(), FILE_MODE))
}

/// A path below a volume.
pub(super) fn local_path(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = descending(name, path);
    if name.starts_with("..") && !name.starts_with("../") {
        errors.push(FieldError::invalid_str(path, name, "must not start with '..'"));
    }
    errors
}

/// A relative path that does not leave its directory.
pub(super) fn descending(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if name.starts_with('/') {
        errors.push(FieldError::invalid_str(path, name, "must be a relative path"));
    }
    errors.extend(no_backsteps(name, path));
    errors
}

/// A path without `..`.
pub(super) fn no_backsteps(name: &str, path: &Path) -> Option<FieldError> {
    let steps_back = name.split('/').any(|part| part == "..");
    steps_back.then(|| FieldError::invalid_str(path, name, "must not contain '..'"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_volumes() {
        let check = |volumes: Value, expected: &[&str]| {
            let spec = json!({"volumes": volumes});
            let (good, errors) = validate_volumes(&spec, &Path::new("s"));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{volumes}");
            assert_eq!(good.is_empty(), !expected.is_empty());
        };
        check(json!([{"name": "a", "emptyDir": {}}]), &[]);
        check(
            json!([{"name": "a"}]),
            &["s.volumes[0]: Required value: must specify a volume type"],
        );
        check(
            json!([{"name": "a", "emptyDir": {}, "secret": {"secretName": "x"}}]),
            &["s.volumes[0].secret: Forbidden: may not specify more than 1 volume type"],
        );
        check(
            json!([{"name": "a", "configMap": {"defaultMode": 512, "items": [{"key": "k", "path": "/x"}]}}]),
            &[
                "s.volumes[0].configMap.name: Required value",
                "s.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
                "s.volumes[0].configMap.items[0].path: Invalid value: \"/x\": must be a relative path",
            ],
        );
        check(
            json!([{"name": "a", "hostPath": {"path": "/a/../b", "type": "Nope"}}]),
            &[
                "s.volumes[0].hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
                "s.volumes[0].hostPath.type: Unsupported value: \"Nope\": supported values: \"\", \"BlockDevice\", \"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"",
            ],
        );
    }
}
