//! Policies that may refuse a write.

use lanyard_cel::{Budget, Value as Cel};
use serde_json::Value;

use super::{
    FromObject,
    evaluation::{Evaluation, Expression, Failure, Input, PolicyVariables},
    expression::{Scope, Wanted},
    matching::Match,
};
use crate::object::ObjectExt;

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 * 1024;

/// A compiled ValidatingAdmissionPolicy.
#[derive(Debug)]
pub struct ValidatingPolicy {
    /// The name.
    pub name: String,
    /// Which requests it is for.
    pub matches: Match,
    /// Whether a write is refused when something goes wrong.
    pub fails_closed: bool,
    /// The version and kind of its parameters.
    pub param_kind: Option<(String, String)>,
    compiled: Result<Compiled, String>,
}

#[derive(Debug)]
struct Compiled {
    conditions: Vec<Expression>,
    variables: PolicyVariables,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// Why a policy refuses a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// What the client is told.
    pub message: String,
    /// The reason of the status; empty for the usual one.
    pub reason: String,
}

/// What a policy says about a write.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Failed validations, with their places in the policy.
    pub denials: Vec<(usize, Denial)>,
    /// What refuses the write whatever the binding says about failures.
    pub refused: Vec<Denial>,
    /// Keys and values for the audit log.
    pub annotations: Vec<(String, String)>,
}

impl FromObject for ValidatingPolicy {
    fn from_object(object: &Value) -> Self {
        let spec = &object["spec"];
        Self {
            name: object.name().to_owned(),
            matches: Match::new(&spec["matchConstraints"]),
            fails_closed: spec.text(&["failurePolicy"]) != "Ignore",
            param_kind: param_kind(spec),
            compiled: Compiled::new(spec),
        }
    }
}

/// The version and kind of parameters that a policy names.
pub(super) fn param_kind(spec: &Value) -> Option<(String, String)> {
    let kind = spec.get("paramKind").filter(|kind| kind.is_object())?;
    Some((kind.text(&["apiVersion"]).to_owned(), kind.text(&["kind"]).to_owned()))
}

/// The conditions under which a policy applies.
pub(super) fn match_conditions(spec: &Value, params: bool) -> Result<Vec<Expression>, String> {
    let scope = Scope { params, authorizer: true, ..Scope::default() };
    let list = spec.get("matchConditions").and_then(Value::as_array).into_iter().flatten();
    list.map(|condition| {
        Expression::new(&scope, condition.text(&["expression"]).trim(), Wanted::Bool)
    })
    .collect()
}

