//! A compiled expression: its type, its cost, its value.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::checker::check;
use crate::declared::Declared;
use crate::environment::Environment;
use crate::error::EvalError;
use crate::estimate::{CostEstimate, estimate};
use crate::machine::Machine;
use crate::meter::Budget;
use crate::parser::parse;
use crate::plan::{Planned, plan};
use crate::source::{CompileErrors, Report};
use crate::types::Type;
use crate::validate::validate;
use crate::value::Value;

/// An expression that was read and checked. It can be evaluated any number of times, by many threads.
#[derive(Debug)]
pub struct Program {
    output: Type,
    estimate: CostEstimate,
    planned: Planned,
    /// What the used variables are declared to be, in the order of the plan's table.
    declared: Vec<Option<Arc<Declared>>>,
}

impl Program {
    pub(crate) fn compile(text: &str, environment: &Environment) -> Result<Self, CompileErrors> {
        let parsed = parse(text)?;
        let mut report = Report::new(text);
        let checked = check(parsed, environment, &mut report);
        if report.is_empty() {
            validate(&checked, &mut report);
        }
        if !report.is_empty() {
            return Err(report.into_errors());
        }
        let planned = plan(&checked).map_err(CompileErrors::instantiation)?;
        let declared =
            planned.variables.iter().map(|name| environment.declared(name).cloned()).collect();
        let output = checked.types[checked.root.id as usize].clone();
        Ok(Self { output, estimate: estimate(&checked, environment), planned, declared })
    }

    /// The type of the value.
    pub fn output_type(&self) -> &Type {
        &self.output
    }

    /// Whether the value can be true or false: its type says so, or leaves it open.
    pub fn may_be_bool(&self) -> bool {
        matches!(self.output, Type::Bool | Type::Dyn)
    }

    /// What an evaluation costs at least and at most, given the sizes that the declarations of variables allow.
    pub fn estimated_cost(&self) -> CostEstimate {
        self.estimate
    }

    /// Whether the expression uses a variable, such as `oldSelf`.
    pub fn uses(&self, variable: &str) -> bool {
        self.planned.variables.iter().any(|name| name == variable)
    }

    /// The variables that the expression uses.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.planned.variables.iter().map(String::as_str)
    }

    /// Evaluates. The cost is taken from the budget, also when there is an error.
    ///
    /// When the budget is used up before, there is no evaluation. What one evaluation costs is bounded by itself.
    pub fn evaluate<'a>(
        &'a self,
        variables: &Variables<'a>,
        budget: &mut Budget,
    ) -> Result<Value<'a>, EvalError> {
        let (value, cost) = self.evaluate_with_cost(variables);
        budget.spend(cost);
        value
    }

    /// Evaluates, and tells the cost.
    pub fn evaluate_with_cost<'a>(
        &'a self,
        variables: &Variables<'a>,
    ) -> (Result<Value<'a>, EvalError>, u64) {
        let bound = self.planned.variables.iter().zip(&self.declared);
        let values = bound.map(|(name, declared)| variables.resolve(name, declared.as_deref()));
        let mut machine = Machine::new(&self.planned, values.collect());
        let value = machine.run();
        (value, machine.meter.cost())
    }

    /// Evaluates to true or false.
    pub fn evaluate_bool(
        &self,
        variables: &Variables<'_>,
        budget: &mut Budget,
    ) -> Result<bool, EvalError> {
        match self.evaluate(&variables.reborrow(), budget)? {
            Value::Bool(value) => Ok(value),
            other => {
                Err(EvalError::new(format!("expected a bool, got {}", other.type_of().kind_name())))
            }
        }
    }

    /// Evaluates to text.
    pub fn evaluate_string(
        &self,
        variables: &Variables<'_>,
        budget: &mut Budget,
    ) -> Result<String, EvalError> {
        match self.evaluate(&variables.reborrow(), budget)? {
            Value::String(text) => Ok(text.to_string()),
            other => Err(EvalError::new(format!(
                "expected a string, got {}",
                other.type_of().kind_name()
            ))),
        }
    }
}

/// What variables hold in one evaluation.
#[derive(Debug, Clone, Default)]
pub struct Variables<'a> {
    bound: BTreeMap<String, Bound<'a>>,
}

#[derive(Debug, Clone)]
enum Bound<'a> {
    /// Read by the declaration of the variable.
    Json(&'a Json),
    Value(Result<Value<'a>, EvalError>),
}

impl<'a> Variables<'a> {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds JSON, which is read as the variable is declared.
    pub fn json(&mut self, name: &str, json: &'a Json) -> &mut Self {
        self.bound.insert(name.to_owned(), Bound::Json(json));
        self
    }

    /// Binds a value.
    pub fn value(&mut self, name: &str, value: Value<'a>) -> &mut Self {
        self.bound.insert(name.to_owned(), Bound::Value(Ok(value)));
        self
    }

    /// Binds what came of another evaluation. An error is one only for expressions that use the variable.
    pub fn result(&mut self, name: &str, value: Result<Value<'a>, EvalError>) -> &mut Self {
        self.bound.insert(name.to_owned(), Bound::Value(value));
        self
    }

    fn resolve(&self, name: &str, declared: Option<&'a Declared>) -> Result<Value<'a>, EvalError> {
        match (self.bound.get(name), declared) {
            (Some(Bound::Json(json)), Some(declared)) => Value::typed(json, declared),
            (Some(Bound::Json(json)), None) => Ok(Value::from_json(json)),
            (Some(Bound::Value(value)), _) => value.clone(),
            (None, _) => Err(EvalError::new(format!("no such attribute(s): {name}"))),
        }
    }

    /// The same for a shorter time, as an evaluation whose value is not kept needs it.
    fn reborrow<'b>(&self) -> Variables<'b>
    where
        'a: 'b,
    {
        self.clone()
    }
}
