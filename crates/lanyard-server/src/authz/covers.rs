//! Whether one set of rules allows everything that another allows.
//!
//! The wanted rules are taken apart into single permissions ([`Permission`]), each of which one
//! held rule must cover, as upstream does. A rule is a box (groups x resources x verbs x names), so
//! each held rule is compared with it once per side instead of once per permission, and nothing is
//! copied: a hostile rule costs no more than the permissions counted by [`permissions`].

use std::collections::HashSet;

use super::rules::{PolicyRule, has_or_star, url_covers};

/// A single permission: one verb on one resource, or on one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission<'a> {
    /// On a resource.
    Resource {
        /// The API group or `*`.
        group: &'a str,
        /// `res`, `res/sub`, `*/sub` or `*`.
        resource: &'a str,
        /// The object's name; `None` for all.
        name: Option<&'a str>,
        /// The verb or `*`.
        verb: &'a str,
    },
    /// On another path.
    Url {
        /// The path, perhaps ending in `*`.
        url: &'a str,
        /// The verb or `*`.
        verb: &'a str,
    },
}

impl Permission<'_> {
    /// The rule that grants exactly this.
    pub fn to_rule(self) -> PolicyRule {
        let one = |text: &str| vec![text.to_owned()];
        match self {
            Self::Resource { group, resource, name, verb } => PolicyRule {
                verbs: one(verb),
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                non_resource_urls: Vec::new(),
            },
            Self::Url { url, verb } => PolicyRule {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..PolicyRule::default()
            },
        }
    }
}

/// How many single permissions the rules come apart into.
pub fn permissions(rules: &[PolicyRule]) -> usize {
    let count = |rule: &PolicyRule| {
        let verbs = rule.verbs.len();
        let on_resources =
            [rule.api_groups.len(), rule.resources.len(), rule.resource_names.len().max(1)];
        let on_resources = on_resources.into_iter().fold(verbs, usize::saturating_mul);
        on_resources.saturating_add(verbs.saturating_mul(rule.non_resource_urls.len()))
    };
    rules.iter().map(count).fold(0, usize::saturating_add)
}

/// The permissions in `wanted` that no rule of `held` covers; none means that all are held.
///
/// Takes time and memory in proportion to [`permissions`] of `wanted`: bound that first when the
/// rules come from outside.
pub fn uncovered<'h, 'w>(
    held: impl Iterator<Item = &'h PolicyRule> + Clone,
    wanted: &'w [PolicyRule],
) -> Vec<Permission<'w>> {
    let mut missing = Vec::new();
    for rule in wanted {
        uncovered_resources(held.clone(), rule, &mut missing);
        uncovered_urls(held.clone(), rule, &mut missing);
    }
    missing
}

