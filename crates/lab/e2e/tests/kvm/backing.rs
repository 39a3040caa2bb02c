//! Guests with other kinds of memory: locked, in huge pages, in a file in memory, or plugged in.

use e2e::kvm_host::KvmHost;

const FILLED_MIB: u64 = 24;
/// Size of the virtio-mem memory that is plugged while the guest runs.
const PLUGGED_MIB: u64 = 64;

/// Guests with memory that cannot leave the host, and the reported reasons.
const REASONS: [(&str, &str); 2] =
    [("locked", "its memory is locked"), ("huge", "its memory is in huge pages")];

/// Returns a column of `pinhead ps`, by its number.
fn column(host: &mut KvmHost, guest: &str, number: u32) -> u64 {
    host.number(&format!("pinhead ps | awk '$1 == \"{guest}\" {{ print ${number} }}'"))
}

/// Waits until a condition holds for a guest's columns in `pinhead ps`.
fn until(host: &mut KvmHost, guest: &str, so: &str) {
    let is = format!("$1 == \"{guest}\" && {so} {{ found = 1 }} END {{ exit !found }}");
    host.until(&format!("pinhead ps | awk '{is}'"));
}

/// Returns a value from the `/proc/PID/status` of a guest's process, in MiB.
fn process_mib(host: &mut KvmHost, guest: &str, line: &str) -> u64 {
    let line = format!("awk '/^{line}:/ {{ print int($2 / 1024) }}'");
    host.number(&format!("{line} /proc/$(pgrep -f guest={guest},)/status"))
}

/// Memory that cannot leave the host stays with its guest, whatever an operator requests, and the
/// reason is reported. Memory in a private file and plugged memory count as the guest's memory.
#[test]
fn memory_of_each_backing_is_counted_or_left_alone() {
    let mut host = KvmHost::installed();
    host.has_swap();
    host.sh("virsh -q destroy lv1");
    host.sh("echo 80 > /proc/sys/vm/nr_hugepages; grep -x 80 /proc/sys/vm/nr_hugepages");
    let fill = format!("fill={FILLED_MIB}");
    host.plain_qemu("locked", "-m 128M -overcommit mem-lock=on", &fill);
    let file = "-object memory-backend-KIND,id=ram,share=on,size=";
    let of = |kind, mib| {
        let file = file.replace("KIND", kind);
        format!("-m {mib}M -machine memory-backend=ram {file}{mib}M")
    };
    host.plain_qemu("huge", &of("memfd,hugetlb=on", 128), &fill);
    host.plain_qemu("memfd", &of("memfd", 160), &fill);
    let plugged = "-m 160M,slots=2,maxmem=2G -object memory-backend-ram,id=m0,size=128M \
                   -device pc-dimm,memdev=m0 -object memory-backend-ram,id=m1,size=256M \
                   -device virtio-mem-pci,id=vm0,memdev=m1,requested-size=0 \
                   -monitor tcp:127.0.0.1:4444,server=on,wait=off";
    host.plain_qemu("plugged", plugged, "virtio_mem memhp_default_state=online");
    let all = ["locked", "huge", "memfd", "plugged"];
    for guest in all {
        host.has_numbers(guest);
    }

    // Huge pages count as the guest's own memory. Only QEMU's program text counts as shared. In the
    // sum of the host's memory, huge pages are a separate part.
    let huge_mib = process_mib(&mut host, "huge", "HugetlbPages");
    // The manager's numbers are some seconds old.
    until(&mut host, "huge", &format!("$5 + 8 >= {huge_mib} && $5 <= {huge_mib} + 8"));
    let counted = column(&mut host, "huge", 5);
    let (own, shared) = (column(&mut host, "huge", 6), column(&mut host, "huge", 7));
    println!("in huge pages: {huge_mib} MiB, counted {counted}, its QEMU {own}, shared {shared}");
    let anon_mib = process_mib(&mut host, "huge", "RssAnon");
    assert!(own <= anon_mib + 8, "{own} MiB, its QEMU has {anon_mib} MiB");
    println!("{}", host.until("pinhead ps | grep '^used:.* huge pages 160 '"));

    // A private file in memory belongs to the guest, so it can be reclaimed like other memory.
    let shmem_mib = process_mib(&mut host, "memfd", "RssShmem");
    let (counted, shared) = (column(&mut host, "memfd", 5), column(&mut host, "memfd", 7));
    println!("in a file: {shmem_mib} MiB, counted {counted}, shared {shared}");
    assert!(counted.abs_diff(shmem_mib) <= 8, "{counted} MiB, in its file {shmem_mib}");
    let files_mib = process_mib(&mut host, "memfd", "RssFile");
    assert!(shared.abs_diff(files_mib) <= 10, "{shared} MiB shared, {files_mib} MiB of programs");

    // A host that is short of memory reclaims some of the file, but no memory that cannot leave the
    // host.
    host.write(
        "/etc/pinhead/host.toml",
        "[host]\nset_point = \"90%\"\n[pageout]\nmode = \"off\"\n",
    );
    host.sh("systemctl reload pinhead-host");
    until(&mut host, "memfd", "$3 <= 150");
    for (guest, _) in REASONS {
        assert_eq!(column(&mut host, guest, 3), 128, "the memory that {guest} has");
    }
    println!("{}", host.sh("pinhead ps"));
    host.sh("echo '[host]' > /etc/pinhead/host.toml && systemctl reload pinhead-host");

    let sum = host.sum("memfd");
    host.until("pinhead park memfd");
    host.until("awk '/^RssShmem/ { exit $2 > 24000 }' /proc/$(pgrep -f guest=memfd,)/status");
    let left_mib = process_mib(&mut host, "memfd", "RssShmem");
    println!("parked: {left_mib} MiB of it are in memory");
    host.sh("pinhead wake memfd");
    assert_eq!(host.sum("memfd"), sum, "data in a file");

    // Locked memory and huge pages stay in the host's RAM, even if the guest is parked.
    for (guest, why) in REASONS {
        let told = host.until(&format!("pinhead why {guest} | grep -m 1 '{why}'"));
        println!("{told}");
        let told = host.until(&format!("pinhead park {guest}"));
        assert!(told.contains("excepted"), "{told}");
        host.sh(&format!("pinhead wake {guest}"));
    }

    // A DIMM counts as the guest's memory from the guest's start. Memory of virtio-mem counts once
    // the guest's driver has plugged the memory.
    let memory_mib = column(&mut host, "plugged", 4);
    assert_eq!(memory_mib, 160 + 128, "with its DIMM");
    host.sh(&format!(
        "bash -c 'exec 5<> /dev/tcp/127.0.0.1/4444 && \
         echo qom-set /machine/peripheral/vm0 requested-size {PLUGGED_MIB}M >&5 && sleep 2'"
    ));
    let more = memory_mib + PLUGGED_MIB;
    until(&mut host, "plugged", &format!("$4 == {more}"));
    // The manager's target includes memory plugged by virtio-mem. The balloon's target does not, so
    // it is 300 MiB less 64 MiB.
    host.sh("pinhead set plugged pin '300 MiB'");
    until(&mut host, "plugged", "$3 == 300");
    host.sh("bash -c 'exec 5<> /dev/tcp/127.0.0.1/4444 && echo info balloon >&5 && sleep 2 && \
         timeout 2 cat <&5' | grep -a actual=236");
    host.is_sound();
}
