//! What was measured, as Markdown: a table per subject, the ratios, and each target with the figure it was held to.

use std::fmt::{self, Display, Formatter, Write};
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use lanyard_testkit::Program;

use crate::rows::{Measured, Operation, Row, Subject, percentile};
use crate::servers::{Kind, Server};
use crate::watch::{Crowd, FanOut};

/// Everything one server showed.
pub(crate) struct Run {
    /// Which server.
    pub(crate) kind: Kind,
    /// From exec to ready, one per start, sorted.
    pub(crate) ready: Vec<Duration>,
    /// Some seconds after the last start, before any request.
    pub(crate) memory_idle: Memory,
    /// After the whole load.
    pub(crate) memory_loaded: Memory,
    /// Watch fan-out.
    pub(crate) fan_outs: Vec<(Crowd, FanOut)>,
    /// Request load.
    pub(crate) rows: Vec<(Row, Measured)>,
}

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    api: u64,
    api_peak: u64,
    store: Option<u64>,
}

impl Memory {
    /// What the server uses now.
    pub(crate) fn of(server: &Server) -> Result<Memory> {
        let store = server.store.map(|pid| pid.rss()).transpose()?;
        Ok(Memory { api: server.api.rss()?, api_peak: server.api.peak_rss()?, store })
    }
}

/// The runs side by side.
pub(crate) struct Report {
    runs: Vec<Run>,
}

impl Report {
    /// Of these runs.
    pub(crate) fn new(runs: Vec<Run>) -> Report {
        Report { runs }
    }

    fn run(&self, kind: Kind) -> Option<&Run> {
        self.runs.iter().find(|run| run.kind == kind)
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        heading(out)?;
        for run in &self.runs {
            requests(out, run)?;
        }
        watches(out, &self.runs)?;
        starts(out, &self.runs)?;
        for kind in [Kind::Lanyard, Kind::LanyardEtcd] {
            if let (Some(ours), Some(theirs)) = (self.run(kind), self.run(Kind::Kube)) {
                ratios(out, ours, theirs)?;
            }
        }
        targets(out, self)
    }
}

fn heading(out: &mut Formatter<'_>) -> fmt::Result {
    let command: Vec<_> = std::env::args().skip(1).collect();
    writeln!(out, "# API server benchmark\n")?;
    writeln!(out, "- Date: {}", Timestamp::now().strftime("%Y-%m-%d %H:%M UTC"))?;
    writeln!(out, "- Machine: {}", machine())?;
    writeln!(out, "- Command: `./dev bench {}`", command.join(" "))?;
    for program in [Program::Lanyard, Program::KubeApiserver, Program::Etcd] {
        if let Some(version) = version(program) {
            writeln!(out, "- {version}")?;
        }
    }
    writeln!(
        out,
        "\nAll servers run on this machine, one after the other, with the load tool beside them: CPU per request is the fair \
         comparison, throughput and latency are those of a shared machine. ConfigMaps of 4.1 KiB, JSON, TLS, client \
         certificate, durable writes. \"Others\" is the share of the machine that unrelated processes used."
    )
}

fn requests(out: &mut Formatter<'_>, run: &Run) -> fmt::Result {
    writeln!(out, "\n## Requests: {}\n", run.kind.title())?;
    writeln!(
        out,
        "| operation | req/s | p50 ms | p99 ms | CPU/req µs (server + store) | load tool µs | body KiB | others |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    for (row, measured) in &run.rows {
        let cpu = measured.cpu();
        let mut server_cpu = figure(micros(cpu.api));
        if run.memory_idle.store.is_some() {
            let _ = write!(server_cpu, " + {}", figure(micros(cpu.store)));
        }
        let body = measured.bytes as f64 / measured.requests.max(1) as f64 / 1024.0;
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {:.0} % |",
            row.title(),
            figure(measured.rate()),
            millis(measured.latency(0.5)),
            millis(measured.latency(0.99)),
            server_cpu,
            figure(micros(cpu.tool)),
            figure(body),
            measured.used.others * 100.0,
        )?;
    }
    Ok(())
}

