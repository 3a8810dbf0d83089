//! Requests for resources: from verb and path to the registry, and from its answer to a response.

use std::time::Duration;

use http::{HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Incoming;

use super::{
    State,
    other::page_not_found,
    pipeline::RequestHead,
    respond::{self, Reply},
};
use crate::{
    authn::UserInfo,
    field::{is_printable, quoted},
    http::{
        IncludeObject, ListBody, Presentation, ResponseBody, Upgrade, WatchBody, WatchParts,
        read_body,
    },
    negotiate::{self, Encoding, PatchType, Shape},
    registry::{
        Body, Call, Deleted, Endpoint, ListAnswer, ObjectAnswer, WatchRequest,
        delete::DeleteOptions,
    },
    request::{
        FieldValidation, ListOptions, MAX_FIELD_MANAGER, ResourcePath, VersionMatch, WriteOptions,
        parse_version,
    },
    resource::{NameRule, Scope, Subresource},
    reviews::Review,
    status::{ApiError, ApiResult},
    types::validate_name,
};

/// Bodies from this size on are compressed for clients that accept it, as upstream does.
const GZIP_FROM: usize = 128 << 10;

/// A watch without a timeout ends after a random time in this range of seconds, so that clients do
/// not all come back at once.
const WATCH_SECONDS: std::ops::Range<u64> = 1800..3600;

/// The longest watch that a client may ask for: it must be ready to begin anew at any time, and no
/// clock can tell what is centuries away.
const MAX_WATCH_SECONDS: u64 = 24 * 3600;

/// What upstream says of custom resources in protobuf.
const NO_PROTOBUF: &str = "object *unstructured.Unstructured does not implement the protobuf marshalling \
                           interface and cannot be encoded to a protobuf message";

/// The verbs that name no object.
const COLLECTION_VERBS: [&str; 4] = ["list", "watch", "create", "deletecollection"];

impl State {
    /// Answers a request for a resource.
    pub(super) async fn resource(
        &self,
        head: &RequestHead,
        path: &ResourcePath,
        user: &UserInfo,
        body: Incoming,
    ) -> ApiResult<Reply> {
        if let Some(review) = Review::find(&path.group, &path.version, &path.resource) {
            return self.review(head, review, path, user, body).await;
        }
        if !self.discovery().has_group(&path.group) {
            return Ok(page_not_found());
        }
        let endpoint = self.registry.endpoint(&path.group, &path.version, &path.resource);
        let Some(endpoint) = endpoint else {
            return match self.discovery().is_custom_group(&path.group) {
                true => Ok(page_not_found()),
                false => Err(ApiError::no_such_resource()),
            };
        };
        if is_misplaced(&endpoint, head.info.verb, path) {
            return Ok(page_not_found());
        }
        let warning = endpoint.view().schema.custom().and_then(|v| v.warning.clone());
        head.warnings.lock().extend(warning);
        if path.subresource == "token" && endpoint.resource().storage == "serviceaccounts" {
            return self.token_request(head, &endpoint, path, user, body).await;
        }
        let subresource = check_route(&endpoint, head.info.verb, path)?;
        let reads = matches!(head.info.verb, "get" | "list" | "watch");
        if reads && head.parts.method != Method::GET {
            return Err(ApiError::method_not_allowed());
        }
        let manager = head.manager();
        let call = Call {
            user,
            endpoint: &endpoint,
            // The namespace of a Namespace in its URL is its own name.
            namespace: if endpoint.resource().scope == Scope::Namespaced {
                &path.namespace
            } else {
                ""
            },
            name: &path.name,
            subresource,
            manager: &manager,
            warnings: &head.warnings,
        };
        match head.info.verb {
            "get" => self.get(head, &call).await,
            "list" => self.list(head, &call).await,
            "watch" => self.watch(head, &call).await,
            "create" => self.create(head, &call, body).await,
            "update" => self.update(head, &call, body).await,
            "patch" => self.patch(head, &call, body).await,
            "delete" => self.delete(head, &call, body).await,
            "deletecollection" => self.delete_collection(head, &call, body).await,
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    async fn get(&self, head: &RequestHead, call: &Call<'_>) -> ApiResult<Reply> {
        let presentation = head.one(call.endpoint)?;
        let version = match head.query.get("resourceVersion").map(parse_version).transpose()? {
            None => VersionMatch::Newest,
            Some(0) => VersionMatch::Any,
            Some(version) => VersionMatch::NotOlderThan(version),
        };
        let object = self.registry.get(call, version).await?;
        if call.subresource == Some(Subresource::Scale) {
            call.check_scale(&object.value())?;
        }
        Ok(head.object_reply(call, &presentation, StatusCode::OK, &ObjectAnswer::Stored(object)))
    }

    async fn list(&self, head: &RequestHead, call: &Call<'_>) -> ApiResult<Reply> {
        let presentation = head.many(call.endpoint)?;
        let mut options = ListOptions::parse(&head.query, false)?;
        call.endpoint.resolve_fields(&mut options)?;
        let list = self.registry.list(call, &options).await?;
        Ok(head.list_reply(presentation, list))
    }

    async fn watch(&self, head: &RequestHead, call: &Call<'_>) -> ApiResult<Reply> {
        let presentation = head.one(call.endpoint)?;
        let Some(stream_type) = presentation.accepted.encoding.stream_type() else {
            let streams = negotiate::STREAMS;
            let text = format!("only the following media types are accepted: {streams}");
            return Err(ApiError::not_acceptable(text));
        };
        let mut options = ListOptions::parse(&head.query, true)?;
        call.endpoint.resolve_fields(&mut options)?;
        let upgrade = Upgrade::asked(&head.parts)?;
        if upgrade.is_some() && presentation.accepted.encoding != Encoding::Json {
            return Err(ApiError::not_acceptable("WebSockets carry application/json only"));
        }
        let start = self.registry.watch(&WatchRequest { call, options: &options }).await?;
        // Asked only now: a watch that began before is ended with all others.
        if self.is_draining() {
            call.endpoint.collection.unwatch(&start.watcher);
            return Err(ApiError::unavailable("the server is shutting down").retry_after(1));
        }
        let seconds = options.timeout_seconds.unwrap_or_else(random_watch_seconds);
        let seconds = seconds.min(MAX_WATCH_SECONDS);
        let body = WatchBody::new(WatchParts {
            start,
            presentation,
            options,
            timeout: Duration::from_secs(seconds),
        });
        if let Some(upgrade) = upgrade {
            return Ok(upgrade.watch(body));
        }
        let mut response = Response::new(ResponseBody::Watch(Box::new(body)));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(stream_type));
        Ok(response)
    }

    async fn create(
        &self,
        head: &RequestHead,
        call: &Call<'_>,
        body: Incoming,
    ) -> ApiResult<Reply> {
        let presentation = head.one(call.endpoint)?;
        let options = WriteOptions::parse(&head.query, "CreateOptions")?;
        let body = head.body(body, options.field_validation, call.endpoint.is_custom()).await?;
        let answer = self.registry.create(call, &body, options.dry_run).await?;
        Ok(head.object_reply(call, &presentation, StatusCode::CREATED, &answer))
    }

    async fn update(
        &self,
        head: &RequestHead,
        call: &Call<'_>,
        body: Incoming,
    ) -> ApiResult<Reply> {
        let presentation = head.one(call.endpoint)?;
        let options = WriteOptions::parse(&head.query, "UpdateOptions")?;
        let body = head.body(body, options.field_validation, call.endpoint.is_custom()).await?;
        let (answer, created) = self.registry.update(call, &body, options.dry_run).await?;
        let code = if created { StatusCode::CREATED } else { StatusCode::OK };
        Ok(head.object_reply(call, &presentation, code, &answer))
    }

    async fn patch(&self, head: &RequestHead, call: &Call<'_>, body: Incoming) -> ApiResult<Reply> {
        let presentation = head.one(call.endpoint)?;
        let strategic = call.endpoint.view().schema.builtin().is_some();
        let kind = negotiate::patch_type(&head.parts.headers, strategic)?;
        let options = WriteOptions::parse_patch(&head.query, kind)?;
        let validation = options.field_validation;
        let bytes = read_body(body).await?;
        if kind == PatchType::Apply {
            let body = Body { bytes, encoding: Encoding::Yaml, validation };
            let applied = self.registry.apply(call, &body, options.force, options.dry_run).await?;
            let (answer, created) = applied;
            let code = if created { StatusCode::CREATED } else { StatusCode::OK };
            return Ok(head.object_reply(call, &presentation, code, &answer));
        }
        let body = Body { bytes, encoding: Encoding::Json, validation };
        let answer = self.registry.patch(call, kind, &body, options.dry_run).await?;
        Ok(head.object_reply(call, &presentation, StatusCode::OK, &answer))
    }

    async fn delete(
        &self,
        head: &RequestHead,
        call: &Call<'_>,
        body: Incoming,
    ) -> ApiResult<Reply> {
        let presentation = head.one(call.endpoint)?;
        let body = head.body(body, FieldValidation::Ignore, call.endpoint.is_custom()).await?;
        let options = DeleteOptions::parse(&head.query, &body)?;
        match self.registry.delete(call, &options).await? {
            Deleted::Gone(status) => {
                let encoding = presentation.accepted.encoding;
                Ok(respond::encoded(encoding, head.pretty, StatusCode::OK, &status))
            }
            Deleted::Object(answer) => {
                Ok(head.object_reply(call, &presentation, StatusCode::OK, &answer))
            }
        }
    }

    async fn delete_collection(
        &self,
        head: &RequestHead,
        call: &Call<'_>,
        body: Incoming,
    ) -> ApiResult<Reply> {
        let presentation = head.many(call.endpoint)?;
        let mut list = ListOptions::parse(&head.query, false)?;
        call.endpoint.resolve_fields(&mut list)?;
        let body = head.body(body, FieldValidation::Ignore, call.endpoint.is_custom()).await?;
        let options = DeleteOptions::parse(&head.query, &body)?;
        let deleted = self.registry.delete_collection(call, &list, &options).await?;
        Ok(head.list_reply(presentation, deleted))
    }
}

impl RequestHead {
    /// Who the fields that the request writes belong to: whom it names, or its program.
    fn manager(&self) -> String {
        match self.query.get("fieldManager") {
            Some(manager) => manager.to_owned(),
            None => {
                let agent = self.parts.headers.get(header::USER_AGENT);
                program(agent.and_then(|agent| agent.to_str().ok()).unwrap_or_default())
            }
        }
    }

    /// How the client wants to see one object.
    fn one(&self, endpoint: &Endpoint) -> ApiResult<Presentation> {
        let presentation = self.presentation(endpoint)?;
        if presentation.accepted.shape == Shape::MetadataList {
            let text = format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                endpoint.go_type()
            );
            return Err(ApiError::not_acceptable(text));
        }
        Ok(presentation)
    }

    /// How the client wants to see a list.
    fn many(&self, endpoint: &Endpoint) -> ApiResult<Presentation> {
        let presentation = self.presentation(endpoint)?;
        if presentation.accepted.shape == Shape::Metadata {
            let text = format!(
                "you requested PartialObjectMetadata, but the requested object is a list (*{}List)",
                endpoint.go_type()
            );
            return Err(ApiError::not_acceptable(text));
        }
        Ok(presentation)
    }

    fn presentation(&self, endpoint: &Endpoint) -> ApiResult<Presentation> {
        let shapes = [Shape::Object, Shape::Table, Shape::Metadata, Shape::MetadataList];
        let list = matches!(self.info.verb, "list" | "watch");
        negotiate::check_route(&self.parts.headers, list)?;
        let mut accepted = negotiate::response(&self.parts.headers, &shapes)?;
        if accepted.encoding == Encoding::Protobuf
            && accepted.shape == Shape::Object
            && endpoint.is_custom()
        {
            let other = negotiate::without_protobuf(&self.parts.headers, &shapes);
            accepted = other.ok_or_else(|| ApiError::not_acceptable(NO_PROTOBUF))?;
        }
        let include = match accepted.shape {
            Shape::Table => IncludeObject::parse(self.query.get("includeObject"))?,
            _ => IncludeObject::Metadata,
        };
        Ok(Presentation { endpoint: endpoint.clone(), accepted, include, pretty: self.pretty })
    }

    /// An object as the client wants it, or its scale when that is what was asked for.
    fn object_reply(
        &self,
        call: &Call<'_>,
        presentation: &Presentation,
        code: StatusCode,
        answer: &ObjectAnswer,
    ) -> Reply {
        if let Some(scale) = call.scale_of(answer) {
            return respond::document(&self.parts.headers, self.pretty, code, &scale);
        }
        let content_type = presentation.accepted.encoding.content_type();
        respond::reply(code, content_type, presentation.object(answer))
    }

    /// Reads the body of a write.
    pub(super) async fn body(
        &self,
        body: Incoming,
        validation: FieldValidation,
        custom: bool,
    ) -> ApiResult<Body> {
        let encoding = negotiate::body_encoding(&self.parts.headers, custom)?;
        Ok(Body { bytes: read_body(body).await?, encoding, validation })
    }

    fn list_reply(&self, presentation: Presentation, list: ListAnswer) -> Reply {
        let encoding = presentation.accepted.encoding;
        let gzip =
            negotiate::accepts_gzip(&self.parts.headers) && ListBody::estimate(&list) > GZIP_FROM;
        let body = ResponseBody::List(Box::new(ListBody::new(presentation, list, gzip)));
        let mut response = Response::new(body);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(encoding.content_type()));
        if gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        response
    }
}

