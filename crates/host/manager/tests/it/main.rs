//! The manager, driven by fake hypervisors, monitors and clients.

mod calm;
mod hostile;
mod keeper;
mod manager;
mod monitor;
mod parking;
mod restore;
mod scan;
mod scene;
mod scrape;
mod strangers;
mod zvm;
