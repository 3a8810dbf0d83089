//! Which media type a client wants, and which one it sent.

use http::{HeaderMap, header};

use crate::status::{ApiError, ApiResult};

/// What the response should look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The encoding.
    pub encoding: Encoding,
    /// The shape.
    pub shape: Shape,
    /// The `apiVersion` of tables and bare metadata.
    pub meta_version: &'static str,
}

/// How bytes are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

/// What is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The object itself.
    Object,
    /// A table for people.
    Table,
    /// Only the metadata of one object.
    Metadata,
    /// Only the metadata of the objects of a list.
    MetadataList,
}

impl Encoding {
    /// The media type of a response.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
        }
    }

    /// The media type of a watch, where there is one.
    pub fn stream_type(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Yaml => None,
            Self::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        }
    }
}

/// The `apiVersion` that tables and bare metadata have now.
pub const META_V1: &str = "meta.k8s.io/v1";

/// The one that they had before, which clients may still ask for.
const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

/// The media types that bodies and responses may have, as errors list them.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

/// The same for custom resources.
const CUSTOM_ACCEPTED: &str = "application/json, application/yaml";

/// The media types that watches may have.
pub const STREAMS: &str =
    "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

/// What many clients list before JSON.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The patch types of types that have no strategic merge, as errors list them.
const PLAIN_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";

/// How a patch body is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902.
    Json,
    /// RFC 7396.
    Merge,
    /// A merge patch in which lists merge too, by what the schema says.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// One entry of an `Accept` header.
struct Clause<'a> {
    media: &'a str,
    params: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        let pair = |part: &'a str| {
            part.split_once('=').map(|(k, v)| (k.trim(), v.trim().trim_matches('"')))
        };
        Self { media, params: parts.filter_map(pair).collect() }
    }

    fn param(&self, name: &str) -> Option<&'a str> {
        self.params.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    fn weight(&self) -> f32 {
        self.param("q").and_then(|q| q.parse().ok()).unwrap_or(1.0)
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.media {
            "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            PROTOBUF => Some(Encoding::Protobuf),
            _ => None,
        }
    }

    fn accepted(&self) -> Option<Accepted> {
        let encoding = self.encoding()?;
        let shape = match self.param("as") {
            None => {
                return Some(Accepted { encoding, shape: Shape::Object, meta_version: META_V1 });
            }
            Some("Table") if encoding != Encoding::Protobuf => Shape::Table,
            Some("PartialObjectMetadata") => Shape::Metadata,
            Some("PartialObjectMetadataList") => Shape::MetadataList,
            Some(_) => return None,
        };
        let meta_version = match (self.param("g"), self.param("v")) {
            (Some("meta.k8s.io"), Some("v1")) => META_V1,
            (Some("meta.k8s.io"), Some("v1beta1")) => META_V1BETA1,
            _ => return None,
        };
        Some(Accepted { encoding, shape, meta_version })
    }
}

/// What to answer with. Shapes that the resource does not have are passed over.
pub fn response(headers: &HeaderMap, shapes: &[Shape]) -> ApiResult<Accepted> {
    let found = choose(headers, |accepted| shapes.contains(&accepted.shape));
    found.ok_or_else(|| {
        let text = format!("only the following media types are accepted: {ACCEPTED}");
        ApiError::not_acceptable(text)
    })
}

/// What to answer with where there is no protobuf.
pub fn without_protobuf(headers: &HeaderMap, shapes: &[Shape]) -> Option<Accepted> {
    choose(headers, |accepted| {
        accepted.encoding != Encoding::Protobuf && shapes.contains(&accepted.shape)
    })
}

/// The best of what the client accepts.
fn choose(headers: &HeaderMap, offered: impl Fn(&Accepted) -> bool) -> Option<Accepted> {
    let plain = Accepted { encoding: Encoding::Json, shape: Shape::Object, meta_version: META_V1 };
    let Some(accept) = accept(headers) else { return Some(plain) };
    let mut clauses: Vec<_> = accept.split(',').map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    let mut found = clauses.iter().filter(|c| c.weight() > 0.0).filter_map(Clause::accepted);
    found.find(offered)
}

/// Resources are behind a router that refuses clients who know none of their media types, before
/// anything else is looked at. A list can also be watched.
pub fn check_route(headers: &HeaderMap, list: bool) -> ApiResult<()> {
    let Some(accept) = accept(headers) else { return Ok(()) };
    let known = |clause: Clause<'_>| {
        let media = clause.media;
        matches!(media, "*/*" | "application/json" | "application/yaml" | PROTOBUF)
    };
    match accept.split(',').map(Clause::parse).any(known) {
        true => Ok(()),
        false if list => {
            let all = format!("{ACCEPTED}, {STREAMS}");
            Err(ApiError::unknown_media_type(&all))
        }
        false => Err(ApiError::unknown_media_type(ACCEPTED)),
    }
}