fn watches(out: &mut Formatter<'_>, runs: &[Run]) -> fmt::Result {
    if runs.iter().all(|run| run.fan_outs.is_empty()) {
        return Ok(());
    }
    writeln!(out, "\n## Watch fan-out on one object, from sending the PUT\n")?;
    writeln!(
        out,
        "| watchers | server | open all s | middle p50 ms | last p50 ms | last p99 ms | CPU/event µs | load tool µs | KiB per watcher |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|")?;
    for run in runs {
        for (crowd, seen) in &run.fan_outs {
            let (server, tool) = seen.cpu_per_event();
            writeln!(
                out,
                "| {} | {} | {:.2} | {} | {} | {} | {} | {} | {} |",
                crowd.title(),
                run.kind.title(),
                seen.opened_in.as_secs_f64(),
                millis(seen.middle()),
                millis(seen.last(0.5)),
                millis(seen.last(0.99)),
                figure(micros(server)),
                figure(micros(tool)),
                figure(seen.memory / 1024.0),
            )?;
        }
    }
    Ok(())
}

fn starts(out: &mut Formatter<'_>, runs: &[Run]) -> fmt::Result {
    writeln!(out, "\n## Start and memory\n")?;
    writeln!(
        out,
        "| server | exec to /readyz ms (median of starts) | idle RSS MiB (+ store) | RSS after load MiB (+ store) | peak RSS MiB |"
    )?;
    writeln!(out, "|---|---|---|---|---|")?;
    for run in runs {
        writeln!(
            out,
            "| {} | {} ({}) | {} | {} | {} |",
            run.kind.title(),
            millis(percentile(&run.ready, 0.5)),
            run.ready.len(),
            with_store(&run.memory_idle),
            with_store(&run.memory_loaded),
            figure(mebibytes(run.memory_loaded.api_peak)),
        )?;
    }
    Ok(())
}

fn ratios(out: &mut Formatter<'_>, ours: &Run, theirs: &Run) -> fmt::Result {
    writeln!(
        out,
        "\n## Ratios: {} against {} (above 1 is better)\n",
        theirs.kind.title(),
        ours.kind.title()
    )?;
    writeln!(out, "| operation | CPU/req | req/s | p50 | p99 |")?;
    writeln!(out, "|---|---|---|---|---|")?;
    for (row, our) in &ours.rows {
        let Some(their) = theirs.measured(row) else { continue };
        writeln!(
            out,
            "| {} | {:.1} | {:.1} | {:.1} | {:.1} |",
            row.title(),
            total_cpu(their) / total_cpu(our),
            our.rate() / their.rate(),
            ratio(their.latency(0.5), our.latency(0.5)),
            ratio(their.latency(0.99), our.latency(0.99)),
        )?;
    }
    Ok(())
}

/// What the product promises, held against what was measured.
fn targets(out: &mut Formatter<'_>, report: &Report) -> fmt::Result {
    let mut checks = report.run(Kind::Lanyard).map(own_targets).unwrap_or_default();
    if let Some(theirs) = report.run(Kind::Kube) {
        checks.extend(
            report.run(Kind::Lanyard).iter().flat_map(|ours| relative_targets(ours, theirs)),
        );
        checks.extend(
            report.run(Kind::LanyardEtcd).iter().flat_map(|ours| etcd_targets(ours, theirs)),
        );
    }
    if checks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n## Targets\n\n| target | measured | |\n|---|---|---|")?;
    for check in checks {
        let verdict = if check.met { "met" } else { "**not met**" };
        writeln!(out, "| {} | {} | {verdict} |", check.what, check.measured)?;
    }
    Ok(())
}

struct Check {
    what: String,
    measured: String,
    met: bool,
}

impl Check {
    fn at_most(what: &str, limit: f64, measured: f64, unit: &str) -> Check {
        Check {
            what: format!("{what} under {limit} {unit}"),
            measured: format!("{} {unit}", figure(measured)),
            met: measured < limit,
        }
    }

    fn at_least(what: String, limit: f64, ratio: f64) -> Check {
        Check { what, measured: format!("{ratio:.2}x"), met: ratio >= limit }
    }
}

fn own_targets(ours: &Run) -> Vec<Check> {
    let custom = ours.rows.iter().filter(|(row, _)| row.subject == Subject::Custom);
    let custom = custom.filter_map(|(row, custom)| {
        let built_in = ours.measured(&row.of(Subject::ConfigMaps))?;
        let share = total_cpu(custom) / total_cpu(built_in);
        Some(Check {
            what: format!("{}: at most 1.3x the CPU of a built-in kind", row.title()),
            measured: format!("{share:.2}x"),
            met: share <= 1.3,
        })
    });
    let mut checks = vec![
        Check::at_most("ready in", 150.0, micros(percentile(&ours.ready, 0.5)) / 1000.0, "ms"),
        Check::at_most("idle RSS", 40.0, mebibytes(ours.memory_idle.api), "MiB"),
        Check::at_most("RSS after the load", 200.0, mebibytes(ours.memory_loaded.api), "MiB"),
    ];
    checks.extend(custom);
    checks
}

