//! Types that expressions have.

use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(clippy::enum_variant_names, reason = "the language calls the type of a type `type`")]
pub enum Type {
    /// Any value; whether an operation fits is found at run time.
    Dyn,
    /// The type of `null`.
    Null,
    /// True or false.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An unsigned 64-bit integer.
    Uint,
    /// A double.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A point in time.
    Timestamp,
    /// A span of time.
    Duration,
    /// A list and the type of its elements.
    List(Arc<Type>),
    /// A map and the types of its keys and values.
    Map(Arc<(Type, Type)>),
    /// An object by the name of its type.
    Object(Arc<str>),
    /// A type without fields that libraries bring along, such as `net.IP`.
    Opaque(Arc<str>),
    /// A value that may be absent.
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// A type that is not known yet, by number.
    Param(u32),
    /// What an expression with an error has; fits everywhere, so that one error gives one message.
    Error,
}

impl Type {
    /// A list of elements of a type.
    pub fn list(items: Type) -> Self {
        Self::List(Arc::new(items))
    }

    /// A map.
    pub fn map(keys: Type, values: Type) -> Self {
        Self::Map(Arc::new((keys, values)))
    }

    /// An object type by its name.
    pub fn object(name: &str) -> Self {
        Self::Object(name.into())
    }

    /// An optional value.
    pub fn optional(inner: Type) -> Self {
        Self::Optional(Arc::new(inner))
    }

    /// The name of the outermost type, as it is in messages of the run time.
    pub(crate) fn kind_name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Object(name) | Self::Opaque(name) => name,
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Param(_) => "param",
            Self::Error => "error",
        }
    }

    /// The types inside, as far as they count for the fit of two types.
    pub(crate) fn parameters(&self) -> [Option<&Type>; 2] {
        match self {
            Self::List(items) | Self::Optional(items) => [Some(items), None],
            Self::Map(map) => [Some(&map.0), Some(&map.1)],
            Self::Type(Some(inner)) => [Some(inner), None],
            _ => [None, None],
        }
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Error)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Map(map) => write!(f, "map({}, {})", map.0, map.1),
            Self::Optional(inner) => write!(f, "optional_type({inner})"),
            Self::Type(Some(inner)) => write!(f, "type({inner})"),
            Self::Param(number) => write!(f, "_var{number}"),
            Self::Error => f.write_str("!error!"),
            other => f.write_str(other.kind_name()),
        }
    }
}

/// Names of types that libraries bring along.
pub(crate) mod names {
    pub(crate) const URL: &str = "kubernetes.URL";
    pub(crate) const QUANTITY: &str = "kubernetes.Quantity";
    pub(crate) const SEMVER: &str = "kubernetes.Semver";
    pub(crate) const FORMAT: &str = "kubernetes.NamedFormat";
    pub(crate) const IP: &str = "net.IP";
    pub(crate) const CIDR: &str = "net.CIDR";
    pub(crate) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
    pub(crate) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
    pub(crate) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
    pub(crate) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
    pub(crate) const DECISION: &str = "kubernetes.authorization.Decision";
}
