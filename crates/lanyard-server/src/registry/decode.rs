//! From the bytes of a request body to an object in the stored form.

use std::borrow::Cow;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{Call, Endpoint, Served, ownership::mark_reset};
use crate::{
    field::{FieldError, quoted},
    negotiate::Encoding,
    object::ObjectExt,
    request::FieldValidation,
    resource::{Schema, Scope},
    schema::{self, ParseError, Parsed},
    status::{ApiError, ApiResult, GroupName},
};

/// A request body that was read to its end.
pub struct Body {
    /// The bytes.
    pub bytes: Bytes,
    /// How they are encoded.
    pub encoding: Encoding,
    /// How strictly its fields are taken.
    pub validation: FieldValidation,
}

impl Body {
    /// The body as a tree, and the duplicate fields in it.
    ///
    /// # Errors
    /// When it is not what its media type says.
    pub fn parse(&self) -> Result<Parsed, ParseError> {
        match self.encoding {
            Encoding::Json => schema::parse_json(&self.bytes),
            Encoding::Yaml => schema::parse_yaml(&self.bytes),
            Encoding::Protobuf => schema::parse_protobuf(&self.bytes),
        }
    }
}

/// Why a tree is no object of the type that is asked for.
pub(super) enum Misfit {
    /// Not even its kind can be told.
    Unrecognized(String),
    /// It is of this kind and version, which cannot be used here, or not like this.
    Unusable {
        /// The kind that it says.
        kind: String,
        /// The version that it says, without the group.
        version: String,
        /// What is wrong.
        why: String,
    },
    /// It is of another kind, where any kind can be read.
    OtherKind(ApiError),
    /// It is of the right kind, but through another group version than the URL's.
    OtherVersion(String),
}

impl Misfit {
    /// What is wrong.
    pub(super) fn why(self) -> String {
        match self {
            Self::Unrecognized(why) | Self::Unusable { why, .. } | Self::OtherVersion(why) => why,
            Self::OtherKind(error) => error.to_string(),
        }
    }
}

impl From<ParseError> for Misfit {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Message { kind, api_version, why } => {
                Self::Unusable { kind, version: short(&api_version).to_owned(), why }
            }
            error => Self::Unrecognized(error.without_kind()),
        }
    }
}

/// The type that a body must be of.
pub struct Expected<'a> {
    kind: &'a str,
    api_version: String,
    schema: Cow<'a, Schema>,
    /// The name of upstream's internal type, which some messages show.
    go_type: String,
    /// Which stored type it is, if any.
    storage: Option<&'a str>,
}

impl<'a> Expected<'a> {
    /// A type of version `v1` that is answered rather than stored.
    pub fn virtual_kind(group: &str, kind: &'a str) -> Self {
        let package = group.split('.').next().unwrap_or_default();
        Self {
            kind,
            api_version: format!("{group}/v1"),
            schema: Cow::Owned(Schema::Builtin(schema::builtin(&format!(
                "io.k8s.api.{package}.v1.{kind}"
            )))),
            go_type: format!("{package}.{kind}"),
            storage: None,
        }
    }

    /// The object in a body, checked against the schema; texts for `Warning` headers go to `warnings`.
    ///
    /// # Errors
    /// When it is no such object.
    pub fn decode(
        &self,
        served: &Served,
        body: &Body,
        warnings: &Mutex<Vec<String>>,
    ) -> ApiResult<Value> {
        let Parsed { value, duplicates } =
            body.parse().map_err(|error| self.unfit(error.into()))?;
        let problems = |unknown: &[String]| {
            // The unknown fields of custom types are found after those that are there twice.
            let in_order = self.schema.builtin().is_some();
            let bytes = if in_order { &body.bytes[..] } else { &[] };
            schema::strict_errors(bytes, &duplicates, unknown)
        };
        let (object, problems) = self
            .conform(served, value, body.validation, problems)
            .map_err(|misfit| self.unfit(misfit))?;
        warnings.lock().extend(problems);
        Ok(object)
    }

    /// Checks a tree against the schema, and says what is worth a warning.
    ///
    /// `problems` are the complaints of strict validation, given the unknown fields.
    pub(super) fn conform(
        &self,
        served: &Served,
        mut object: Value,
        validation: FieldValidation,
        problems: impl FnOnce(&[String]) -> Vec<String>,
    ) -> Result<(Value, Vec<String>), Misfit> {
        self.check_type(served, &mut object)?;
        if self.schema.builtin().is_some() {
            mark_reset(&mut object);
        }
        let misfit = |why: String| Misfit::Unusable {
            kind: self.kind.to_owned(),
            version: short(&self.api_version).to_owned(),
            why,
        };
        let conformed = self.schema.conform(object);
        let conformed = conformed.map_err(|error| misfit(error.to_string()))?;
        let problems = match validation {
            FieldValidation::Ignore => Vec::new(),
            _ => problems(&conformed.unknown),
        };
        if validation == FieldValidation::Strict && !problems.is_empty() {
            return Err(misfit(format!("strict decoding error: {}", problems.join(", "))));
        }
        Ok((conformed.value, problems))
    }

