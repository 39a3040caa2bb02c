//! Farms of this host: the progress of their start, and the state of each guest.
//!
//! The script refreshes the tables in place. If a farm appears or disappears, the script reloads
//! the page.

use super::columns::name;
use super::layout::{Page, stale, stamp};
use crate::app::App;
use crate::fault::Fault;
use crate::who::path_of;
use axum::extract::State;
use axum::response::Response;
use base::{chain, plain};
use manager::control::{FarmGuest, FarmTable};
use maud::{Markup, html};
use reports::shown;
use std::sync::Arc;
use why::when::Now;

pub(crate) async fn farms(State(app): State<Arc<App>>) -> Response {
    app.make(|app| page(app, &app.now())).await
}

fn page(app: &App, now: &Now) -> Result<Markup, Fault> {
    let Some(found) = app.source.farms() else {
        return Err(Fault::missing("Only `pinhead web` on a farm's own host shows farms"));
    };
    let body = html! {
        h1 { "Farms" }
        (stale())
        div data-again="5" {
            @match &found {
                Err(error) => p class="notice" { (chain(error)) },
                Ok(all) => {
                    @if all.farms.is_empty() && all.silent.is_empty() {
                        p {
                            "No running farm was found that these pages may query: "
                            code { "pinhead up FARM.toml" } " starts a farm."
                        }
                    }
                    @for one in &all.silent {
                        p class="notice" { "A farm does not respond: " (plain(one, 300)) }
                    }
                    @for one in &all.farms { (farm(one, now)) }
                }
            }
        }
    };
    Ok(Page { title: "Farms", place: "/farms", span: None, body }.whole())
}

fn farm(farm: &FarmTable, now: &Now) -> Markup {
    let called = farm.farm.as_deref().map_or("guests without a farm file".into(), name);
    let count = farm.guests.len();
    let answered = farm.guests.iter().filter(|guest| guest.ready).count();
    let parked = farm.guests.iter().filter(|guest| guest.state == "parked").count();
    let columns = ["CPUs", "vCPU %", "Memory MiB"];
    html! {
        section {
            h2 { (called) }
            dl id=(format!("farm-{}", farm.pid)) data-fresh="" {
                dt { "Started" } dd { (stamp(now.ms.saturating_sub_unsigned(farm.uptime_ms), now))
                    ", process "
                    (farm.pid) }
                dt { "Guests" } dd { (answered) " of " (count) " have answered"
                    @if parked > 0 { ", " (parked) " are parked" } }
            }
            div class="wide" tabindex="0" role="group" aria-label=(format!("Guests of {called}")) {
                table class="farm" {
                    thead { tr {
                        th scope="col" class="label" { "Guest" }
                        th scope="col" class="label" { "Class" }
                        th scope="col" class="label" { "State" }
                        @for column in columns { th scope="col" { (column) } }
                        th scope="col" class="label" { "Architecture" }
                        th scope="col" class="label" { "Address, ports" }
                    } }
                    tbody id=(format!("guests-{}", farm.pid)) data-fresh="" { @for one in
                        &farm.guests { (guest(one)) } }
                }
            }
        }
    }
}

fn guest(guest: &FarmGuest) -> Markup {
    let ports: Vec<String> = guest
        .ports
        .iter()
        .map(|port| format!("127.0.0.1:{} is {}", port.host, port.guest))
        .collect();
    let address = guest.address.as_deref().map(|address| plain(address, 60));
    let places: Vec<String> = address.into_iter().chain(ports).collect();
    html! {
        tr {
            th scope="row" class="label" {
                a href=(path_of(&guest.name, "")) { (name(&guest.name)) }
            }
            td class="label" { (name(&guest.class)) }
            td class="label" {
                (plain(guest.shown_state(), 20))
                @if let Some(reason) = &guest.reason { ": " (plain(reason, 200)) }
            }
            td { (guest.cpus) }
            td { (shown(guest.cpu_percent, 1)) }
            td { (guest.memory_mib) }
            td class="label" { (plain(&guest.arch, 20)) }
            td class="label" { (places.join(", ")) }
        }
    }
}
