//! Commands that send protobuf bodies or need OpenAPI come later; [`NOT_YET`] lists them with the answer they get
//! until then, so that the day they begin to work is noticed here.

use anyhow::{Result, ensure};

use crate::shop;

#[test]
fn what_comes_later_is_refused_clearly() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    for (line, answer) in NOT_YET {
        let said = admin.fails(line)?;
        ensure!(said.contains(answer), "`{line}` said:\n{said}");
    }
    Ok(())
}

/// Commands that unmodified kubectl 1.34 to 1.36 cannot use yet, and why: the first part sends protobuf bodies, the
/// second reads OpenAPI documents, the third sends strategic merge patches.
const NOT_YET: &[(&str, &str)] = &[
    ("auth whoami", PROTOBUF),
    ("auth can-i get cm", PROTOBUF),
    ("auth can-i --list", PROTOBUF),
    ("create token default", PROTOBUF),
    ("create ns town", PROTOBUF),
    ("create cm a --from-literal=a=b", PROTOBUF),
    ("create secret generic a --from-literal=a=b", PROTOBUF),
    ("create sa a", PROTOBUF),
    ("create role a --verb=get --resource=cm", PROTOBUF),
    ("create rolebinding a --role=a --user=b", PROTOBUF),
    ("explain cm", "the server could not find the requested resource"),
    (
        "patch cm prices -n shop -p '{}'",
        "application/strategic-merge-patch+json is not supported by /v1, Kind=ConfigMap",
    ),
];

const PROTOBUF: &str = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml";
