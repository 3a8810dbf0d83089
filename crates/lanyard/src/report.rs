//! What people see when a command fails: one sentence with its causes, and the exit code.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// What was asked for makes no sense; the argument parser finds most of this itself.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl Usage {
    /// An error that is about an argument.
    pub(crate) fn from_error(error: impl std::error::Error) -> Self {
        Self(error.to_string())
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Prints the failure, if any, and chooses the exit code: 0 done, 1 failed, 2 wrong usage.
pub(crate) fn exit_code(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
            // Nobody is left to tell if stderr is closed.
            let _ = writeln!(io::stderr(), "error: {}", causes.join(": "));
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

/// The reader has seen enough; that is not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
