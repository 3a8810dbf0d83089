//! What expressions of policies may refer to, and how they are compiled.
//!
//! The variables and their types are upstream's: `object`, `oldObject` and `params` are dynamic, `request` and
//! `namespaceObject` are typed, `authorizer` is there where checks make sense.

use std::sync::{Arc, LazyLock};

use lanyard_cel::{Declared, Environment, ListKind, Program, Type};

/// Which of the variables there are, beside those that always are.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// `params`: the policy has a kind of parameters.
    pub params: bool,
    /// `authorizer` and `authorizer.requestResource`.
    pub authorizer: bool,
    /// `Object`, `JSONPatch` and what goes with them.
    pub patches: bool,
    /// The variables of the policy itself, with their types.
    pub variables: Vec<(String, Type)>,
}

/// What an expression must evaluate to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Anything.
    Any,
    /// True or false.
    Bool,
    /// Text.
    Text,
    /// Text, or null for none.
    TextOrNull,
    /// An `Object` to apply.
    Object,
    /// A list of `JSONPatch`.
    Patches,
}

impl Scope {
    /// Compiles an expression.
    ///
    /// # Errors
    /// What is wrong with it, as clients are told.
    pub fn compile(&self, text: &str, wanted: Wanted) -> Result<Program, String> {
        let program = self.environment().compile(text).map_err(|errors| errors.describe())?;
        let found = program.output_type();
        if wanted.types().is_empty() || wanted.types().contains(found) {
            return Ok(program);
        }
        let names: Vec<String> = wanted.types().iter().map(go_name).collect();
        Err(match names.as_slice() {
            [one] => format!("must evaluate to {one} but got {}", go_name(found)),
            many => {
                format!("must evaluate to one of [{}] but got {}", many.join(" "), go_name(found))
            }
        })
    }

    fn environment(&self) -> Environment {
        let mut environment = Environment::new()
            .variable("object", Declared::any())
            .variable("oldObject", Declared::any())
            .variable("request", REQUEST.clone())
            .variable("namespaceObject", NAMESPACE.clone());
        if self.params {
            environment = environment.variable("params", Declared::any());
        }
        if self.authorizer {
            let native = |name| Declared::native(Type::object(name));
            environment = environment
                .variable("authorizer", native("kubernetes.authorization.Authorizer"))
                .variable(
                    "authorizer.requestResource",
                    native("kubernetes.authorization.ResourceCheck"),
                );
        }
        if self.patches {
            environment = environment.with_patches();
        }
        if !self.variables.is_empty() {
            let declared = |of: &Type| Declared::native(of.clone());
            let fields =
                self.variables.iter().map(|(name, of)| (name.as_str(), false, declared(of)));
            let all = Declared::object(fields).called("kubernetes.variables");
            environment = environment.variable("variables", all);
            // Each one has a name of its own too, so that it is computed only where it is used.
            for (name, of) in &self.variables {
                environment = environment.variable(&format!("variables.{name}"), declared(of));
            }
        }
        environment
    }
}

impl Wanted {
    fn types(self) -> Vec<Type> {
        match self {
            Self::Any => Vec::new(),
            Self::Bool => vec![Type::Bool],
            Self::Text => vec![Type::String],
            Self::TextOrNull => vec![Type::String, Type::Null],
            Self::Object => vec![Type::object("Object")],
            Self::Patches => vec![Type::list(Type::object("JSONPatch"))],
        }
    }
}

/// A type as Go's `String` shows it.
fn go_name(of: &Type) -> String {
    match of {
        Type::Null => "null_type".to_owned(),
        Type::Timestamp => "timestamp".to_owned(),
        Type::Duration => "duration".to_owned(),
        other => other.to_string(),
    }
}