    /// Kind and apiVersion may be missing, but not be those of another type.
    fn check_type(&self, served: &Served, object: &mut Value) -> Result<(), Misfit> {
        let told = schema::type_meta(object);
        let (version, kind) = told.map_err(|why| Misfit::Unrecognized(why.without_kind()))?;
        if version.matches('/').count() > 1 {
            let why = format!("unexpected GroupVersion string: {version}");
            return Err(Misfit::Unrecognized(why));
        }
        if let Schema::Custom(_) = &*self.schema {
            return self.check_custom_type(object);
        }
        let kind = if kind.is_empty() { self.kind } else { kind };
        let version = if version.is_empty() { &self.api_version } else { version };
        if kind != self.kind || version != self.api_version {
            return Err(self.other_type(served, kind, version));
        }
        if object.is_null() {
            *object = Value::Object(Map::new());
        }
        object["kind"] = self.kind.into();
        object["apiVersion"] = self.api_version.as_str().into();
        Ok(())
    }

    /// Objects of custom types must say what they are.
    fn check_custom_type(&self, object: &Value) -> Result<(), Misfit> {
        let (version, kind, name) = (object.api_version(), object.kind(), object.name());
        if kind.is_empty() {
            return Err(Misfit::Unrecognized("Object 'Kind' is missing".to_owned()));
        }
        if version != self.api_version {
            let expected = &self.api_version;
            return Err(Misfit::OtherVersion(format!(
                "the API version in the data ({version}) does not match the expected API version ({expected})"
            )));
        }
        if kind != self.kind {
            let why = format!("must be {}", self.kind);
            let error = FieldError::invalid_str("kind", kind, why);
            let group = version.split('/').next().unwrap_or_default();
            let kind = GroupName { group, name: kind };
            return Err(Misfit::OtherKind(ApiError::invalid(kind, name, &[error])));
        }
        Ok(())
    }

    /// An object of a type that is not the URL's.
    fn other_type(&self, served: &Served, kind: &str, version: &str) -> Misfit {
        let why = match served.of_kind(version, kind) {
            None => {
                format!("no kind {} is registered for version {}", quoted(kind), quoted(version))
            }
            Some(other) if self.storage.is_some_and(|own| other.storage == own) => {
                let expected = &self.api_version;
                return Misfit::OtherVersion(format!(
                    "the API version in the data ({version}) does not match the expected API version ({expected})"
                ));
            }
            Some(_) => {
                let (short, expected) = (short(version), &self.go_type);
                format!("converting ({short}.{kind}) to ({expected}): unknown conversion")
            }
        };
        Misfit::Unusable { kind: kind.to_owned(), version: short(version).to_owned(), why }
    }

    /// What a client that sent such a body is told.
    fn unfit(&self, misfit: Misfit) -> ApiError {
        let expected = self.kind;
        ApiError::bad_request(match misfit {
            Misfit::OtherKind(error) => return error,
            Misfit::Unrecognized(why) => {
                format!("the object provided is unrecognized (must be of type {expected}): {why}")
            }
            Misfit::Unusable { kind, version, why } => {
                let version = quoted(&version);
                format!("{kind} in version {version} cannot be handled as a {expected}: {why}")
            }
            Misfit::OtherVersion(why) => why,
        })
    }
}

/// A version without its group.
fn short(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

impl Endpoint {
    fn expected(&self) -> Expected<'_> {
        Expected {
            kind: &self.resource().kind,
            api_version: self.view().api_version(),
            schema: Cow::Borrowed(&self.view().schema),
            go_type: self.go_type(),
            storage: Some(&self.resource().storage),
        }
    }
}

impl Call<'_> {
    /// The object in a body, checked against the schema and brought into the stored form.
    pub(super) fn decode(&self, served: &Served, body: &Body) -> ApiResult<Value> {
        let object = self.endpoint.expected().decode(served, body, self.warnings)?;
        Ok(self.endpoint.to_stored(object))
    }

    /// The result of a patch, checked against the schema and brought into the stored form.
    pub(super) fn conform(
        &self,
        served: &Served,
        object: Value,
        validation: FieldValidation,
        problems: impl FnOnce(&[String]) -> Vec<String>,
    ) -> Result<Value, Misfit> {
        let expected = self.endpoint.expected();
        let (object, problems) = expected.conform(served, object, validation, problems)?;
        self.warnings.lock().extend(problems);
        Ok(self.endpoint.to_stored(object))
    }

    /// Brings the namespace of an object in line with the URL's.
    pub(super) fn check_namespace(&self, object: &mut Value) -> ApiResult<()> {
        match self.endpoint.resource().scope {
            Scope::Namespaced if object.namespace().is_empty() => {
                object.meta_mut().insert("namespace".into(), self.namespace.into());
                Ok(())
            }
            Scope::Namespaced if object.namespace() != self.namespace => {
                Err(ApiError::other_namespace())
            }
            Scope::Cluster => {
                object.meta_mut().remove("namespace");
                Ok(())
            }
            Scope::Namespaced => Ok(()),
        }
    }

    /// The name in the body must be the one of the URL.
    pub(super) fn check_name(&self, object: &Value) -> ApiResult<()> {
        let (name, url) = (object.name(), self.name);
        if name.is_empty() {
            let text = format!(
                "the name of the object ({url} based on URL) was undeterminable: name must be provided"
            );
            return Err(ApiError::bad_request(text));
        }
        if name != url {
            let text = format!(
                "the name of the object ({name}) does not match the name on the URL ({url})"
            );
            return Err(ApiError::bad_request(text));
        }
        Ok(())
    }
}
