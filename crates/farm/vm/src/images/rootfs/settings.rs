//! Settings of one guest's servers, as parameters on its kernel's command line.

use std::net::SocketAddrV4;

/// Settings of a guest with [`super::Software`]; `None` leaves the image's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Services to start. The default is all services of the image.
    pub services: Option<Vec<&'static str>>,
    /// Address at which nginx finds the application server. The default is port 8000 of the same
    /// guest. To use another guest's address, this guest must be linked to that guest.
    pub app: Option<SocketAddrV4>,
    /// Address at which the application server finds PostgreSQL. The default is port 5432 of the
    /// same guest.
    pub database: Option<SocketAddrV4>,
    /// Heap of the application server, in MiB. The default is 16.
    pub heap_mib: Option<u32>,
    /// Number of requests that the application server handles concurrently. The default is 4.
    pub threads: Option<u32>,
    /// PostgreSQL's shared buffers, in MiB. The default is 16.
    pub shared_mib: Option<u32>,
}

impl Settings {
    /// Returns the parameters for the kernel's command line.
    pub fn kernel_words(&self) -> Vec<String> {
        let services = self.services.as_ref().map(|names| names.join(","));
        [
            services.map(|names| format!("pinhead.services={names}")),
            self.app.map(|address| format!("pinhead.app={address}")),
            self.database.map(|address| format!("pinhead.db={address}")),
            self.heap_mib.map(|mib| format!("pinhead.heap_mib={mib}")),
            self.threads.map(|count| format!("pinhead.threads={count}")),
            self.shared_mib.map(|mib| format!("pinhead.shared_mib={mib}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 2);

    /// The image's script would silently ignore an unknown parameter.
    #[test]
    fn the_image_knows_every_word() {
        let all = Settings {
            services: Some(vec!["nginx", "app"]),
            app: Some(SocketAddrV4::new(OTHER, 18_001)),
            database: Some(SocketAddrV4::new(OTHER, 18_002)),
            heap_mib: Some(64),
            threads: Some(2),
            shared_mib: Some(32),
        };
        let words = all.kernel_words();
        assert_eq!(words[..2], ["pinhead.services=nginx,app", "pinhead.app=10.0.1.2:18001"]);
        let script = include_str!("start.sh");
        for word in &words {
            let name = word.split('=').next().unwrap();
            assert!(script.contains(&format!("{name}=*)")), "{name}");
        }
        assert_eq!(words.len(), 6);
        assert_eq!(Settings::default().kernel_words(), Vec::<String>::new());
    }
}
