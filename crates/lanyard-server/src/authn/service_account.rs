//! How service accounts are named among users.

/// The user name of a service account.
pub fn username(namespace: &str, name: &str) -> String {
    format!("{USER_PREFIX}{namespace}:{name}")
}

/// The groups that every service account of a namespace is in.
pub fn groups(namespace: &str) -> Vec<String> {
    vec![ALL.to_owned(), format!("{ALL}:{namespace}")]
}

/// The namespace and the name in the user name of a service account.
///
/// Nothing for any other user name, also when it only looks like one: such a user is authorized as an
/// ordinary user, so being generous here would be an escalation.
pub fn split_username(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(USER_PREFIX)?.split_once(':')?;
    let valid = namespace.len() <= MAX_LABEL && is_label(namespace) && is_subdomain(name);
    valid.then_some((namespace, name))
}

/// An RFC 1123 subdomain, as names of service accounts must be.
fn is_subdomain(text: &str) -> bool {
    text.len() <= MAX_SUBDOMAIN && text.split('.').all(is_label)
}

/// An RFC 1123 label of any length: the names of objects bound the whole, not each part.
fn is_label(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
    !text.is_empty()
        && text.as_bytes().iter().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

const USER_PREFIX: &str = "system:serviceaccount:";
const ALL: &str = "system:serviceaccounts";
const MAX_LABEL: usize = 63;
const MAX_SUBDOMAIN: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_names_are_service_accounts() {
        let check = |user: &str, expected: Option<(&str, &str)>| {
            assert_eq!(split_username(user), expected, "{user}");
        };
        check("system:serviceaccount:ns:name", Some(("ns", "name")));
        check("system:serviceaccount:ns:a.b-c.9", Some(("ns", "a.b-c.9")));
        check("system:serviceaccount:a.b:name", None);
        check("system:serviceaccount:ns:", None);
        check("system:serviceaccount::name", None);
        check("system:serviceaccount:ns", None);
        check("system:serviceaccount:ns:a:b", None);
        check("system:serviceaccount:ns:Name", None);
        check("system:serviceaccount:-ns:name", None);
        check("system:serviceaccounts:ns:name", None);
        check(&username(&"n".repeat(64), "name"), None);
        check(&username("ns", &"n".repeat(254)), None);
        check("alice", None);
    }
}