/// Whether all conditions hold. One that does not decides, whatever is wrong with others.
pub(super) fn conditions_hold(
    conditions: &[Expression],
    input: &Input<'_>,
) -> Result<bool, String> {
    let none = PolicyVariables::default();
    let namespace = Value::Null;
    let input = Input { namespace: &namespace, ..*input };
    let mut evaluation = Evaluation::new(&input, &none, Budget::MATCH_CONDITIONS);
    let mut errors: Vec<String> = Vec::new();
    for condition in conditions {
        match evaluation.evaluate(condition) {
            Ok(Cel::Bool(false)) => return Ok(false),
            Ok(_) => {}
            Err(Failure::OutOfBudget) => return Err(Failure::OutOfBudget.to_string()),
            Err(Failure::Error(error)) if errors.contains(&error) => {}
            Err(Failure::Error(error)) => errors.push(error),
        }
    }
    match errors.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

impl Compiled {
    fn new(spec: &Value) -> Result<Self, String> {
        let params = param_kind(spec).is_some();
        let mut scope = Scope { params, authorizer: true, ..Scope::default() };
        let variables = PolicyVariables::new(spec, &mut scope)?;
        let without = Scope { authorizer: false, ..scope.clone() };
        let list = |name: &str| {
            spec.get(name).and_then(Value::as_array).cloned().unwrap_or_default().into_iter()
        };
        let validations = list("validations").map(|validation| {
            let message_expression = match validation.text(&["messageExpression"]) {
                "" => None,
                text => Some(Expression::new(&without, text, Wanted::Text)?),
            };
            Ok(Validation {
                expression: Expression::new(
                    &scope,
                    validation.text(&["expression"]),
                    Wanted::Bool,
                )?,
                message: validation.text(&["message"]).trim().to_owned(),
                message_expression,
                reason: validation.text(&["reason"]).to_owned(),
            })
        });
        let annotations = list("auditAnnotations").map(|annotation| {
            let text = annotation.text(&["valueExpression"]).trim();
            let expression = Expression::new(&scope, text, Wanted::TextOrNull)?;
            Ok((annotation.text(&["key"]).to_owned(), expression))
        });
        Ok(Self {
            conditions: match_conditions(spec, params)?,
            validations: validations.collect::<Result<_, String>>()?,
            annotations: annotations.collect::<Result<_, String>>()?,
            variables,
        })
    }
}

impl ValidatingPolicy {
    /// What the policy says about a write that it matches.
    pub fn validate(&self, input: &Input<'_>) -> Outcome {
        let compiled = match &self.compiled {
            Ok(compiled) => compiled,
            Err(error) => return self.failed(error.clone()),
        };
        match conditions_hold(&compiled.conditions, input) {
            Ok(true) => {}
            Ok(false) => return Outcome::default(),
            Err(error) => return self.failed(error),
        }
        let mut outcome = Outcome::default();
        let mut evaluation = Evaluation::new(input, &compiled.variables, Budget::PER_OBJECT);
        for (at, validation) in compiled.validations.iter().enumerate() {
            match evaluation.evaluate(&validation.expression) {
                Ok(Cel::Bool(true)) => {}
                Ok(_) => outcome.denials.push((at, validation.denial(&mut evaluation))),
                Err(Failure::OutOfBudget) => return self.failed(Failure::OutOfBudget.to_string()),
                Err(Failure::Error(_)) if !self.fails_closed => {}
                Err(Failure::Error(message)) => {
                    outcome.denials.push((at, Denial { message, reason: String::new() }));
                }
            }
        }
        self.annotate(compiled, input, &mut outcome);
        outcome
    }

    /// Something went wrong: the failure policy decides.
    fn failed(&self, message: String) -> Outcome {
        let denial = Denial { message, reason: String::new() };
        let denials = if self.fails_closed { vec![(0, denial)] } else { Vec::new() };
        Outcome { denials, ..Outcome::default() }
    }

    fn annotate(&self, compiled: &Compiled, input: &Input<'_>, outcome: &mut Outcome) {
        let mut evaluation = Evaluation::new(input, &compiled.variables, Budget::PER_OBJECT);
        for (key, expression) in &compiled.annotations {
            match evaluation.evaluate(expression) {
                Ok(Cel::String(text)) if !text.trim().is_empty() => {
                    outcome.annotations.push((key.clone(), text.trim().to_owned()));
                }
                Ok(_) => {}
                Err(_) if !self.fails_closed => {}
                Err(failure) => {
                    let message = failure.to_string();
                    outcome.refused.push(Denial { message, reason: String::new() });
                }
            }
        }
    }
}

impl Validation {
    /// The message is the expression's, or the one that is written, or the expression itself.
    fn denial<'a>(&'a self, evaluation: &mut Evaluation<'a>) -> Denial {
        let made =
            self.message_expression.as_ref().and_then(|made| match evaluation.evaluate(made) {
                Ok(Cel::String(text)) => Some(text.trim().to_owned()),
                _ => None,
            });
        let usable =
            |text: &String| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
        let message =
            made.filter(usable).or_else(|| Some(self.message.clone()).filter(|m| !m.is_empty()));
        let message = message
            .unwrap_or_else(|| format!("failed expression: {}", self.expression.text.trim()));
        Denial { message, reason: self.reason.clone() }
    }
}