fn relative_targets(ours: &Run, theirs: &Run) -> Vec<Check> {
    let mut checks = Vec::new();
    for (row, our) in &ours.rows {
        let (Some(their), Some(share)) = (theirs.measured(row), cpu_target(row.operation)) else {
            continue;
        };
        if row.subject == Subject::Custom {
            continue;
        }
        let title = row.title();
        let cpu = total_cpu(their) / total_cpu(our);
        checks.push(Check::at_least(format!("{title}: {share}x less CPU"), share, cpu));
        if row.operation != Operation::Apply {
            let rate = our.rate() / their.rate();
            checks.push(Check::at_least(format!("{title}: 5x the throughput"), 5.0, rate));
        }
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            let latency = ratio(their.latency(share), our.latency(share));
            checks.push(Check::at_least(format!("{title}: {name} no worse"), 1.0, latency));
        }
    }
    for ((crowd, our), (_, their)) in ours.fan_outs.iter().zip(&theirs.fan_outs) {
        if crowd.connections < crowd.watchers {
            continue;
        }
        let title = crowd.title();
        let time = ratio(their.last(0.5), our.last(0.5));
        checks.push(Check::at_least(
            format!("{title}: all notified in a quarter of the time"),
            4.0,
            time,
        ));
        let memory = their.memory / our.memory.max(1.0);
        checks.push(Check::at_least(format!("{title}: a fifth of the memory"), 5.0, memory));
    }
    checks
}

fn etcd_targets(ours: &Run, theirs: &Run) -> Vec<Check> {
    let updates = ours.rows.iter().filter(|(row, _)| row.operation == Operation::Update);
    updates
        .filter_map(|(row, our)| {
            let ratio = total_cpu(theirs.measured(row)?) / total_cpu(our);
            Some(Check::at_least(format!("{} with etcd: half the CPU", row.title()), 2.0, ratio))
        })
        .collect()
}

/// How many times less CPU a request must take; the issues name GET, lists of 500, PUT and apply.
fn cpu_target(operation: Operation) -> Option<f64> {
    match operation {
        Operation::Get | Operation::ListPage => Some(8.0),
        Operation::Update => Some(5.0),
        Operation::Apply => Some(4.0),
        _ => None,
    }
}

impl Run {
    fn measured(&self, row: &Row) -> Option<&Measured> {
        self.rows.iter().find(|(own, _)| own.title() == row.title()).map(|(_, found)| found)
    }
}

fn total_cpu(measured: &Measured) -> f64 {
    let cpu = measured.cpu();
    // A row can be too short for the kernel's clock; one microsecond keeps the ratio finite.
    micros(cpu.api + cpu.store).max(1.0)
}

fn ratio(theirs: Duration, ours: Duration) -> f64 {
    theirs.as_secs_f64() / ours.as_secs_f64().max(1e-6)
}

fn with_store(memory: &Memory) -> String {
    let mut text = figure(mebibytes(memory.api));
    if let Some(store) = memory.store {
        let _ = write!(text, " + {}", figure(mebibytes(store)));
    }
    text
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn millis(time: Duration) -> String {
    figure(time.as_secs_f64() * 1e3)
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Three significant digits are all that a shared machine gives.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn machine() -> String {
    let field = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kib: f64 =
        field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!(
        "{cores} cores ({}), {:.0} GiB, Linux {}",
        field("/proc/cpuinfo", "model name"),
        kib / f64::from(1 << 20),
        kernel.trim()
    )
}

/// What the program itself says.
fn version(program: Program) -> Option<String> {
    let output = Command::new(program.path().ok()?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        for (value, text) in [(0.0, "0.00"), (1.234, "1.23"), (56.78, "56.8"), (1234.5, "1234")] {
            assert_eq!(figure(value), text);
        }
    }

    #[test]
    fn a_target_is_met_at_its_limit() {
        assert!(Check::at_least("x".into(), 5.0, 5.0).met);
        assert!(!Check::at_least("x".into(), 5.0, 4.99).met);
        assert!(!Check::at_most("x", 40.0, 40.0, "MiB").met);
    }

    #[test]
    fn the_percentile_of_few_values_is_one_of_them() {
        let values: Vec<_> = (1..=4).map(Duration::from_millis).collect();
        for (share, expected) in [(0.0, 1), (0.5, 2), (0.99, 4), (1.0, 4)] {
            assert_eq!(percentile(&values, share), Duration::from_millis(expected));
        }
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }
}
