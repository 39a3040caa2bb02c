//! Page with pinhead's own costs and its problems.

use super::layout::Page;
use crate::app::App;
use crate::clock::{own_cpu_ms, steady_ms};
use crate::fault::Fault;
use crate::source::Error;
use crate::visitor::{Via, Visitor};
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use base::{chain, plain};
use manager::control::{Answer, Ask, Status};
use maud::{Markup, html};
use reports::shown;
use std::sync::Arc;

pub(crate) async fn about(
    State(app): State<Arc<App>>,
    Extension(visitor): Extension<Visitor>,
    Extension(via): Extension<Via>,
) -> Response {
    app.make(move |app| Ok::<_, Fault>(page(app, &visitor, via))).await
}

fn page(app: &App, visitor: &Visitor, via: Via) -> Markup {
    let has_session = !matches!(via, Via::Unix(_)) || app.entry.has_password();
    let up_ms = steady_ms().saturating_sub(app.began_ms).max(1);
    let own_percent = own_cpu_ms() as f64 * 100.0 / up_ms as f64;
    let status = match app.source.ask(&Ask::Status) {
        Ok(Answer::Status(status)) => Ok(status),
        Ok(_) => Err(Error::OtherAnswer),
        Err(error) => Err(error),
    };
    let body = html! {
        h1 { "About" }
        h2 { "These pages" }
        dl {
            dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
            dt { "CPU, % of one" } dd { (shown(Some(own_percent), 2)) " since the start, " (up_ms
                / 1_000) " s ago" }
            dt { "Changes" } dd { @if app.allow_changes { "allowed" } @else {
                "not allowed: start with --allow-changes" } }
        }
        @if has_session {
            form class="row" method="post" action="/logout" {
                input type="hidden" name="form_key" value=(visitor.form_key);
                button { "Log out" }
            }
        }
        h2 { "The manager" }
        @match &status {
            Ok(status) => (manager(status)),
            Err(error) => p class="notice" { (plain(&chain(error), 400)) },
        }
    };
    Page { title: "About", place: "/about", span: None, body }.whole()
}

fn manager(status: &Status) -> Markup {
    let mib = |bytes: Option<u64>| shown(bytes.map(|bytes| bytes as f64 / 1_048_576.0), 1);
    let text =
        |text: &Option<String>| text.as_deref().map_or("-".to_owned(), |text| plain(text, 200));
    html! {
        dl {
            dt { "Version" } dd { (plain(&status.version, 40)) }
            dt { "Process" } dd { (status.pid) ", up for " (status.uptime_ms / 1_000) " s" @if
                status.dry_run { ", dry run" } }
            dt { "CPU, % of one" } dd { (shown(status.cpu_percent, 2)) ", page-out "
                (shown(status.page_out_cpu_percent, 2)) }
            dt { "Memory, MiB" } dd { (mib(status.resident_bytes)) }
            dt { "Guests" } dd { (status.guests) ", managed " (status.managed) }
            dt { "Passes" } dd { (status.passes) ", the last in "
                (status.pass_us.map_or("-".to_owned(), |us| us.to_string())) " µs" }
            dt { "Settings" } dd { (text(&status.config)) }
            dt { "Shadow policy" } dd { (text(&status.shadow)) }
            dt { "Sources" } dd { @for source in &status.sources { (plain(&source.name, 40)) " " } }
        }
        @if !status.troubles.is_empty() {
            h2 { "Troubles" }
            ul { @for trouble in status.troubles.iter().rev() { li { (plain(trouble, 400)) } } }
        }
    }
}
