//! The tables of the fields that reviews and token requests have.

use crate::schema::{
    Field, STRING, STRINGS, Struct,
    Type::{self, Int64, List, Map, Time},
    meta::{API_VERSION, KIND, METADATA, UID},
};

/// `authentication.k8s.io/v1` SelfSubjectReview.
pub(super) static SELF_SUBJECT: Struct = Struct::new(
    "SelfSubjectReview",
    &[KIND, API_VERSION, METADATA, Field::omit_empty("status", Type::Raw)],
);

/// `authentication.k8s.io/v1` TokenReview.
pub(super) static TOKEN: Struct = Struct::new(
    "TokenReview",
    &[
        KIND,
        API_VERSION,
        METADATA,
        Field::always("spec", Type::Struct(&TOKEN_SPEC)),
        Field::omit_empty("status", Type::Raw),
    ],
);

static TOKEN_SPEC: Struct = Struct::new(
    "TokenReviewSpec",
    &[Field::omit_empty("token", STRING), Field::omit_empty("audiences", STRINGS)],
);

/// `authorization.k8s.io/v1` SubjectAccessReview.
pub(super) static SUBJECT_ACCESS: Struct = Struct::new("SubjectAccessReview", &SUBJECT_FIELDS);

/// `authorization.k8s.io/v1` LocalSubjectAccessReview.
pub(super) static LOCAL_ACCESS: Struct = Struct::new("LocalSubjectAccessReview", &SUBJECT_FIELDS);

/// `authorization.k8s.io/v1` SelfSubjectAccessReview.
pub(super) static SELF_ACCESS: Struct = Struct::new("SelfSubjectAccessReview", &SELF_FIELDS);

/// `authorization.k8s.io/v1` SelfSubjectRulesReview.
pub(super) static SELF_RULES: Struct = Struct::new("SelfSubjectRulesReview", &RULES_FIELDS);

static SUBJECT_FIELDS: [Field; 5] = [
    KIND,
    API_VERSION,
    METADATA,
    Field::always("spec", Type::Struct(&SUBJECT_SPEC)),
    Field::omit_empty("status", Type::Raw),
];

static SELF_FIELDS: [Field; 5] = [
    KIND,
    API_VERSION,
    METADATA,
    Field::always("spec", Type::Struct(&SELF_SPEC)),
    Field::omit_empty("status", Type::Raw),
];

static RULES_FIELDS: [Field; 5] = [
    KIND,
    API_VERSION,
    METADATA,
    Field::always("spec", Type::Struct(&RULES_SPEC)),
    Field::omit_empty("status", Type::Raw),
];

static SUBJECT_SPEC: Struct = Struct::new(
    "SubjectAccessReviewSpec",
    &[
        RESOURCE_ATTRIBUTES,
        PATH_ATTRIBUTES,
        Field::omit_empty("user", STRING),
        Field::omit_empty("groups", STRINGS),
        Field::omit_empty("extra", Map(&List(&STRING))),
        Field::omit_empty("uid", STRING),
    ],
);

static SELF_SPEC: Struct =
    Struct::new("SelfSubjectAccessReviewSpec", &[RESOURCE_ATTRIBUTES, PATH_ATTRIBUTES]);

static RULES_SPEC: Struct =
    Struct::new("SelfSubjectRulesReviewSpec", &[Field::omit_empty("namespace", STRING)]);

const RESOURCE_ATTRIBUTES: Field = Field::pointer("resourceAttributes", Type::Struct(&RESOURCE));
const PATH_ATTRIBUTES: Field = Field::pointer("nonResourceAttributes", Type::Struct(&PATH));

static RESOURCE: Struct = Struct::new(
    "ResourceAttributes",
    &[
        Field::omit_empty("namespace", STRING),
        Field::omit_empty("verb", STRING),
        Field::omit_empty("group", STRING),
        Field::omit_empty("version", STRING),
        Field::omit_empty("resource", STRING),
        Field::omit_empty("subresource", STRING),
        Field::omit_empty("name", STRING),
        Field::pointer("fieldSelector", Type::Struct(&FIELD_SELECTOR)),
        Field::pointer("labelSelector", Type::Struct(&LABEL_SELECTOR)),
    ],
);

static PATH: Struct = Struct::new(
    "NonResourceAttributes",
    &[Field::omit_empty("path", STRING), Field::omit_empty("verb", STRING)],
);

static FIELD_SELECTOR: Struct = Struct::new(
    "FieldSelectorAttributes",
    &[
        Field::omit_empty("rawSelector", STRING),
        Field::omit_empty("requirements", List(&Type::Struct(&FIELD_REQUIREMENT))),
    ],
);

static LABEL_SELECTOR: Struct = Struct::new(
    "LabelSelectorAttributes",
    &[
        Field::omit_empty("rawSelector", STRING),
        Field::omit_empty("requirements", List(&Type::Struct(&LABEL_REQUIREMENT))),
    ],
);

static FIELD_REQUIREMENT: Struct = Struct::new(
    "FieldSelectorRequirement",
    &[
        Field::always("key", STRING),
        Field::always("operator", Type::Str("v1.FieldSelectorOperator")),
        Field::omit_empty("values", STRINGS),
    ],
);

static LABEL_REQUIREMENT: Struct = Struct::new(
    "LabelSelectorRequirement",
    &[
        Field::always("key", STRING),
        Field::always("operator", Type::Str("v1.LabelSelectorOperator")),
        Field::omit_empty("values", STRINGS),
    ],
);

/// `authentication.k8s.io/v1` TokenRequest.
pub static TOKEN_REQUEST: Struct = Struct::new(
    "TokenRequest",
    &[
        KIND,
        API_VERSION,
        METADATA,
        Field::always("spec", Type::Struct(&TOKEN_REQUEST_SPEC)),
        Field::omit_empty("status", Type::Struct(&TOKEN_REQUEST_STATUS)),
    ],
);

static TOKEN_REQUEST_SPEC: Struct = Struct::new(
    "TokenRequestSpec",
    &[
        Field::always("audiences", STRINGS),
        Field::pointer("expirationSeconds", Int64),
        Field::pointer("boundObjectRef", Type::Struct(&BOUND_OBJECT)),
    ],
);

static BOUND_OBJECT: Struct = Struct::new(
    "BoundObjectReference",
    &[
        Field::omit_empty("kind", STRING),
        Field::omit_empty("apiVersion", STRING),
        Field::omit_empty("name", STRING),
        Field::omit_empty("uid", UID),
    ],
);

static TOKEN_REQUEST_STATUS: Struct = Struct::new(
    "TokenRequestStatus",
    &[Field::omit_empty("token", STRING), Field::omit_empty("expirationTimestamp", Time)],
);
