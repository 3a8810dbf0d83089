//! Acting as somebody else: what the `Impersonate-*` headers ask for, and who may grant it.
//!
//! The headers are only a wish. [`Impersonation::checks`] lists what the caller must be allowed to
//! impersonate; if the answer to any of them is no, the request is refused as a whole.

use std::collections::BTreeMap;
use std::str;

use http::HeaderMap;

use super::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, UserInfo, service_account};
use crate::authz::Target;
use crate::field::quoted;
use crate::status::ApiError;

/// A request to act as another user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impersonation {
    /// The user to act as, with all groups. Nothing of the caller is kept.
    pub user: UserInfo,
    checks: Vec<Check>,
}

/// One thing that the caller must be allowed to impersonate, with the verb [`IMPERSONATE`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    group: &'static str,
    resource: &'static str,
    subresource: String,
    namespace: String,
    name: String,
}

/// The verb of all [`Check`]s.
pub const IMPERSONATE: &str = "impersonate";

impl Impersonation {
    /// Reads the headers; nothing if they ask for no impersonation.
    ///
    /// 400 if they ask for groups, a uid or attributes without naming a user, or are not UTF-8.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let wanted = UserInfo {
            name: first(headers, USER)?,
            uid: first(headers, UID)?,
            groups: all(headers, GROUP)?,
            extra: extra(headers)?,
        };
        if !wanted.name.is_empty() {
            return Ok(Some(Self { checks: checks(&wanted), user: complete(wanted) }));
        }
        if wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty() {
            return Ok(None);
        }
        let message = format!("requested {} without impersonating a user name", in_go(&wanted));
        Err(ApiError::bad_request(message))
    }

    /// What the caller must be allowed to impersonate, all of it.
    pub fn checks(&self) -> &[Check] {
        &self.checks
    }
}

impl Check {
    /// The target to ask the authorizer about.
    pub fn target(&self) -> Target<'_> {
        Target::Resource {
            group: self.group,
            resource: self.resource,
            subresource: &self.subresource,
            namespace: &self.namespace,
            name: &self.name,
        }
    }

    fn new(group: &'static str, resource: &'static str, name: &str) -> Self {
        let [subresource, namespace] = [String::new(), String::new()];
        Self { group, resource, subresource, namespace, name: name.to_owned() }
    }
}

fn checks(wanted: &UserInfo) -> Vec<Check> {
    let mut checks = vec![match service_account::split_username(&wanted.name) {
        Some((namespace, name)) => {
            Check { namespace: namespace.to_owned(), ..Check::new("", "serviceaccounts", name) }
        }
        None => Check::new("", "users", &wanted.name),
    }];
    if !wanted.uid.is_empty() {
        checks.push(Check::new(AUTHENTICATION, "uids", &wanted.uid));
    }
    checks.extend(wanted.groups.iter().map(|group| Check::new("", "groups", group)));
    for (key, values) in &wanted.extra {
        checks.extend(values.iter().map(|value| Check {
            subresource: key.clone(),
            ..Check::new(AUTHENTICATION, "userextras", value)
        }));
    }
    checks
}

/// Adds the groups that go without saying.
fn complete(mut user: UserInfo) -> UserInfo {
    if user.groups.is_empty()
        && let Some((namespace, _)) = service_account::split_username(&user.name)
    {
        user.groups = service_account::groups(namespace);
    }
    let has = |group: &str| user.groups.iter().any(|g| g == group);
    let implied = match user.name.as_str() {
        ANONYMOUS => UNAUTHENTICATED,
        _ if has(UNAUTHENTICATED) => return user,
        _ => AUTHENTICATED,
    };
    if !has(implied) {
        user.groups.push(implied.to_owned());
    }
    user
}

fn first(headers: &HeaderMap, name: &str) -> Result<String, ApiError> {
    Ok(all(headers, name)?.into_iter().next().unwrap_or_default())
}

fn all(headers: &HeaderMap, name: &str) -> Result<Vec<String>, ApiError> {
    headers
        .get_all(name)
        .iter()
        .map(|value| {
            str::from_utf8(value.as_bytes())
                .map(str::to_owned)
                .map_err(|_| ApiError::bad_request(format!("header {name} is not valid UTF-8")))
        })
        .collect()
}

fn extra(headers: &HeaderMap) -> Result<BTreeMap<String, Vec<String>>, ApiError> {
    let mut extra = BTreeMap::<_, Vec<_>>::new();
    for name in headers.keys() {
        if let Some(encoded) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            // Taken as it is if it cannot be decoded: the caller must be allowed that key then.
            let key = percent_decoded(encoded).unwrap_or_else(|| encoded.to_owned());
            extra.entry(key).or_default().extend(all(headers, name.as_str())?);
        }
    }
    Ok(extra)
}

/// Nothing if a `%` is not followed by two hexadecimal digits, or the result is not UTF-8.
fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'%' => hex(rest.next()?)? << 4 | hex(rest.next()?)?,
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

fn hex(digit: u8) -> Option<u8> {
    (digit as char).to_digit(16).map(|value| value as u8)
}

