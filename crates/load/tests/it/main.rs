//! Loads on a web server of our own and on jobs.

mod jobs;
mod web;
