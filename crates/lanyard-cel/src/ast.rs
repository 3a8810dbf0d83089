//! The tree of an expression, after macros were expanded.
//!
//! Nodes are numbered as they are made; the checker and the cost estimate keep what they learn in tables by number.

/// A node of the tree.
#[derive(Debug, Clone)]
pub(crate) struct Expr {
    /// The number of the node, unique within an expression.
    pub(crate) id: u32,
    /// The code point that errors about this node point at.
    pub(crate) at: u32,
    /// How many nodes are on the longest way down from here, this one included.
    pub(crate) depth: u16,
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Literal),
    /// A variable or a type by name.
    Ident(String),
    /// `operand.field`, or `has(operand.field)` if `test`.
    Select {
        operand: Box<Expr>,
        field: String,
        test: bool,
    },
    Call(Call),
    /// `[a, ?b]`: the elements, and whether each is optional.
    List(Vec<(Expr, bool)>),
    /// `{k: v}`
    Map(Vec<Entry>),
    /// `Name{field: value}`
    Struct {
        name: String,
        fields: Vec<Field>,
    },
    Fold(Box<Fold>),
}

/// A constant in the text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

/// A function with its arguments; operators are functions with names such as `_+_`.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) function: String,
    pub(crate) target: Option<Box<Expr>>,
    pub(crate) args: Vec<Expr>,
}

/// One entry of a map literal.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// One field of a message literal.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Where errors about the field point.
    pub(crate) at: u32,
    pub(crate) name: String,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// What macros over lists and maps become: an accumulator that is carried over a range.
#[derive(Debug, Clone)]
pub(crate) struct Fold {
    pub(crate) range: Expr,
    /// The element, or the key, or the index if there is a second variable.
    pub(crate) var: String,
    /// The value, in a macro of two variables.
    pub(crate) var2: Option<String>,
    pub(crate) accumulator: String,
    pub(crate) init: Expr,
    /// The loop ends when this is false.
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

impl Expr {
    /// The dotted name that the node spells, if it is nothing but names.
    pub(crate) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Ident(name) => Some(name.clone()),
            Kind::Select { operand, field, test: false } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }

    /// The literal that the node is.
    pub(crate) fn literal(&self) -> Option<&Literal> {
        match &self.kind {
            Kind::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    /// Calls a function for this node and everything below.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } => operand.walk(visit),
            Kind::Call(call) => {
                if let Some(target) = &call.target {
                    target.walk(visit);
                }
                call.args.iter().for_each(|arg| arg.walk(visit));
            }
            Kind::List(elements) => elements.iter().for_each(|(element, _)| element.walk(visit)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                entry.key.walk(visit);
                entry.value.walk(visit);
            }),
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| field.value.walk(visit)),
            Kind::Fold(fold) => fold.parts().into_iter().for_each(|part| part.walk(visit)),
        }
    }
}

impl Fold {
    /// The expressions of the fold.
    pub(crate) fn parts(&self) -> [&Expr; 5] {
        [&self.range, &self.init, &self.condition, &self.step, &self.result]
    }
}

/// The accumulator of macros. No expression can spell it.
pub(crate) const ACCUMULATOR: &str = "@result";

/// The variable of folds that run over nothing, made only for their accumulator.
pub(crate) const UNUSED: &str = "#unused";

/// Names of operators, as they are in errors.
pub(crate) mod operator {
    pub(crate) const AND: &str = "_&&_";
    pub(crate) const OR: &str = "_||_";
    pub(crate) const NOT: &str = "!_";
    pub(crate) const NEGATE: &str = "-_";
    pub(crate) const CONDITIONAL: &str = "_?_:_";
    pub(crate) const ADD: &str = "_+_";
    pub(crate) const EQUALS: &str = "_==_";
    pub(crate) const NOT_EQUALS: &str = "_!=_";
    pub(crate) const IN: &str = "@in";
    pub(crate) const INDEX: &str = "_[_]";
    pub(crate) const OPT_INDEX: &str = "_[?_]";
    pub(crate) const OPT_SELECT: &str = "_?._";
    pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
    pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";
}
