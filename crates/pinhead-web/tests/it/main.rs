//! `pinhead-web` as a process.

mod web;
