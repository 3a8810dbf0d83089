//! GET of one object and of lists, with every meaning of `resourceVersion`, and pages.

use std::sync::Arc;

use base64::{DecodeError, Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use lanyard_store::{Error as StoreError, RangeQuery, Revision};
use serde::{Deserialize, Serialize};

use super::{Call, Endpoint, Registry, store_error};
use crate::{
    collection::Scope,
    encoded::Encoded,
    field::quoted,
    request::{ListOptions, VersionMatch},
    resource::Resource,
    schema,
    status::{ApiError, ApiResult},
};

/// How many keys are read from the store at once when a page must come from history.
const HISTORY_PAGE: usize = 500;

/// A list, or one page of it.
pub struct ListAnswer {
    /// The objects, in key order.
    pub objects: Vec<Arc<Encoded>>,
    /// The state that this shows.
    pub revision: Revision,
    /// Where the next page begins.
    pub continue_token: Option<String>,
    /// How many objects follow; unknown with selectors.
    pub remaining: Option<usize>,
}

/// What a continue token says; the format is upstream's.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    #[serde(rename = "v")]
    version: String,
    rv: i64,
    start: String,
}

impl Token {
    fn decode(text: &str) -> Result<Self, String> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|error| match error {
            DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => {
                format!("illegal base64 data at input byte {at}")
            }
            _ => format!("illegal base64 data at input byte {}", text.len()),
        })?;
        let tree = schema::parse_json(&bytes).map_err(|error| error.to_string())?.value;
        let token: Self = serde_json::from_value(tree)
            .map_err(|_| "json: cannot unmarshal it into a token".to_owned())?;
        if token.version != TOKEN_VERSION {
            let version = token.version;
            return Err(format!("server does not recognize this encoded version {version}"));
        }
        if token.rv == 0 {
            return Err(format!(
                "incorrect encoded start resourceVersion (version {TOKEN_VERSION})"
            ));
        }
        if token.start.is_empty() {
            return Err(format!("encoded start key empty (version {TOKEN_VERSION})"));
        }
        if token.start.starts_with('/') || token.start.split('/').any(|part| part == "..") {
            return Err(token.start);
        }
        Ok(token)
    }
}

/// Where a list begins and which state it shows.
struct Position {
    start: Option<String>,
    exact: Option<Revision>,
}

const TOKEN_VERSION: &str = "meta.k8s.io/v1";

impl Registry {
    /// One object.
    pub async fn get(&self, call: &Call<'_>, version: VersionMatch) -> ApiResult<Arc<Encoded>> {
        match version {
            VersionMatch::Newest => {
                self.caught_up().await?;
            }
            VersionMatch::Any => {}
            VersionMatch::NotOlderThan(wanted) | VersionMatch::Exact(wanted) => {
                self.reach(Revision(wanted)).await?;
            }
        }
        call.endpoint.collection.get(&call.key()).ok_or_else(|| call.not_found())
    }

    /// A list of objects.
    pub async fn list(&self, call: &Call<'_>, options: &ListOptions) -> ApiResult<ListAnswer> {
        let resource = call.endpoint.resource();
        let name = options.fields.exact("metadata.name");
        let scope = call.scope(name.or((!call.name.is_empty()).then_some(call.name)));
        let position = Position::of(options, &scope)?;
        let current = match (position.exact, options.version) {
            (Some(exact), _) => self.reach(exact).await?,
            (None, VersionMatch::Any) => self.recent(),
            (None, VersionMatch::NotOlderThan(wanted)) => self.reach(Revision(wanted)).await?,
            (None, _) => self.caught_up().await?,
        };
        let start = position.start.as_deref();
        let (page, changed) =
            call.endpoint
                .collection
                .list(&scope, start, options.limit, |object| options.selects(object, resource));
        let mut answer = ListAnswer {
            objects: page.objects,
            revision: current.max(changed),
            continue_token: None,
            remaining: (page.remaining > 0).then_some(page.remaining),
        };
        if let Some(exact) = position.exact {
            if changed > exact {
                // Something changed since: this state is only in the store's history.
                answer = self.list_history(call, options, &scope, start, exact).await?;
            }
            answer.revision = exact;
        }
        if answer.remaining.is_some() {
            answer.continue_token =
                answer.objects.last().map(|o| next_page(&scope, o, answer.revision));
        }
        if !options.labels.is_empty() || !options.fields.is_empty() {
            answer.remaining = None;
        }
        Ok(answer)
    }

    /// A page of the state at an older revision, from the store.
    async fn list_history(
        &self,
        call: &Call<'_>,
        options: &ListOptions,
        scope: &Scope,
        start: Option<&str>,
        at: Revision,
    ) -> ApiResult<ListAnswer> {
        let collection = &call.endpoint.collection;
        let prefix = format!("{}{}", collection.prefix, scope.key_prefix());
        let mut next = start.map(|start| format!("{}{start}", collection.prefix));
        let mut answer =
            ListAnswer { objects: Vec::new(), revision: at, continue_token: None, remaining: None };
        loop {
            let query = RangeQuery {
                prefix: prefix.clone(),
                start: next.clone(),
                limit: Some(HISTORY_PAGE),
                at: Some(at),
            };
            let range = self.store.range(query).await;
            let range = range.map_err(|error| history_error(error, scope, start))?;
            for (i, entry) in range.entries.iter().enumerate() {
                let Some(key) = entry.key.strip_prefix(&collection.prefix) else { continue };
                let object = collection.codec.decode(key.into(), &entry.value, entry.revision);
                let object = object.map_err(|e| ApiError::internal("cannot read an object", e))?;
                if !scope.contains(key) || !options.selects(&object, &collection.resource) {
                    continue;
                }
                if options.limit.is_some_and(|limit| answer.objects.len() >= limit) {
                    let left = range.entries.len() - i + range.remaining as usize;
                    answer.remaining = Some(left);
                    return Ok(answer);
                }
                answer.objects.push(Arc::new(object));
            }
            match range.entries.last() {
                Some(last) if range.remaining > 0 => next = Some(format!("{}\0", last.key)),
                _ => return Ok(answer),
            }
        }
    }
}

