//! A result as a self-contained page with style and charts, and without scripts.

use crate::chart::svg;
use crate::view::{Table, View};
use crate::{Finding, Outcome, Run, Verdict, summary};
use base::html::{self, escaped};
use std::fmt::Write;

/// Style of results in addition to the style of all pages.
const STYLE: &str = "\
.warn, .refuted { color: var(--c3); } .shown { color: var(--c2); } .open { color: var(--dim); }
.whisker { stroke: var(--ink); stroke-width: 1; fill: none; }
";

/// Formats a result as a page.
pub fn page(outcome: &Outcome, view: &View) -> String {
    let name = escaped(&outcome.experiment);
    let mut out = html::open(&outcome.experiment, STYLE);
    let _ = write!(out, "<header>\n<h1>{name}</h1>\n<p>{}</p>\n", escaped(&view.about));
    if outcome.quick {
        out.push_str("<p class=\"warn\">This is the quick form. Its figures mean nothing.</p>\n");
    }
    out.push_str("</header>\n");
    if !view.findings.is_empty() {
        findings(&mut out, &view.findings);
    }
    for Table { title, heads, rows, note } in &view.tables {
        let _ = writeln!(out, "<section>\n<h2>{}</h2>", escaped(title));
        table(&mut out, heads, rows);
        if !note.is_empty() {
            let _ = writeln!(out, "<p>{}</p>", escaped(note));
        }
        out.push_str("</section>\n");
    }
    for (chart, number) in view.charts.iter().zip(1..) {
        let title = escaped(&chart.title);
        let picture = svg(chart, number);
        let _ = writeln!(out, "<figure>\n<figcaption>{title}</figcaption>\n{picture}");
        if chart.series.len() > 1 {
            out.push_str("<ul class=\"key\">");
            for (at, series) in chart.series.iter().enumerate() {
                let series = escaped(series);
                let _ = write!(out, "<li><i class=\"s{}\"></i>{series}</li>", at % 7);
            }
            out.push_str("</ul>\n");
        }
        out.push_str("</figure>\n");
    }
    let failures = outcome.failures();
    if !failures.is_empty() || !outcome.notes.is_empty() {
        out.push_str("<section>\n<h2>Notes</h2>\n");
        for failure in failures {
            let _ = writeln!(out, "<p class=\"warn\">Failed: {}</p>", escaped(&failure));
        }
        for note in &outcome.notes {
            let _ = writeln!(out, "<p>{}</p>", escaped(note));
        }
        out.push_str("</section>\n");
    }
    everything(&mut out, outcome);
    out.push_str(html::CLOSE);
    out
}

fn findings(out: &mut String, findings: &[Finding]) {
    out.push_str("<section>\n<h2>Claims: shown, not shown, and refuted</h2>\n");
    let _ = writeln!(out, "<p>{}</p>", escaped(&summary(findings)));
    out.push_str("<div class=\"wide\"><table><tbody>\n");
    for Finding { promise, measured, verdict, .. } in findings {
        let class = match verdict {
            Verdict::Shown => "shown",
            Verdict::Refuted => "refuted",
            Verdict::NotShown | Verdict::NotMeasured => "open",
        };
        let word = verdict.name();
        let (promise, measured) = (escaped(promise), escaped(measured));
        let _ = writeln!(
            out,
            "<tr><th scope=\"row\">{promise}</th><td>{measured}</td><td class=\"{class}\">{word}\
             </td></tr>"
        );
    }
    out.push_str(
        "</tbody></table></div>\n\
        <p>Figures are medians of all repetitions, with 95 % intervals by bootstrap. Each ratio \
        compares values of one repetition. A claim is shown or refuted only if its interval \
        excludes the bound.</p>\n</section>\n",
    );
}

fn table(out: &mut String, heads: &[String], rows: &[Vec<String>]) {
    out.push_str("<div class=\"wide\"><table>\n<thead><tr>");
    for head in heads {
        let _ = write!(out, "<th scope=\"col\">{}</th>", escaped(head));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let cell = escaped(cell);
            let _ = match at {
                0 => write!(out, "<th scope=\"row\">{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn everything(out: &mut String, outcome: &Outcome) {
    let machine = &outcome.machine;
    let processors = format!("{} x {}", machine.cpus, machine.processor);
    let memory = format!("{} MiB", machine.memory_mib);
    let took = format!("{:.0} s", outcome.seconds);
    let mut facts = vec![
        ("Command", outcome.command.as_str()),
        ("Commit", outcome.commit.as_deref().unwrap_or("not known")),
        ("Begun", &outcome.started),
        ("Took", &took),
        ("Processors", &processors),
        ("Memory", &memory),
        ("Kernel", &machine.kernel),
        ("QEMU", &machine.qemu),
    ];
    facts.extend(outcome.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    out.push_str("<section>\n<h2>How it was run</h2>\n<dl>\n");
    for (name, value) in facts {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
    }
    out.push_str("</dl>\n<details><summary>Everything that was measured</summary>\n");
    let heads = ["Case", "Repetition", "Phase", "Seconds", "Measure", "Value", "Unit"];
    let mut rows = Vec::new();
    for Run { case, repetition, phases, .. } in &outcome.runs {
        for phase in phases {
            rows.extend(phase.measures.iter().map(|measure| {
                vec![
                    case.clone(),
                    repetition.to_string(),
                    phase.name.clone(),
                    format!("{:.1}", phase.seconds),
                    measure.name.clone(),
                    measure.value.to_string(),
                    measure.unit.clone(),
                ]
            }));
        }
    }
    table(out, &heads.map(str::to_owned), &rows);
    out.push_str("</details>\n</section>\n");
}