/// Whether the client asks for the aggregated form of discovery.
pub fn wants_aggregated_discovery(headers: &HeaderMap) -> bool {
    let Some(accept) = accept(headers) else { return false };
    for clause in accept.split(',').map(Clause::parse) {
        if clause.media != "application/json" {
            continue;
        }
        match (clause.param("g"), clause.param("v"), clause.param("as")) {
            (Some("apidiscovery.k8s.io"), Some("v2"), Some("APIGroupDiscoveryList")) => {
                return true;
            }
            (None, None, None) => return false,
            _ => {}
        }
    }
    false
}

/// The best media type for a client among those that there are, for what is no object of the API.
pub fn media_type<'a>(headers: &HeaderMap, known: &[&'a str]) -> Option<&'a str> {
    let mut clauses: Vec<_> =
        accept(headers).unwrap_or("*/*").split(',').map(Clause::parse).collect();
    clauses.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
    let fits = |clause: &Clause<'_>, media: &str| match clause.media.split_once('/') {
        Some(("*", _)) => true,
        Some((kind, "*")) => media.split('/').next() == Some(kind),
        _ => clause.media == media,
    };
    let acceptable = clauses.iter().filter(|clause| clause.weight() > 0.0);
    let mut best = acceptable.filter_map(|c| known.iter().find(|media| fits(c, media)));
    best.next().copied()
}

/// Whether the client takes compressed answers.
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING).and_then(|v| v.to_str().ok());
    accepted.unwrap_or_default().split(',').any(|coding| coding.trim() == "gzip")
}

fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).filter(|v| !v.trim().is_empty())
}

/// How the body of a write is encoded; JSON when not said. Custom resources have no protobuf form.
pub fn body_encoding(headers: &HeaderMap, custom: bool) -> ApiResult<Encoding> {
    match content_type(headers) {
        "" | "application/json" => Ok(Encoding::Json),
        "application/yaml" => Ok(Encoding::Yaml),
        PROTOBUF if !custom => Ok(Encoding::Protobuf),
        _ if custom => Err(ApiError::unsupported_media_type(CUSTOM_ACCEPTED)),
        _ => Err(ApiError::unsupported_media_type(ACCEPTED)),
    }
}

/// How the body of a patch is meant; custom types have no `strategic` merge.
pub fn patch_type(headers: &HeaderMap, strategic: bool) -> ApiResult<PatchType> {
    match content_type(headers) {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" if strategic => Ok(PatchType::Strategic),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        _ if strategic => Err(ApiError::unknown_patch_type()),
        _ => Err(ApiError::unsupported_media_type(PLAIN_PATCH_TYPES)),
    }
}

fn content_type(headers: &HeaderMap) -> &str {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return "" };
    // What is not even ASCII is not one of ours.
    let value = value.to_str().unwrap_or("unknown");
    value.split(';').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(accept: &str, expected: Option<(Encoding, Shape)>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        let all = [Shape::Object, Shape::Table, Shape::Metadata, Shape::MetadataList];
        let got = response(&headers, &all).ok().map(|a| (a.encoding, a.shape));
        assert_eq!(got, expected, "{accept}");
    }

    #[test]
    fn the_best_known_clause_wins() {
        let json = Some((Encoding::Json, Shape::Object));
        let table = Some((Encoding::Json, Shape::Table));
        check("", json);
        check("*/*", json);
        check("application/json", json);
        check("application/yaml", Some((Encoding::Yaml, Shape::Object)));
        let protobuf = Some((Encoding::Protobuf, Shape::Object));
        check("application/vnd.kubernetes.protobuf,application/json", protobuf);
        check("application/vnd.kubernetes.protobuf", protobuf);
        check(
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
            json,
        );
        check("text/html", None);
        check("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", table);
        check("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", json);
        check("application/yaml;q=0.5, application/json", json);
        check("application/json;q=0", None);
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Some((Encoding::Json, Shape::MetadataList)),
        );
    }

    proptest! {
        #[test]
        fn fuzz_any_header_is_understood_or_refused(
            text in "((application/(json|yaml)|[*]/[*]|text/plain)?(;(q|as|g|v)=[a-zA-Z0-9.]{0,6})*,?){0,5}|[ -~]{0,30}",
        ) {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, text.parse().unwrap());
            headers.insert(header::CONTENT_TYPE, text.parse().unwrap());
            let all = [Shape::Object, Shape::Table, Shape::Metadata];
            if let Err(error) = response(&headers, &all) {
                prop_assert_eq!(error.code(), 406);
            }
            for error in
                [body_encoding(&headers, false).err(), patch_type(&headers, true).err()]
            {
                prop_assert!(error.is_none_or(|error| error.code() == 415));
            }
            wants_aggregated_discovery(&headers);
        }
    }
}
