//! `pinhead`: parses the command line, runs the command, maps errors to exit codes.

use clap::FromArgMatches;
use pinhead::args::{CheckArgs, ConformArgs, Format};
use pinhead::check::{self, Against};
use pinhead::cli::{self, Cli, Command};
use pinhead::manage::{self, HostCommand};
use pinhead::record::RecordArgs;
use pinhead::sql::SqlArgs;
use pinhead::{
    Error, cache, capacity, conform, escape, explain, farm_cmds, fleet, idle, names, presets,
    record, replay, report, schema, size, sql, terminal, top, tune, up, web, why, zvm,
};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match parsed().command {
        Command::Check(args) => run_check(&args),
        Command::Conform(args) => run_conform(&args),
        Command::Presets(args) if args.name.is_some() => {
            presets::show(&args).and_then(|text| print(&text))
        }
        Command::Presets(args) => presets::show(&args).and_then(|text| print_prose(&text)),
        Command::Names(args) => print(&names::show(&args)),
        Command::Completions(args) => print(&cli::completions(args.shell)),
        Command::Explain(args) => {
            explain::run(&args).and_then(|it| it.show(args.format)).and_then(|text| print(&text))
        }
        Command::Cache(args) => cache::run(&args).and_then(|text| print(&text)),
        Command::Up(args) => up::run(&args).map(|()| ExitCode::SUCCESS),
        Command::FarmService(args) => up::detach::service(&args).map(|()| ExitCode::SUCCESS),
        Command::Down(args) => farm_cmds::down(&args).and_then(|text| print(&text)),
        Command::Console(args) => farm_cmds::console(&args).and_then(|text| print(&text)),
        Command::Exec(args) => return farm_cmds::exec(&args),
        Command::Park(args) => farm_cmds::park(&args).and_then(|text| print(&text)),
        Command::Wake(args) => farm_cmds::wake(&args).and_then(|text| print(&text)),
        Command::Logs(args) => farm_cmds::logs(&args).and_then(|text| print(&text)),
        Command::Host(args) => match &args.command {
            Some(HostCommand::Diff(args)) => {
                why::run_diff(args).and_then(|text| print_in(args.format, &text))
            }
            None if args.check => manage::check(&args).and_then(|text| print(&text)),
            None => manage::run(&args).map(|()| ExitCode::SUCCESS),
        },
        Command::Ps(args) => manage::ps(&args).and_then(|text| print(&text)),
        Command::Set(args) => manage::set(&args).and_then(|text| print(&text)),
        Command::Reserve(args) => manage::reserve(&args).and_then(|text| print(&text)),
        Command::Why(args) => why::run(&args).and_then(|text| print_in(args.format, &text)),
        Command::Top(args) => top::run(args).map(|()| ExitCode::SUCCESS),
        // The options were parsed here to report errors. `pinhead-web` parses them again.
        Command::Web(_) => Err(web::run(std::env::args_os().skip(2))),
        Command::Fleet(args) => fleet::run(&args).and_then(|text| print(&text)),
        Command::Report(args) => report::run(&args).and_then(|text| print(&text)),
        Command::Replay(args) => {
            replay::run(&args).and_then(|text| print_in(args.source.format, &text))
        }
        Command::Simulate(args) => {
            replay::simulate(&args).and_then(|text| print_in(args.source.format, &text))
        }
        Command::Size(args) => size::run(&args).and_then(|text| print(&text)),
        Command::Tune(args) => tune::run(&args).and_then(|text| print_in(args.format, &text)),
        Command::Idle(args) => idle::run(&args).and_then(|text| print(&text)),
        Command::Record(args) => run_record(&args),
        Command::Schema(args) => schema::run(&args).and_then(|text| print_in(args.format, &text)),
        Command::Sql(args) => run_sql(&args),
        Command::Zvm(args) => zvm::run(&args).and_then(|text| print(&text)),
        Command::Capacity(args) => capacity::run(&args).and_then(|text| print(&text)),
        Command::Keeper { parked } => manage::keep(parked).map(|()| ExitCode::SUCCESS),
    };
    match result {
        Ok(code) => code,
        Err(Error::NoReader) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain(&format!("pinhead: {}", base::chain(&error)));
            ExitCode::from(2)
        }
    }
}

fn parsed() -> Cli {
    let matches = cli::command().try_get_matches();
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| terminal::leave(error))
}

/// Writes to standard output. If the reader closes early (`| head`), this is not an error.
fn print(text: &str) -> Result<ExitCode, Error> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
        Err(e) => Err(Error::step("Cannot write the answer", e)),
    }
}

/// Writes to standard output. Sentences are broken to fit a terminal.
fn print_prose(text: &str) -> Result<ExitCode, Error> {
    print(&terminal::fitted_to_stdout(text))
}

/// Writes to standard output. Text is broken like sentences.
fn print_in(format: Format, text: &str) -> Result<ExitCode, Error> {
    match format {
        Format::Text => print_prose(text),
        Format::Json => print(text),
    }
}

fn run_check(args: &CheckArgs) -> Result<ExitCode, Error> {
    let against = match (&args.root, args.no_machine) {
        _ if args.host => Against::Host,
        (_, true) => Against::Nothing,
        (Some(root), false) => Against::Machine(procfs::Root::at(root)),
        (None, false) => Against::Machine(procfs::Root::default()),
    };
    let all: Vec<check::Checked> =
        args.files.iter().map(|path| check::file(path, &against)).collect::<Result<_, _>>()?;
    match args.format {
        Format::Json => print(&escape::json(&check::to_json(&all))?)?,
        Format::Text => {
            let stdout = std::io::stdout();
            let (color, width) = (stdout.is_terminal(), terminal::width(&stdout));
            let render = |checked| check::render(checked, color, width);
            print(&all.iter().map(render).collect::<String>())?
        }
    };
    let refused = all.iter().any(|checked| checked.count(rules::Severity::Error) > 0);
    Ok(ExitCode::from(u8::from(refused)))
}

/// Runs a query. The result goes to standard output row by row, and a remark goes to standard
/// error.
fn run_sql(args: &SqlArgs) -> Result<ExitCode, Error> {
    if let Some(remark) = sql::run(args, &mut std::io::stdout().lock())? {
        terminal::complain(&format!("pinhead: {remark}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_record(args: &RecordArgs) -> Result<ExitCode, Error> {
    let told = record::run(args, &mut std::io::stdout().lock())?;
    print(&told)
}

fn run_conform(args: &ConformArgs) -> Result<ExitCode, Error> {
    let report = conform::run(&args.file)?;
    let mut text = String::new();
    for difference in &report.differences {
        text.push_str(difference);
        text.push('\n');
    }
    let conform::Report { agree, total, .. } = report;
    text.push_str(&format!("conform: {agree} of {total} scenarios agree\n"));
    print(&text)?;
    Ok(ExitCode::from(u8::from(agree != total)))
}
