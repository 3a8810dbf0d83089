//! Policies that may change a write.

use lanyard_cel::{Budget, Value as Cel};
use serde_json::{Value, json};

use super::{
    FromObject,
    evaluation::{Evaluation, Expression, Input, PolicyVariables},
    expression::{Scope, Wanted},
    matching::Match,
    validating::{conditions_hold, match_conditions, param_kind},
};
use crate::object::ObjectExt;

/// A compiled MutatingAdmissionPolicy.
#[derive(Debug)]
pub struct MutatingPolicy {
    /// The name.
    pub name: String,
    /// Which requests it is for.
    pub matches: Match,
    /// Whether a write is refused when something goes wrong.
    pub fails_closed: bool,
    /// Whether it is asked again when others changed the object after it.
    pub reinvoked: bool,
    /// The version and kind of its parameters.
    pub param_kind: Option<(String, String)>,
    compiled: Result<Compiled, String>,
}

#[derive(Debug)]
struct Compiled {
    conditions: Vec<Expression>,
    variables: PolicyVariables,
    mutations: Vec<(bool, Expression)>,
}

/// One change that a policy wants.
#[derive(Debug, PartialEq)]
pub enum Mutation {
    /// A JSON patch.
    Patch(Value),
    /// Fields to merge, as a configuration is applied.
    Apply(Value),
}

impl FromObject for MutatingPolicy {
    fn from_object(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            name: object.name().to_owned(),
            matches: Match::new(&spec["matchConstraints"]),
            fails_closed: spec.text(&["failurePolicy"]) != "Ignore",
            reinvoked: spec.text(&["reinvocationPolicy"]) == "IfNeeded",
            param_kind: param_kind(spec),
            compiled: Compiled::new(spec),
        }
    }
}

impl Compiled {
    fn new(spec: &Value) -> Result<Self, String> {
        let params = param_kind(spec).is_some();
        let mut scope = Scope { params, authorizer: true, ..Scope::default() };
        let variables = PolicyVariables::new(spec, &mut scope)?;
        let scope = Scope { patches: true, ..scope };
        let list = spec.get("mutations").and_then(Value::as_array).into_iter().flatten();
        let mutations = list.map(|mutation| {
            let patch = mutation.text(&["patchType"]) == "JSONPatch";
            let (field, wanted) = match patch {
                true => ("jsonPatch", Wanted::Patches),
                false => ("applyConfiguration", Wanted::Object),
            };
            let text = mutation.text(&[field, "expression"]).trim();
            Ok((patch, Expression::new(&scope, text, wanted)?))
        });
        let mutations = mutations.collect::<Result<_, String>>()?;
        Ok(Self { conditions: match_conditions(spec, params)?, variables, mutations })
    }
}

impl MutatingPolicy {
    /// How many mutations there are.
    pub fn len(&self) -> usize {
        self.compiled.as_ref().map_or(1, |compiled| compiled.mutations.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the conditions of the policy hold.
    ///
    /// # Errors
    /// What went wrong.
    pub fn applies(&self, input: &Input<'_>) -> Result<bool, String> {
        conditions_hold(&self.compiled.as_ref().map_err(String::clone)?.conditions, input)
    }

    /// The change that one of the mutations wants of the object as it is now.
    ///
    /// # Errors
    /// What went wrong.
    pub fn mutation(&self, at: usize, input: &Input<'_>) -> Result<Mutation, String> {
        let compiled = self.compiled.as_ref().map_err(String::clone)?;
        let Some((patch, expression)) = compiled.mutations.get(at) else {
            return Ok(Mutation::Patch(json!([])));
        };
        let mut evaluation = Evaluation::new(input, &compiled.variables, Budget::PER_OBJECT);
        let value = evaluation.evaluate(expression).map_err(|failure| failure.to_string())?;
        match (*patch, &value) {
            (true, Cel::List(list)) => {
                let operations = list.iter().map(|operation| {
                    operation
                        .map_err(|error| error.to_string())
                        .and_then(|value| operation_of(&value))
                });
                Ok(Mutation::Patch(operations.collect::<Result<Vec<_>, String>>()?.into()))
            }
            (false, Cel::Message(_)) => {
                check_type_names(&value, "Object")?;
                value.to_json().map(Mutation::Apply).map_err(|error| error.to_string())
            }
            _ => Err("unexpected evaluation result type".to_owned()),
        }
    }
}

/// The type of an object that an expression makes must say where it goes: `Object.spec` below `spec`.
fn check_type_names(value: &Cel<'_>, expected: &str) -> Result<(), String> {
    match value {
        Cel::Message(message) => {
            if message.name != expected {
                let name = &message.name;
                return Err(format!(
                    "type mismatch: unexpected type name \"{name}\", expected \"{expected}\", which \
                     matches field name path from root Object type"
                ));
            }
            let mut fields = message.fields.iter();
            fields.try_for_each(|(name, field)| {
                check_type_names(field, &format!("{expected}.{name}"))
            })
        }
        Cel::List(list) => list.iter().try_for_each(|element| {
            check_type_names(&element.map_err(|error| error.to_string())?, expected)
        }),
        _ => Ok(()),
    }
}

/// One operation of a patch. `value` is left out where it is not set, as a null would mean something.
fn operation_of(value: &Cel<'_>) -> Result<Value, String> {
    let Cel::Message(message) = value else {
        return Err("type conversion error: expected JSONPatch".to_owned());
    };
    let mut operation = serde_json::Map::new();
    for (name, field) in &message.fields {
        operation.insert(name.clone(), field.to_json().map_err(|error| error.to_string())?);
    }
    Ok(Value::Object(operation))
}
