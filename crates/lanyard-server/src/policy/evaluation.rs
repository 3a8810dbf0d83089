//! One write as expressions see it, and the evaluation of a policy's expressions over it.

use std::{collections::BTreeMap, sync::Arc};

use lanyard_cel::{
    AccessTarget, Authorizer, Budget, EvalError, Message, Opaque, Program, Value as Cel, Variables,
};
use serde_json::Value;

use crate::object::ObjectExt;

use super::expression::{Scope, Wanted};

/// What expressions see of a write.
pub struct Input<'a> {
    /// The new object, or null.
    pub object: &'a Value,
    /// The object before, or null.
    pub old_object: &'a Value,
    /// The request.
    pub request: &'a Value,
    /// The namespace of the object, or null.
    pub namespace: &'a Value,
    /// The parameters, or null.
    pub params: &'a Value,
    /// Answers what the user may do.
    pub authorizer: &'a Arc<dyn Authorizer>,
    /// What the request is for.
    pub resource: &'a AccessTarget,
}

/// An expression with the text it came from.
#[derive(Debug)]
pub struct Expression {
    /// The text.
    pub text: String,
    /// What it compiled to.
    pub program: Program,
}

/// The variables of a policy, in order: each may use those before it.
#[derive(Debug, Default)]
pub struct PolicyVariables(Vec<(String, Expression)>);

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The expression failed.
    Error(String),
    /// All expressions together were too expensive; the rest is not evaluated.
    OutOfBudget,
}

/// What all expressions together were too expensive for.
pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Error(message) => message,
            Self::OutOfBudget => OUT_OF_BUDGET,
        })
    }
}

impl Expression {
    /// Compiles an expression.
    pub fn new(scope: &Scope, text: &str, wanted: Wanted) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), program: scope.compile(text, wanted)? })
    }
}

impl PolicyVariables {
    /// Compiles the variables of a policy, and adds them to the scope of what follows.
    pub fn new(spec: &Value, scope: &mut Scope) -> Result<Self, String> {
        let mut variables = Vec::new();
        for variable in spec.get("variables").and_then(Value::as_array).into_iter().flatten() {
            let name = variable.text(&["name"]).to_owned();
            let expression = Expression::new(scope, variable.text(&["expression"]), Wanted::Any)?;
            scope.variables.push((name.clone(), expression.program.output_type().clone()));
            variables.push((name, expression));
        }
        Ok(Self(variables))
    }
}

/// Evaluates expressions of one policy over one write.
pub struct Evaluation<'a> {
    input: &'a Input<'a>,
    variables: &'a PolicyVariables,
    computed: BTreeMap<&'a str, Result<Cel<'a>, EvalError>>,
    budget: Budget,
}

impl<'a> Evaluation<'a> {
    /// An evaluation with a budget for all its expressions.
    pub fn new(input: &'a Input<'a>, variables: &'a PolicyVariables, units: u64) -> Self {
        Self { input, variables, computed: BTreeMap::new(), budget: Budget::new(units) }
    }

    /// Evaluates an expression.
    pub fn evaluate(&mut self, expression: &'a Expression) -> Result<Cel<'a>, Failure> {
        self.compute(&expression.program);
        let bound = self.bind(&expression.program);
        let value = expression.program.evaluate(&bound, &mut self.budget);
        if self.budget.is_exhausted() {
            return Err(Failure::OutOfBudget);
        }
        value.map_err(|error| {
            Failure::Error(format!("expression '{}' resulted in error: {error}", expression.text))
        })
    }

    /// Computes the variables that an expression needs, those that they need first.
    fn compute(&mut self, program: &'a Program) {
        let all = &self.variables.0;
        let mut needed = vec![false; all.len()];
        let mark = |needed: &mut Vec<bool>, program: &Program, before: usize| {
            for (at, (name, _)) in all.iter().enumerate().take(before) {
                needed[at] |=
                    program.uses("variables") || program.uses(&format!("variables.{name}"));
            }
        };
        mark(&mut needed, program, all.len());
        for at in (0..all.len()).rev() {
            if needed[at] {
                mark(&mut needed, &all[at].1.program, at);
            }
        }
        for (name, expression) in
            all.iter().zip(&needed).filter(|(_, needed)| **needed).map(|(v, _)| v)
        {
            if self.computed.contains_key(name.as_str()) {
                continue;
            }
            let bound = self.bind(&expression.program);
            let value = expression.program.evaluate(&bound, &mut self.budget).map_err(|error| {
                EvalError::new(format!("composited variable \"{name}\" fails to evaluate: {error}"))
            });
            self.computed.insert(name, value);
        }
    }

    fn bind(&self, program: &Program) -> Variables<'a> {
        let input = self.input;
        let mut bound = Variables::new();
        for name in program.variables() {
            match name {
                "object" => bound.json(name, input.object),
                "oldObject" => bound.json(name, input.old_object),
                "request" => bound.json(name, input.request),
                "namespaceObject" => bound.json(name, input.namespace),
                "params" => bound.json(name, input.params),
                "authorizer" => {
                    bound.value(name, Cel::Opaque(Opaque::authorizer(input.authorizer.clone())))
                }
                "authorizer.requestResource" => {
                    let check =
                        Opaque::resource_check(input.authorizer.clone(), input.resource.clone());
                    bound.value(name, Cel::Opaque(check))
                }
                "variables" => bound.value(name, self.all_variables()),
                other => {
                    let variable =
                        other.strip_prefix("variables.").and_then(|v| self.computed.get(v));
                    let missing = || Err(EvalError::new(format!("no such attribute(s): {other}")));
                    bound.result(name, variable.cloned().unwrap_or_else(missing))
                }
            };
        }
        bound
    }

    /// The variables as one object, for expressions that ask whether there is one.
    fn all_variables(&self) -> Cel<'a> {
        let computed = self.computed.iter();
        let fields =
            computed.filter_map(|(name, value)| Some(((*name).to_owned(), value.clone().ok()?)));
        let name = "kubernetes.variables".to_owned();
        Cel::Message(Arc::new(Message { name, fields: fields.collect() }))
    }
}