fn uncovered_resources<'h, 'w>(
    held: impl Iterator<Item = &'h PolicyRule>,
    wanted: &'w PolicyRule,
    missing: &mut Vec<Permission<'w>>,
) {
    let mut overlaps = Vec::new();
    for overlap in held.filter_map(|held| Overlap::of(held, wanted)) {
        if overlap.is_total() {
            return;
        }
        overlaps.push(overlap);
    }
    let names: Vec<Option<&str>> = match wanted.resource_names.as_slice() {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    for (g, group) in wanted.api_groups.iter().enumerate() {
        for (r, resource) in wanted.resources.iter().enumerate() {
            for (v, verb) in wanted.verbs.iter().enumerate() {
                for (n, &name) in names.iter().enumerate() {
                    if !overlaps.iter().any(|overlap| overlap.has(g, r, v, n)) {
                        missing.push(Permission::Resource { group, resource, name, verb });
                    }
                }
            }
        }
    }
}

fn uncovered_urls<'h, 'w>(
    held: impl Iterator<Item = &'h PolicyRule> + Clone,
    wanted: &'w PolicyRule,
    missing: &mut Vec<Permission<'w>>,
) {
    for url in &wanted.non_resource_urls {
        // Upstream lets a rule that is limited to names cover no paths.
        let holders: Vec<&PolicyRule> = held
            .clone()
            .filter(|held| held.resource_names.is_empty())
            .filter(|held| held.non_resource_urls.iter().any(|have| url_covers(have, url)))
            .collect();
        for verb in &wanted.verbs {
            if !holders.iter().any(|held| has_or_star(&held.verbs, verb)) {
                missing.push(Permission::Url { url, verb });
            }
        }
    }
}

/// The part of a wanted rule that one held rule covers.
struct Overlap {
    groups: Side,
    resources: Side,
    verbs: Side,
    names: Side,
}

impl Overlap {
    /// Nothing when the two have no permission in common.
    fn of(held: &PolicyRule, wanted: &PolicyRule) -> Option<Self> {
        Some(Self {
            verbs: Side::of(&held.verbs, &wanted.verbs)?,
            groups: Side::of(&held.api_groups, &wanted.api_groups)?,
            resources: Side::of_resources(&held.resources, &wanted.resources)?,
            names: Side::of_names(&held.resource_names, &wanted.resource_names)?,
        })
    }

    fn has(&self, group: usize, resource: usize, verb: usize, name: usize) -> bool {
        self.groups.has(group)
            && self.resources.has(resource)
            && self.verbs.has(verb)
            && self.names.has(name)
    }

    fn is_total(&self) -> bool {
        [&self.groups, &self.resources, &self.verbs, &self.names]
            .into_iter()
            .all(|side| matches!(side, Side::All))
    }
}

/// Which items of one list of a wanted rule a held rule covers.
enum Side {
    All,
    Some(Vec<bool>),
}

impl Side {
    fn of(held: &[String], wanted: &[String]) -> Option<Self> {
        let have = Lookup::new(held, wanted.len());
        Self::where_true(wanted, |item| have.contains("*") || have.contains(item))
    }

    fn of_resources(held: &[String], wanted: &[String]) -> Option<Self> {
        let have = Lookup::new(held, wanted.len());
        Self::where_true(wanted, |resource| {
            let subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
            have.contains("*")
                || have.contains(resource)
                || subresource.is_some_and(|any| have.contains(&any))
        })
    }

    /// No list of names means all of them, and no name is a wildcard.
    fn of_names(held: &[String], wanted: &[String]) -> Option<Self> {
        match (held, wanted) {
            ([], _) => Some(Self::All),
            (_, []) => None,
            (held, wanted) => {
                let have = Lookup::new(held, wanted.len());
                Self::where_true(wanted, |name| have.contains(name))
            }
        }
    }

    /// Nothing when no item is covered.
    fn where_true(wanted: &[String], covered: impl Fn(&str) -> bool) -> Option<Self> {
        let items: Vec<bool> = wanted.iter().map(|item| covered(item)).collect();
        match (items.contains(&true), items.contains(&false)) {
            (false, _) => None,
            (true, false) => Some(Self::All),
            (true, true) => Some(Self::Some(items)),
        }
    }

    fn has(&self, item: usize) -> bool {
        match self {
            Self::All => true,
            Self::Some(items) => items[item],
        }
    }
}

/// Finds strings in a list: by looking through it, or through a set when both sides are long.
enum Lookup<'a> {
    List(&'a [String]),
    Set(HashSet<&'a str>),
}

impl<'a> Lookup<'a> {
    /// Above this many comparisons, building a set is cheaper.
    const MANY: usize = 1024;

    fn new(list: &'a [String], questions: usize) -> Self {
        if list.len().saturating_mul(questions) <= Self::MANY {
            Self::List(list)
        } else {
            Self::Set(list.iter().map(String::as_str).collect())
        }
    }

    fn contains(&self, item: &str) -> bool {
        match self {
            Self::List(list) => list.iter().any(|have| have == item),
            Self::Set(set) => set.contains(item),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::{select, subsequence};
    use serde_json::{Value, json};

    use super::super::tests::{rule, url_rule};
    use super::super::{Attributes, Target};
    use super::*;
    use crate::authn::UserInfo;

    fn parsed(rules: &[Value]) -> Vec<PolicyRule> {
        rules.iter().map(|rule| PolicyRule::from_value(rule).expect("a rule")).collect()
    }

    fn missing_rules(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
        uncovered(held.iter(), wanted).into_iter().map(Permission::to_rule).collect()
    }

    fn check(held: &[Value], wanted: &[Value], missing: &[Value]) {
        let (held, wanted) = (parsed(held), parsed(wanted));
        let found = missing_rules(&held, &wanted);
        assert_eq!(found, parsed(missing), "{held:?} for {wanted:?}");
    }

    #[test]
    fn several_rules_together_cover_one() {
        let one = |verb: &str, resource: &str| rule(&[verb], &["g"], &[resource], &[]);
        let both = rule(&["delete", "update"], &["g"], &["a", "b"], &[]);
        let parts =
            [one("delete", "a"), one("delete", "b"), rule(&["update"], &["g"], &["a", "b"], &[])];
        check(&parts, std::slice::from_ref(&both), &[]);
        check(std::slice::from_ref(&both), &parts, &[]);
        check(&parts[1..], &[both], &[one("delete", "a")]);
        check(&[], &[one("get", "a")], &[one("get", "a")]);
        check(&[one("get", "a")], &[], &[]);
        let groups = rule(&["get"], &["g", "h"], &["a"], &[]);
        check(&[one("get", "a")], &[groups], &[rule(&["get"], &["h"], &["a"], &[])]);
    }

    #[test]
    fn a_star_covers_all_and_is_covered_by_a_star_only() {
        let plain = rule(&["get"], &["g"], &["a"], &[]);
        for star in [
            rule(&["*"], &["g"], &["a"], &[]),
            rule(&["get"], &["*"], &["a"], &[]),
            rule(&["get"], &["g"], &["*"], &[]),
        ] {
            check(std::slice::from_ref(&star), std::slice::from_ref(&plain), &[]);
            check(std::slice::from_ref(&star), std::slice::from_ref(&star), &[]);
            let star = std::slice::from_ref(&star);
            check(std::slice::from_ref(&plain), star, star);
        }
    }

    #[test]
    fn a_subresource_star_covers_that_subresource() {
        let one = |resource: &str| rule(&["get"], &["g"], &[resource], &[]);
        check(&[one("*/scale")], &[one("a/scale")], &[]);
        check(&[one("*")], &[one("*/scale")], &[]);
        check(&[one("*/scale")], &[one("a/status")], &[one("a/status")]);
        check(&[one("*/scale")], &[one("a")], &[one("a")]);
        check(&[one("a/scale")], &[one("*/scale")], &[one("*/scale")]);
        check(&[one("a")], &[one("a/scale")], &[one("a/scale")]);
    }

    #[test]
    fn names_are_covered_by_no_names_and_by_the_same() {
        let named = |names: &[&str]| rule(&["get"], &["g"], &["a"], names);
        check(&[named(&[])], &[named(&["x", "y"])], &[]);
        check(&[named(&["x"])], &[named(&["x", "y"])], &[named(&["y"])]);
        check(&[named(&["x", "y"])], &[named(&[])], &[named(&[])]);
        check(&[named(&["*"])], &[named(&["x"])], &[named(&["x"])]);
    }

    #[test]
    fn paths_are_covered_by_their_prefix() {
        let url = |url: &str| url_rule(&["get"], &[url]);
        check(&[url("/apis")], &[url("/apis")], &[]);
        check(&[url("*")], &[url_rule(&["get"], &["/apis", "/", "*"])], &[]);
        check(&[url("/apis/*")], &[url_rule(&["get"], &["/apis", "/apis/v1"])], &[url("/apis")]);
        check(&[url("/apis/*")], &[url("/apis/v1/*")], &[]);
        check(&[url("/apis/v1/*")], &[url("/apis/*")], &[url("/apis/*")]);
        check(
            &[url("/apis")],
            &[url_rule(&["get", "post"], &["/apis"])],
            &[url_rule(&["post"], &["/apis"])],
        );
        check(&[url_rule(&["*"], &["*"])], &[url_rule(&["*"], &["*"])], &[]);
    }

    #[test]
    fn resources_and_paths_in_one_rule_are_separate_permissions() {
        let mixed = json!({"verbs": ["get"], "apiGroups": ["g"], "resources": ["a"],
            "nonResourceURLs": ["/apis"]});
        let resource = rule(&["get"], &["g"], &["a"], &[]);
        check(std::slice::from_ref(&mixed), std::slice::from_ref(&mixed), &[]);
        check(&[resource], &[mixed], &[url_rule(&["get"], &["/apis"])]);
    }

    #[test]
    fn permissions_are_counted_without_overflow() {
        let many: Vec<String> = vec![String::new(); 1 << 16];
        let rule = PolicyRule {
            verbs: many.clone(),
            api_groups: many.clone(),
            resources: many.clone(),
            resource_names: many,
            non_resource_urls: Vec::new(),
        };
        assert_eq!(permissions(&[rule.clone(), rule]), usize::MAX);
        let two = parsed(&[super::super::tests::rule(&["get", "list"], &[""], &["a"], &[])]);
        assert_eq!(permissions(&two), 2);
        assert_eq!(permissions(&parsed(&[url_rule(&["get"], &["/a", "/b"])])), 2);
    }

    #[test]
    fn long_lists_are_compared_in_no_time() {
        let names: Vec<String> = (0..60_000).map(|i| format!("name-{i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let held = [rule(&["get"], &[""], &["a"], &names[1..])];
        check(
            &held,
            &[rule(&["get"], &[""], &["a"], &names)],
            &[rule(&["get"], &[""], &["a"], &names[..1])],
        );
    }

    const VERBS: &[&str] = &["*", "get", "list"];
    const GROUPS: &[&str] = &["*", "", "g"];
    const RESOURCES: &[&str] = &["*", "a", "b", "a/s", "b/s", "*/s", "a/t"];
    const NAMES: &[&str] = &["x", "y"];
    const URLS: &[&str] = &["*", "/*", "/a", "/a*", "/a/*", "/ab", "/ab**"];

    fn rules() -> impl Strategy<Value = Vec<PolicyRule>> {
        let some = |from: &'static [&'static str], most: usize| subsequence(from, 0..=most);
        let rule =
            (some(VERBS, 2), some(GROUPS, 2), some(RESOURCES, 3), some(NAMES, 2), some(URLS, 2));
        let rule = rule.prop_map(|(verbs, groups, resources, names, urls)| {
            let owned = |list: Vec<&str>| list.into_iter().map(str::to_owned).collect();
            PolicyRule {
                verbs: owned(verbs),
                api_groups: owned(groups),
                resources: owned(resources),
                resource_names: owned(names),
                non_resource_urls: owned(urls),
            }
        });
        proptest::collection::vec(rule, 0..5)
    }

    fn request() -> impl Strategy<Value = (&'static str, Target<'static>)> {
        let resource = (select(&["", "g", "h"][..]), select(&["a", "b", "c"][..]));
        let part = (select(&["", "s", "t"][..]), select(&["", "x", "y", "z"][..]));
        let resource = (resource, part).prop_map(|((group, resource), (subresource, name))| {
            Target::Resource { group, resource, subresource, namespace: "", name }
        });
        let path = select(&["/", "/a", "/ab", "/a/b", "/c"][..]).prop_map(Target::Path);
        (select(&["get", "list", "post"][..]), prop_oneof![resource, path])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// No request may be allowed by covered rules and not by those that cover them.
        #[test]
        fn what_is_covered_is_allowed(
            held in rules(),
            wanted in rules(),
            requests in proptest::collection::vec(request(), 20),
        ) {
            let user = UserInfo::default();
            let missing = missing_rules(&held, &wanted);
            for (verb, target) in requests {
                let request = Attributes { user: &user, verb, target };
                let allowed = |rules: &[PolicyRule]| rules.iter().any(|rule| rule.allows(&request));
                prop_assert!(
                    !allowed(&wanted) || allowed(&held) || allowed(&missing),
                    "{request:?} slips through {held:?} and {missing:?}"
                );
            }
        }

        /// Adding what is missing leaves nothing missing.
        #[test]
        fn what_is_missing_completes(held in rules(), wanted in rules()) {
            let missing = missing_rules(&held, &wanted);
            let all = held.iter().chain(&missing);
            prop_assert_eq!(uncovered(all, &wanted), Vec::new());
            prop_assert!(missing.len() <= permissions(&wanted));
        }
    }
}