/// The name in a `User-Agent`, as far as it can be shown.
fn program(agent: &str) -> String {
    let name = agent.split('/').next().unwrap_or_default();
    let mut program = String::new();
    for character in name.chars().filter(|character| is_printable(*character)) {
        if program.len() + character.len_utf8() > MAX_FIELD_MANAGER {
            break;
        }
        program.push(character);
    }
    program
}

/// Whether the type offers this verb at this kind of path.
fn check_route(
    endpoint: &Endpoint,
    verb: &str,
    path: &ResourcePath,
) -> ApiResult<Option<Subresource>> {
    let resource = endpoint.resource();
    let namespaced = resource.scope == Scope::Namespaced;
    // Nothing of the cluster is in a namespace, least of all another namespace: rights in the one would
    // open the other.
    if !namespaced && path.within_namespace {
        return Err(ApiError::no_such_resource());
    }
    let subresource = match path.subresource.as_str() {
        "" => None,
        "status" => Some(Subresource::Status),
        "finalize" => Some(Subresource::Finalize),
        "scale" => Some(Subresource::Scale),
        "approval" => Some(Subresource::Approval),
        _ => return Err(no_such_part(endpoint, path)),
    };
    if let Some(subresource) = subresource {
        let offered = match subresource {
            Subresource::Scale => endpoint.view().scale.is_some(),
            part => resource.subresources_in(endpoint.view()).contains(&part),
        };
        if !offered {
            return Err(no_such_part(endpoint, path));
        }
        return match (subresource, verb) {
            (
                Subresource::Status | Subresource::Approval | Subresource::Scale,
                "get" | "update" | "patch",
            ) => Ok(Some(subresource)),
            (Subresource::Finalize, "update") => Ok(Some(subresource)),
            _ if endpoint.is_custom() => {
                Err(ApiError::method_not_supported(endpoint.group_resource(), verb))
            }
            _ => Err(ApiError::method_not_allowed()),
        };
    }
    let on_collection = COLLECTION_VERBS.contains(&verb);
    if namespaced && path.namespace.is_empty() && !on_collection {
        return Err(ApiError::no_such_resource());
    }
    let create_on_object = verb == "create" && !path.name.is_empty();
    let writes = matches!(verb, "create" | "deletecollection");
    let writes_without_namespace = writes && namespaced && path.namespace.is_empty();
    let change_without_name = !on_collection && path.name.is_empty();
    if !on_collection {
        check_name(&path.name)?;
    }
    // A definition that goes away lets its objects be changed: their finalizers must go.
    let offered = resource.verbs.contains(&verb) || resource.is_custom();
    if !offered || create_on_object || writes_without_namespace || change_without_name {
        return Err(ApiError::method_not_allowed());
    }
    Ok(None)
}

