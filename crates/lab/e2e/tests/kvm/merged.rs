//! Equal pages of guests that the host's KSM merges under KVM.

use e2e::kvm_host::KvmHost;

/// Data that is equal in both guests, in MiB.
const EQUAL_MIB: u64 = 24;
const GUESTS: [&str; 2] = ["g1", "g2"];
const KSM: &str = "/sys/kernel/mm/ksm";

/// Returns a shell line that prints [`EQUAL_MIB`] of distinct pages, which are the same in every
/// guest. The data consists of pieces of half a MiB that begin at different offsets in a page.
fn data(first: u32) -> String {
    format!(
        "seq {first} 999999 2> /dev/null | head -c 524288 > /tmp/piece; \
         for i in $(seq {}); do echo $i; cat /tmp/piece; done",
        EQUAL_MIB * 2
    )
}

/// Overwrites a guest's data in place, page by page.
fn fill(host: &mut KvmHost, guest: &str, data: &str) {
    let write = format!("{{ {data}; }} | dd of=/dev/shm/own conv=notrunc bs=64k 2> /dev/null");
    host.until(&format!("pinhead exec {guest} -- sh -c '{write}'"));
}

fn sum(host: &mut KvmHost, guest: &str) -> String {
    host.sh(&format!("pinhead exec {guest} -- md5sum /dev/shm/own"))
}

/// Returns the settings of KSM that a manager changes and restores.
fn settings(host: &mut KvmHost) -> String {
    host.sh(&format!("cd {KSM} && grep . run pages_to_scan sleep_millisecs"))
}

/// Returns the memory saved by KSM, in MiB.
fn saved_mib(host: &mut KvmHost) -> u64 {
    host.number(&format!("cat {KSM}/pages_sharing")) >> 8
}

/// Equal pages of two running guests are merged, which uses KVM's MMU notifiers. A merged page
/// counts once. A write in one guest does not change the data of the other guest. When all pages
/// are unmerged, the data stays intact.
#[test]
fn ksm_merges_pages_of_kvm_guests_and_counts_them_once() {
    let mut host = KvmHost::installed();
    host.sh("virsh -q destroy lv1");
    host.write("/srv/farm.toml", "[[class]]\nname = \"g\"\ncount = 2\nmemory = \"160 MiB\"\n");
    host.spawn("up", "pinhead up --no-manager /srv/farm.toml");
    let (same, other) = (data(100_000), data(500_000));
    for guest in GUESTS {
        fill(&mut host, guest, &same);
    }
    assert!(!host.sh("cat /srv/up.log").contains("emulat"), "they run on KVM");
    let file_sum = |host: &mut KvmHost, data: &str| {
        host.sh(&format!("{{ {data}; }} | md5sum | sed 's|-|/dev/shm/own|'"))
    };
    let (same_sum, other_sum) = (file_sum(&mut host, &same), file_sum(&mut host, &other));
    let found = settings(&mut host);
    let scans = host.number(&format!("cat {KSM}/full_scans"));
    println!("KSM was found with {}", found.replace('\n', " "));
    // The host is short of memory, and its manager moves no memory. Only KSM can therefore free
    // memory.
    host.write(
        "/etc/pinhead/host.toml",
        "[host]\nset_point = \"95%\"\n[policy]\nkind = \"none\"\n[pageout]\nmode = \"off\"\n",
    );
    host.sh("systemctl restart pinhead-host");
    // The first full scan computes the pages' checksums, and the second scan merges the pages.
    host.until(&format!("[ $(cat {KSM}/full_scans) -ge {} ]", scans + 3));
    assert!(saved_mib(&mut host) >= EQUAL_MIB, "{} MiB are merged", saved_mib(&mut host));
    for guest in GUESTS {
        assert_eq!(sum(&mut host, guest), same_sum, "merged data of {guest}");
    }

    // In the kernel's count, each guest has half of a page that both share.
    let pss = "cat $(pgrep -f 'guest=g[12],' | sed 's|.*|/proc/&/smaps_rollup|') | \
               awk '/^Pss_Anon:/ { n += $2 } END { print int(n / 1024) }'";
    let each = "pinhead ps | awk '/^g[12] / { n += $5 + $6 } END { print n }'";
    // The manager's numbers are some seconds old, and merging continues in the meantime.
    let line = format!(
        "pss=$({pss}); used=$(pinhead ps | awk '/^used:/ {{ print $6 + $10 }}'); \
         echo $pss $used; [ $used -le $((pss + 16 + pss / 20)) ]"
    );
    let text = host.until(&line);
    let alone_mib = host.number(each);
    println!("by the kernel and by the manager, in MiB: {text}each for itself: {alone_mib} MiB");
    let counted: u64 = text.split_whitespace().next_back().and_then(|n| n.parse().ok()).unwrap();
    assert!(counted + EQUAL_MIB <= alone_mib, "{counted} MiB, and {alone_mib} each for itself");

    // At its end, the manager restores the settings and unmerges nothing.
    host.sh("systemctl stop pinhead-host");
    assert_eq!(settings(&mut host), found, "the settings of KSM");

    // A write in one guest unmerges the written pages. The kernel updates KSM's counts at the next
    // scan.
    let before_mib = host.number(pss);
    fill(&mut host, "g1", &other);
    assert_eq!(sum(&mut host, "g1"), other_sum, "what g1 wrote");
    assert_eq!(sum(&mut host, "g2"), same_sum, "what g2 has");
    let after_mib = host.number(pss);
    println!("{before_mib} MiB, and {after_mib} MiB after a write to {EQUAL_MIB}");
    assert!(after_mib + 4 >= before_mib + EQUAL_MIB, "{before_mib} and then {after_mib} MiB");

    // The kernel unmerges all pages on request.
    host.sh(&format!("echo 2 > {KSM}/run"));
    assert_eq!(saved_mib(&mut host), 0, "separated");
    assert_eq!(sum(&mut host, "g1"), other_sum);
    assert_eq!(sum(&mut host, "g2"), same_sum);
    host.is_sound();
}
