//! The tables of the types that many kinds share: object metadata, selectors, conditions.

use super::{
    Field, STRING, STRING_MAP, STRINGS, Struct,
    Type::{self, Bool, Int64, Raw, Str, Time},
};

/// `kind` of a kind's table; see [`API_VERSION`].
pub const KIND: Field = Field::omit_empty("kind", STRING);
/// `apiVersion` of a kind's table.
pub const API_VERSION: Field = Field::omit_empty("apiVersion", STRING);
/// `metadata` of a kind's table.
pub const METADATA: Field = Field::always("metadata", Type::Struct(&OBJECT_META));

/// A unique id.
pub const UID: Type = Str("types.UID");

/// What every object has.
pub static OBJECT_META: Struct = Struct::new(
    "ObjectMeta",
    &[
        Field::omit_empty("name", STRING),
        Field::omit_empty("generateName", STRING),
        Field::omit_empty("namespace", STRING),
        Field::omit_empty("selfLink", STRING),
        Field::omit_empty("uid", UID),
        Field::omit_empty("resourceVersion", STRING),
        Field::omit_empty("generation", Int64),
        Field::omit_empty("creationTimestamp", Time),
        Field::pointer("deletionTimestamp", Time),
        Field::pointer("deletionGracePeriodSeconds", Int64),
        Field::omit_empty("labels", STRING_MAP),
        Field::omit_empty("annotations", STRING_MAP),
        Field::omit_empty("ownerReferences", Type::List(&Type::Struct(&OWNER_REFERENCE))),
        Field::omit_empty("finalizers", STRINGS),
        Field::omit_empty("managedFields", Type::List(&Type::Struct(&MANAGED_FIELDS_ENTRY))),
    ],
);

/// An object that another one belongs to.
pub static OWNER_REFERENCE: Struct = Struct::new(
    "OwnerReference",
    &[
        Field::always("apiVersion", STRING),
        Field::always("kind", STRING),
        Field::always("name", STRING),
        Field::always("uid", UID),
        Field::pointer("controller", Bool),
        Field::pointer("blockOwnerDeletion", Bool),
    ],
);

/// Who last set which fields.
pub static MANAGED_FIELDS_ENTRY: Struct = Struct::new(
    "ManagedFieldsEntry",
    &[
        Field::omit_empty("manager", STRING),
        Field::omit_empty("operation", Str("v1.ManagedFieldsOperationType")),
        Field::omit_empty("apiVersion", STRING),
        Field::pointer("time", Time),
        Field::omit_empty("fieldsType", STRING),
        Field::pointer("fieldsV1", Raw),
        Field::omit_empty("subresource", STRING),
    ],
);

/// A choice of objects by their labels.
pub static LABEL_SELECTOR: Struct = Struct::new(
    "LabelSelector",
    &[
        Field::omit_empty("matchLabels", STRING_MAP),
        Field::omit_empty(
            "matchExpressions",
            Type::List(&Type::Struct(&LABEL_SELECTOR_REQUIREMENT)),
        ),
    ],
);

/// One condition of a [`LABEL_SELECTOR`].
pub static LABEL_SELECTOR_REQUIREMENT: Struct = Struct::new(
    "LabelSelectorRequirement",
    &[
        Field::always("key", STRING),
        Field::always("operator", Str("v1.LabelSelectorOperator")),
        Field::omit_empty("values", STRINGS),
    ],
);

/// One aspect of the state of an object.
pub static CONDITION: Struct = Struct::new(
    "Condition",
    &[
        Field::always("type", STRING),
        Field::always("status", Str("v1.ConditionStatus")),
        Field::omit_empty("observedGeneration", Int64),
        Field::always("lastTransitionTime", Time),
        Field::always("reason", STRING),
        Field::always("message", STRING),
    ],
);
