//! Reports as a self-contained page: style and charts are included, and there is no script.

use super::svg::{Frame, Series, bars};
use super::{about, advice_of, halves, label_title, labels_shown, time_text};
use crate::catalog::{Chart, ChartKind, Definition};
use crate::fields::{Derived, Scope};
use crate::header::{cost_text, gaps_text};
use crate::number::shown;
use crate::report::{Line, LineKind, Report, Table};
use crate::time::Zone;
use base::html::{self, escaped};
use std::fmt::Write;

/// Maximum numbers of bars in a chart and of hosts with charts, so that a page stays readable.
const BARS_MAX: usize = 12;
const HOSTS_MAX: usize = 8;

/// Head of the column with the raw values behind a finding.
const EVIDENCE: &str = "Evidence";

/// Renders a report as a self-contained page.
pub fn html(report: &Report, zone: &dyn Zone) -> String {
    let Definition { name, title, .. } = report.definition;
    let mut out = html::open(&format!("{name}: {title}"), "");
    out.push_str(&html_body(report, zone));
    out.push_str(html::CLOSE);
    out
}

/// Renders the body of a report's page, for pages that contain more than the report.
pub fn html_body(report: &Report, zone: &dyn Zone) -> String {
    let name = report.definition.name;
    let title = escaped(report.definition.title);
    let mut out = String::new();
    let about = escaped(&about(report, zone));
    let _ = write!(out, "<header>\n<h1><span>{name}</span> {title}</h1>\n<p>{about}</p>\n");
    for host in &report.hosts {
        let cost = escaped(&cost_text(host));
        let _ = writeln!(out, "<p>Host <b>{}</b>, own cost {cost}</p>", escaped(&host.name));
        if name == "HDR" && !host.facts.is_empty() {
            out.push_str("<dl>\n");
            for (what, how) in &host.facts {
                let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(what), escaped(how));
            }
            out.push_str("</dl>\n");
        }
        if let Some(gaps) = gaps_text(host, zone) {
            let _ = writeln!(out, "<p class=\"gap\">Gaps: {}</p>", escaped(&gaps));
        }
    }
    out.push_str("</header>\n");
    let mut charts = 0;
    for table in report.tables.iter().filter(|table| table.has_values()) {
        let _ = writeln!(out, "<section>\n<h2>{}</h2>", escaped(table.part.title));
        for chart in table.part.charts {
            draw(&mut out, chart, table, report, zone, &mut charts);
        }
        tables(&mut out, table, report, zone);
        for (rule, advice) in advice_of(table) {
            let _ = writeln!(out, "<p><b>{rule}</b>: {}</p>", escaped(advice));
        }
        words(&mut out, table);
        out.push_str("</section>\n");
    }
    if !report.notes.is_empty() {
        out.push_str("<footer>\n");
        for note in &report.notes {
            let _ = writeln!(out, "<p>{}</p>", escaped(note));
        }
        out.push_str("</footer>\n");
    }
    out
}

fn words(out: &mut String, table: &Table) {
    out.push_str("<details><summary>What the columns mean</summary>\n<dl>\n");
    for field in table.columns_shown().into_iter().map(|at| table.fields[at]) {
        let heading = escaped(&field.heading());
        let (words, formula) = (escaped(field.words), escaped(field.formula));
        let _ = writeln!(out, "<dt>{heading}</dt><dd>{words}: {formula}</dd>");
    }
    out.push_str("</dl></details>\n");
}

fn tables(out: &mut String, table: &Table, report: &Report, zone: &dyn Zone) {
    let (intervals, whole) = halves(table);
    if !whole.is_empty() {
        let labels = labels_shown(table, report);
        let mut heads: Vec<&str> = labels.iter().map(|at| label_title(table.labels[*at])).collect();
        let has_evidence = table.part.scope == Scope::Finding;
        if has_evidence {
            heads.push(EVIDENCE);
        }
        let label = |line: &Line| {
            let mut texts: Vec<String> =
                labels.iter().map(|at| escaped(&line.labels[*at])).collect();
            if has_evidence {
                texts.extend(line.labels.last().map(|text| escaped(text)));
            }
            texts
        };
        grid(out, &heads, &whole, table, label);
    }
    if !intervals.is_empty() {
        let has_hosts = report.hosts.len() > 1;
        let heads: &[&str] = if has_hosts { &["Time", "Host"] } else { &["Time"] };
        let label = |line: &Line| {
            let mut texts = vec![time_text(line, report, zone)];
            texts.extend(has_hosts.then(|| escaped(&line.labels[0])));
            texts
        };
        let open = if whole.is_empty() { " open" } else { "" };
        let count = intervals.len();
        let _ = writeln!(out, "<details{open}><summary>{count} intervals</summary>");
        grid(out, heads, &intervals, table, label);
        out.push_str("</details>\n");
    }
}

