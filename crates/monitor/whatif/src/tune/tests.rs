use super::*;

#[test]
fn command_fits_the_source_of_the_guest() {
    let command = |remedy, source| {
        let guest = "web 1".to_owned();
        let gain = Gain::default();
        let (evidence, chart) = (Vec::new(), Vec::new());
        let fault = Fault::TooSmall;
        Finding { fault, guest, evidence, chart, remedy, gain }.command(source)
    };
    let memory = |source| command(Remedy::Memory(Bytes::mib(512)), source);
    assert!(memory(Source::Libvirt).starts_with("virsh setmaxmem --domain 'web 1' 512M "));
    assert!(memory(Source::Farm).starts_with("# memory = \"512 MiB\" for 'web 1' in FARM.toml"));
    assert_eq!(memory(Source::Other), "# start 'web 1' with `qemu -m 512M`");
    let stop = |source| command(Remedy::Stop("poller".into()), source);
    assert!(stop(Source::Farm).starts_with("pinhead exec 'web 1' -- pkill -x poller"));
    assert!(stop(Source::Libvirt).starts_with("# in 'web 1': pkill -x poller"));
    // The package of the guest daemon and a farm have different rules files.
    let slower = |source| command(Remedy::Slower, source);
    for source in [Source::Libvirt, Source::Other] {
        let wanted = "# in 'web 1': set UPDATE=\"30\" in /etc/pinheadd.conf, ";
        assert!(slower(source).starts_with(wanted), "{}", slower(source));
    }
    assert!(slower(Source::Farm).contains(" /etc/pinhead.conf && kill -HUP "));
    for remedy in [Remedy::SetPoint(Bytes::mib(96)), Remedy::NoKsm, Remedy::NoPageOut] {
        let text = command(remedy, Source::Libvirt);
        assert!(text.starts_with("systemctl reload pinhead-host   # first set ["), "{text}");
    }
    let max = command(Remedy::Max(Bytes::mib(96)), Source::Libvirt);
    assert_eq!(max, "pinhead set 'web 1' max \"96 MiB\"");
}