/// The wish as kube-apiserver prints it, in Go's syntax.
fn in_go(wanted: &UserInfo) -> String {
    let list = |items: &[String]| {
        let items: Vec<_> = items.iter().map(|item| quoted(item)).collect();
        format!("[]string{{{}}}", items.join(", "))
    };
    let groups = match wanted.groups.as_slice() {
        [] => "[]string(nil)".to_owned(),
        groups => list(groups),
    };
    let entries: Vec<_> = wanted
        .extra
        .iter()
        .map(|(key, values)| format!("{}:{}", quoted(key), list(values)))
        .collect();
    let extra = match entries.as_slice() {
        [] => "map[string][]string(nil)".to_owned(),
        entries => format!("map[string][]string{{{}}}", entries.join(", ")),
    };
    let [name, uid] = [&wanted.name, &wanted.uid].map(|text| quoted(text));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn parse(list: &[(&str, &str)]) -> Impersonation {
        Impersonation::from_headers(&headers(list)).unwrap().unwrap()
    }

    /// `group/resource/subresource namespace name` for each check.
    fn check_checks(list: &[(&str, &str)], expected: &[&str]) {
        let shown: Vec<_> = parse(list)
            .checks()
            .iter()
            .map(|check| {
                let Target::Resource { group, resource, subresource, namespace, name } =
                    check.target()
                else {
                    panic!("always a resource");
                };
                format!("{group}/{resource}/{subresource} {namespace} {name}")
            })
            .collect();
        assert_eq!(shown, expected, "{list:?}");
    }

    #[test]
    fn everything_that_is_asked_for_must_be_allowed() {
        check_checks(&[("Impersonate-User", "alice")], &["/users/  alice"]);
        check_checks(
            &[("Impersonate-User", "system:serviceaccount:ns:bot")],
            &["/serviceaccounts/ ns bot"],
        );
        check_checks(
            &[("Impersonate-User", "system:serviceaccount:ns")],
            &["/users/  system:serviceaccount:ns"],
        );
        check_checks(
            &[
                ("Impersonate-Extra-Scopes", "view"),
                ("Impersonate-User", "alice"),
                ("Impersonate-Group", "dev"),
                ("Impersonate-Group", "system:masters"),
                ("Impersonate-Uid", "u-1"),
                ("Impersonate-Extra-Scopes", "edit"),
                ("Impersonate-Extra-example.org%2fTeam", "a b"),
            ],
            &[
                "/users/  alice",
                "authentication.k8s.io/uids/  u-1",
                "/groups/  dev",
                "/groups/  system:masters",
                "authentication.k8s.io/userextras/example.org/team  a b",
                "authentication.k8s.io/userextras/scopes  view",
                "authentication.k8s.io/userextras/scopes  edit",
            ],
        );
    }

    #[test]
    fn groups_that_go_without_saying_are_added() {
        let check = |user: &str, groups: &[&str], expected: &[&str]| {
            let mut list = vec![("Impersonate-User", user)];
            list.extend(groups.iter().map(|group| ("Impersonate-Group", *group)));
            assert_eq!(parse(&list).user.groups, expected, "{user} {groups:?}");
        };
        check("alice", &[], &["system:authenticated"]);
        check("alice", &["dev"], &["dev", "system:authenticated"]);
        check("alice", &["system:authenticated", "dev"], &["system:authenticated", "dev"]);
        check("alice", &["system:unauthenticated"], &["system:unauthenticated"]);
        check("system:anonymous", &[], &["system:unauthenticated"]);
        check("system:anonymous", &["dev"], &["dev", "system:unauthenticated"]);
        let bot = "system:serviceaccount:ns:bot";
        let implied =
            ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        check(bot, &[], &implied);
        check(bot, &["dev"], &["dev", "system:authenticated"]);
    }

    #[test]
    fn attributes_are_decoded() {
        let check = |name: &str, expected: &str| {
            let header = format!("Impersonate-Extra-{name}");
            let user = parse(&[("Impersonate-User", "alice"), (&header, "v")]).user;
            assert_eq!(user.extra[expected], ["v"], "{name}");
        };
        check("Scopes", "scopes");
        check("acme.com%2Fproject", "acme.com/project");
        check("a%2", "a%2");
        check("a%zz", "a%zz");
        check("a%ff", "a%ff");
        check("", "");
    }

    #[test]
    fn no_user_no_impersonation() {
        let check = |list: &[(&str, &str)], expected: &str| {
            let error = Impersonation::from_headers(&headers(list)).unwrap_err();
            assert_eq!(error.code(), 400);
            let expected = format!("requested {expected} without impersonating a user name");
            assert_eq!(error.message(), expected);
        };
        assert_eq!(Impersonation::from_headers(&headers(&[("Accept", "*/*")])).unwrap(), None);
        assert_eq!(
            Impersonation::from_headers(&headers(&[("Impersonate-User", "")])).unwrap(),
            None
        );
        check(
            &[("Impersonate-Group", "dev"), ("Impersonate-Group", "ops")],
            "&user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\", \"ops\"}, \
             Extra:map[string][]string(nil)}",
        );
        check(
            &[("Impersonate-Uid", "u-1"), ("Impersonate-User", "")],
            "&user.DefaultInfo{Name:\"\", UID:\"u-1\", Groups:[]string(nil), \
             Extra:map[string][]string(nil)}",
        );
        check(
            &[("Impersonate-Extra-a", "b")],
            "&user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string(nil), \
             Extra:map[string][]string{\"a\":[]string{\"b\"}}}",
        );
    }

    #[test]
    fn names_that_are_not_text_are_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(USER, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(Impersonation::from_headers(&headers).unwrap_err().code(), 400);
    }
}