fn grid(
    out: &mut String,
    heads: &[&str],
    lines: &[&Line],
    table: &Table,
    label: impl Fn(&Line) -> Vec<String>,
) {
    let title = escaped(table.part.title);
    // The attributes let visitors scroll with the keyboard if an element is wider than the page.
    let _ = write!(
        out,
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\">\
         <table>\n<thead><tr>"
    );
    for head in heads {
        let _ = write!(out, "<th scope=\"col\" class=\"label\">{head}</th>");
    }
    let columns = table.columns_shown();
    for field in columns.iter().map(|at| table.fields[*at]) {
        let title = format!("{}: {}", field.words, field.formula);
        let heading = escaped(field.title).replace('|', "<br>");
        let _ = write!(out, "<th scope=\"col\" title=\"{}\">{heading}</th>", escaped(&title));
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for line in lines {
        let class = match line.kind {
            LineKind::Rest => " class=\"rest\"",
            LineKind::All => " class=\"all\"",
            _ => "",
        };
        let _ = write!(out, "<tr{class}>");
        for (at, text) in label(line).iter().enumerate() {
            let _ = match heads.get(at) {
                _ if at == 0 => write!(out, "<th scope=\"row\" class=\"label\">{text}</th>"),
                Some(&EVIDENCE) => write!(out, "<td class=\"long\">{text}</td>"),
                _ => write!(out, "<td class=\"label\">{text}</td>"),
            };
        }
        for at in &columns {
            let value = shown(line.values[*at], table.fields[*at].decimals);
            let _ = write!(out, "<td>{value}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn draw(
    out: &mut String,
    chart: &Chart,
    table: &Table,
    report: &Report,
    zone: &dyn Zone,
    charts: &mut usize,
) {
    let columns: Vec<(usize, &'static Derived)> = chart
        .columns
        .iter()
        .filter_map(|id| table.fields.iter().position(|field| field.id == *id))
        .map(|at| (at, table.fields[at]))
        .collect();
    if chart.kind == ChartKind::Bars {
        let Some((column, field)) = columns.first() else { return };
        top(out, chart, table, report, (*column, field), charts);
        return;
    }
    for (at, host) in report.hosts.iter().take(HOSTS_MAX).enumerate() {
        let is_of = |line: &&Line| line.kind == LineKind::Interval && line.labels[0] == host.name;
        let lines: Vec<&Line> = table.lines.iter().filter(is_of).collect();
        let spans: Vec<(i64, u64)> =
            lines.iter().map(|line| (line.from_ms, line.length_ms)).collect();
        let values = |column: usize| lines.iter().map(|line| line.values[column]).collect();
        let series = Series::all(columns.iter().map(|(at, field)| (*field, values(*at))).collect());
        let Some((_, first)) = columns.first().filter(|_| lines.len() >= 2) else { continue };
        if series.is_empty() {
            continue;
        }
        *charts += 1;
        let title = title_of(chart, first, report.hosts.len() > 1, at, report);
        let frame = Frame {
            from_ms: report.from_ms,
            to_ms: report.to_ms,
            zone,
            spans: &spans,
            title: &title,
            id: *charts,
            marks: &[],
        };
        let svg = match chart.kind {
            ChartKind::Stack => frame.areas(&series),
            _ => frame.curves(&series),
        };
        let _ = write!(out, "<figure>\n<figcaption>{}</figcaption>\n{svg}\n", escaped(&title));
        out.push_str(&key(&series));
        out.push_str("</figure>\n");
    }
}

/// Returns the legend of a chart.
pub fn key(series: &[Series<'_>]) -> String {
    let mut out = String::from("<ul class=\"key\">");
    for one in series {
        let (name, words, colour) = (escaped(&one.name), escaped(one.words), one.colour);
        let _ = write!(out, "<li title=\"{words}\"><i class=\"s{colour}\"></i>{name}</li>");
    }
    out.push_str("</ul>\n");
    out
}

fn title_of(chart: &Chart, field: &Derived, is_named: bool, at: usize, report: &Report) -> String {
    let unit = match field.unit.text() {
        "" => String::new(),
        unit => format!(", {unit}"),
    };
    let host = if is_named { format!(" of {}", report.hosts[at].name) } else { String::new() };
    format!("{}{host}{unit}", chart.title)
}

fn top(
    out: &mut String,
    chart: &Chart,
    table: &Table,
    report: &Report,
    (column, field): (usize, &Derived),
    charts: &mut usize,
) {
    let labels = labels_shown(table, report);
    let name = |line: &Line| {
        let texts = labels.iter().map(|at| line.labels[*at].as_str());
        texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    };
    let mut rows: Vec<(String, f64)> = table
        .lines
        .iter()
        .filter(|line| line.kind == LineKind::Whole)
        .filter_map(|line| Some((name(line), line.values[column]?)))
        .collect();
    rows.sort_by(|a, b| b.1.total_cmp(&a.1));
    rows.truncate(BARS_MAX);
    if rows.len() < 2 || rows.iter().all(|(_, value)| *value <= 0.0) {
        return;
    }
    *charts += 1;
    let title = title_of(chart, field, false, 0, report);
    let svg = bars(&rows, field, &title, *charts);
    let caption = escaped(&title);
    let _ = writeln!(out, "<figure>\n<figcaption>{caption}</figcaption>\n{svg}\n</figure>");
}