/// A custom type is looked for where its scope says, and nowhere else.
fn is_misplaced(endpoint: &Endpoint, verb: &str, path: &ResourcePath) -> bool {
    let namespaced = endpoint.resource().scope == Scope::Namespaced;
    let everywhere = namespaced && matches!(verb, "list" | "watch");
    endpoint.is_custom() && namespaced == path.namespace.is_empty() && !everywhere
}

/// A part that objects of the type do not have.
fn no_such_part(endpoint: &Endpoint, path: &ResourcePath) -> ApiError {
    match endpoint.resource().is_custom() {
        true => ApiError::not_found(endpoint.group_resource(), &path.name),
        false => ApiError::no_such_resource(),
    }
}

/// Nothing can have a name that is no part of a path.
fn check_name(name: &str) -> ApiResult<()> {
    let problems =
        if name.is_empty() { Vec::new() } else { validate_name(NameRule::PathSegment, name) };
    match problems.is_empty() {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!(
            "Name parameter invalid: {}: {}",
            quoted(name),
            problems.join("; ")
        ))),
    }
}

fn random_watch_seconds() -> u64 {
    let random = uuid::Uuid::new_v4().as_u128() as u64;
    WATCH_SECONDS.start + random % (WATCH_SECONDS.end - WATCH_SECONDS.start)
}
