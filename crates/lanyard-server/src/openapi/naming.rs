//! How operations, tags and models are called. Generated clients have these names in their functions, so
//! they are upstream's, letter by letter.

/// A kind with its group and version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gvk {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

impl Gvk {
    pub(super) fn new(group: &str, version: &str, kind: &str) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub(super) fn to_json(&self) -> serde_json::Value {
        serde_json::json!({"group": self.group, "version": self.version, "kind": self.kind})
    }
}

/// Group and version as the middle of an operation's id: `RbacAuthorizationV1`.
pub(super) fn id_part(group: &str, version: &str) -> String {
    format!("{}{}", camel(short_group(group), true), camel(version, true))
}

/// The tag of the operations of a group version: `rbacAuthorization_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    format!("{}_{}", group_tag(group), camel(version, false))
}

/// The tag of a group: `rbacAuthorization`.
pub(super) fn group_tag(group: &str) -> String {
    camel(short_group(group), false)
}

/// A word that starts large: `status` becomes `Status`.
pub(super) fn large(word: &str) -> String {
    camel(word, true)
}

/// The noun with its article, after a space: ` a Lease`, ` an Event`. Plurals have none.
pub(super) fn with_article(noun: &str) -> String {
    if noun.ends_with('s') && !noun.ends_with("ss") {
        return format!(" {noun}");
    }
    let vowel = noun.starts_with(|c: char| "aeiouAEIOU".contains(c));
    format!(" {} {noun}", if vowel { "an" } else { "a" })
}

/// The model of a custom resource: the group backwards, as Java has its packages.
pub(super) fn custom_model(group: &str, version: &str, kind: &str) -> String {
    let backwards: Vec<&str> = group.split('.').rev().collect();
    format!("{}.{version}.{kind}", backwards.join("."))
}

/// The model of a built-in kind that is not stored: reviews, and kinds of subresources.
pub(super) fn builtin_model(group: &str, version: &str, kind: &str) -> String {
    let package = match group {
        "" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("io.k8s.api.{package}.{version}.{kind}")
}

fn short_group(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.strip_suffix(".k8s.io").unwrap_or(group),
    }
}

/// Joins words at what is neither letter nor digit.
fn camel(text: &str, large_first: bool) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut large = large_first;
    for (at, c) in text.chars().enumerate() {
        if !(c.is_alphabetic() || c == '_' || (at != 0 && c.is_numeric())) {
            large = true;
        } else if std::mem::take(&mut large) {
            joined.extend(c.to_uppercase());
        } else {
            joined.push(c);
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_upstream() {
        for (group, id, tag_of) in [
            ("", "CoreV1", "core_v1"),
            ("apps", "AppsV1", "apps_v1"),
            ("rbac.authorization.k8s.io", "RbacAuthorizationV1", "rbacAuthorization_v1"),
            ("stable.example.com", "StableExampleComV1", "stableExampleCom_v1"),
            ("my-shop.example.com", "MyShopExampleComV1", "myShopExampleCom_v1"),
        ] {
            assert_eq!((id_part(group, "v1").as_str(), tag(group, "v1").as_str()), (id, tag_of));
        }
        for (noun, expected) in
            [("Lease", " a Lease"), ("Event", " an Event"), ("Endpoints", " Endpoints")]
        {
            assert_eq!(with_article(noun), expected);
        }
        assert_eq!(with_article("Ingress"), " an Ingress");
        assert_eq!(
            custom_model("stable.example.com", "v1", "Shirt"),
            "com.example.stable.v1.Shirt"
        );
        assert_eq!(
            builtin_model("authentication.k8s.io", "v1", "TokenRequest"),
            "io.k8s.api.authentication.v1.TokenRequest"
        );
    }
}
