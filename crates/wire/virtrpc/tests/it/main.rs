//! The client, against libvirt's bytes.

mod client;