static REQUEST: LazyLock<Arc<Declared>> = LazyLock::new(|| {
    let text = || Declared::string(None, None);
    let texts = || Declared::list(text(), None, ListKind::Atomic);
    let named = |last: &'static str, of: &str| {
        let fields = [("group", true, text()), ("version", true, text()), (last, true, text())];
        Declared::object(fields).called(of)
    };
    let kind = || named("kind", "kubernetes.GroupVersionKind");
    let resource = || named("resource", "kubernetes.GroupVersionResource");
    let user = Declared::object([
        ("username", false, text()),
        ("uid", false, text()),
        ("groups", false, texts()),
        ("extra", false, Declared::map(texts(), None)),
    ]);
    let request = Declared::object([
        ("kind", true, kind()),
        ("resource", true, resource()),
        ("subResource", false, text()),
        ("requestKind", true, kind()),
        ("requestResource", true, resource()),
        ("requestSubResource", false, text()),
        ("name", true, text()),
        ("namespace", false, text()),
        ("operation", true, text()),
        ("userInfo", true, user.called("kubernetes.UserInfo")),
        ("dryRun", false, Declared::bool()),
        ("options", false, Declared::any()),
    ]);
    Arc::new(request.called("kubernetes.AdmissionRequest"))
});

static NAMESPACE: LazyLock<Arc<Declared>> = LazyLock::new(|| {
    let text = || Declared::string(None, None);
    let texts = || Declared::list(text(), None, ListKind::Atomic);
    let map = || Declared::map(text(), None);
    let spec = Declared::object([("finalizers", true, texts())]).called("kubernetes.NamespaceSpec");
    let condition = Declared::object([
        ("status", true, text()),
        ("type", true, text()),
        ("lastTransitionTime", true, Declared::date_time()),
        ("message", true, text()),
        ("reason", true, text()),
    ]);
    let conditions =
        Declared::list(condition.called("kubernetes.NamespaceCondition"), None, ListKind::Atomic);
    let status = Declared::object([("conditions", true, conditions), ("phase", true, text())]);
    let metadata = Declared::object([
        ("name", true, text()),
        ("generateName", true, text()),
        ("namespace", true, text()),
        ("labels", true, map()),
        ("annotations", true, map()),
        ("UID", true, text()),
        ("creationTimestamp", true, Declared::date_time()),
        ("deletionGracePeriodSeconds", true, Declared::int()),
        ("deletionTimestamp", true, Declared::date_time()),
        ("generation", true, Declared::int()),
        ("resourceVersion", true, text()),
        ("finalizers", true, texts()),
    ]);
    let namespace = Declared::object([
        ("metadata", true, metadata.called("kubernetes.NamespaceMetadata")),
        ("spec", true, spec),
        ("status", true, status.called("kubernetes.NamespaceStatus")),
    ]);
    Arc::new(namespace.called("kubernetes.Namespace"))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_results_are_checked() {
        let scope = Scope::default();
        let check = |text: &str, wanted, expected: Option<&str>| {
            assert_eq!(scope.compile(text, wanted).err().as_deref(), expected, "{text}");
        };
        check("object.spec.replicas > 1", Wanted::Bool, None);
        check("1", Wanted::Bool, Some("must evaluate to bool but got int"));
        check("object", Wanted::Bool, Some("must evaluate to bool but got dyn"));
        check("null", Wanted::TextOrNull, None);
        let text = "must evaluate to one of [string null_type] but got bool";
        check("true", Wanted::TextOrNull, Some(text));
        check("request.userInfo.groups.exists(g, g == 'a')", Wanted::Bool, None);
        let text = "compilation failed: ERROR: <input>:1:8: undefined field 'x'\n | request.x\n | .......^";
        check("request.x", Wanted::Any, Some(text));
        let text = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in \
                    container '')\n | params\n | ^";
        check("params", Wanted::Any, Some(text));
    }

    #[test]
    fn variables_have_the_types_of_their_expressions() {
        let variables = vec![("n".to_owned(), Type::Int)];
        let scope = Scope { variables, ..Scope::default() };
        assert!(scope.compile("variables.n > 1", Wanted::Bool).is_ok());
        let text = scope.compile("variables.m > 1", Wanted::Bool).unwrap_err();
        assert!(text.contains("undefined field 'm'"), "{text}");
    }
}