impl ListOptions {
    /// Whether both selectors take the object.
    pub fn selects(&self, object: &Encoded, resource: &Resource) -> bool {
        (self.labels.is_empty() || self.labels.matches(|key| object.label(key)))
            && (self.fields.is_empty()
                || self.fields.matches(|field| object.field(resource, field)))
    }
}

impl Endpoint {
    /// Turns the fields of a selector into those of the stored form; only those that the type makes
    /// selectable may be selected.
    pub fn resolve_fields(&self, options: &mut ListOptions) -> ApiResult<()> {
        for requirement in &mut options.fields.requirements {
            let field = requirement.field.as_str();
            if field == "metadata.name" || (field == "metadata.namespace" && self.has_namespaces())
            {
                continue;
            }
            let stored = self.resource().rules.selectable_in_view(self.view(), field);
            let stored = stored.ok_or_else(|| self.not_selectable(field))?.to_owned();
            requirement.field = stored;
        }
        Ok(())
    }

    /// Types of the cluster with fields of their own do not know the one that would be empty.
    fn has_namespaces(&self) -> bool {
        let own_fields = !self.resource().rules.selectable_fields().is_empty();
        self.resource().scope == crate::resource::Scope::Namespaced || !own_fields
    }

    /// Upstream words it in one way for types with fields of their own, and in another for those without.
    fn not_selectable(&self, field: &str) -> ApiError {
        let none = self.resource().rules.selectable_fields().is_empty() && !self.is_custom();
        ApiError::bad_request(match none {
            true => format!(
                "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                quoted(field)
            ),
            false => format!("field label not supported: {field}"),
        })
    }
}

impl Position {
    fn of(options: &ListOptions, scope: &Scope) -> ApiResult<Self> {
        let Some(token) = &options.continue_token else {
            let exact = match options.version {
                VersionMatch::Exact(revision) => Some(Revision(revision)),
                _ => None,
            };
            return Ok(Self { start: None, exact });
        };
        let token = Token::decode(token).map_err(|why| {
            let text = format!("invalid continue token: continue key is not valid: {why}");
            ApiError::bad_request(text)
        })?;
        // A negative version stands for the newest state, whatever it is.
        let exact = u64::try_from(token.rv).ok().map(Revision);
        Ok(Self { start: Some(format!("{}{}", scope.key_prefix(), token.start)), exact })
    }
}

/// The token of the page after `last`.
fn next_page(scope: &Scope, last: &Encoded, revision: Revision) -> String {
    let key = last.key.strip_prefix(&*scope.key_prefix()).unwrap_or(&last.key);
    encode_token(revision.0 as i64, format!("{key}\0"))
}

fn encode_token(rv: i64, start: String) -> String {
    let token = Token { version: TOKEN_VERSION.to_owned(), rv, start };
    // A struct of strings and a number always serialises.
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// A compacted state cannot be shown any more; the client may go on from the same key at the newest.
fn history_error(error: StoreError, scope: &Scope, start: Option<&str>) -> ApiError {
    match (&error, start) {
        (StoreError::Compacted { .. }, Some(start)) => {
            let start = start.strip_prefix(&*scope.key_prefix()).unwrap_or(start);
            ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result. \
                 You can start a new list without the continue parameter, or use the continue token \
                 in this response to retrieve the remainder of the results. Continuing with the \
                 provided token results in an inconsistent list - objects that were created, \
                 modified, or deleted between the time the first chunk was returned and now may \
                 show up in the list.",
            )
            .continue_with(encode_token(-1, start.to_owned()))
        }
        (StoreError::Compacted { .. }, None) => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
        _ => store_error(error),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};

    use super::*;
    use crate::request::Query;

    fn position(token: &str, scope: &Scope) -> ApiResult<Position> {
        let mut options = ListOptions::parse(&Query::new(None), false).unwrap();
        options.continue_token = Some(token.to_owned());
        Position::of(&options, scope)
    }

    fn any_scope() -> impl Strategy<Value = Scope> {
        let scopes = [Scope::All, Scope::Namespace("a".into()), Scope::Object("a/b".into())];
        select(scopes.to_vec())
    }

    proptest! {
        #[test]
        fn fuzz_any_token_is_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            text in any::<String>(),
            scope in any_scope(),
        ) {
            for token in [&BASE64_URL_SAFE_NO_PAD.encode(bytes), &text] {
                if let Err(error) = position(token, &scope) {
                    prop_assert_eq!(error.code(), 400);
                }
            }
        }

        #[test]
        fn fuzz_a_forged_token_stays_in_its_scope(
            start in "([a-z/.]|\\PC|\0){0,9}",
            rv in any::<i64>(),
            scope in any_scope(),
        ) {
            let token = encode_token(rv, start.clone());
            let Ok(position) = position(&token, &scope) else { return Ok(()) };
            prop_assert!(rv != 0 && start.split('/').all(|part| part != ".."));
            let begins = position.start.unwrap_or_default();
            prop_assert!(begins.starts_with(&*scope.key_prefix()) && begins.ends_with(&start));
            prop_assert_eq!(position.exact.map(|at| at.0), u64::try_from(rv).ok());
        }
    }
}
