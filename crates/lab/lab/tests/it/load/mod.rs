//! Loads on a test web server, and jobs.

mod jobs;
mod web;
