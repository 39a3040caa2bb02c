#!/bin/sh
# The first process of a guest: mounts, loads modules, and goes on as pinhead-guest, in memory or in
# the root file system of a disk.

export PATH=/sbin:/bin HOME=/

# The kernel unpacks an image into at most half of the memory that is free then. Without the last
# file of it, others may be cut as well. When this process ends, so does the guest.
if [ ! -e /~whole ]; then
    echo 'pinhead: the image does not fit into the memory of this guest: give it more'
    exit 1
fi

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/virtio-ports
mount -t tmpfs -o mode=755 run /run
# Tests fill this to put the guest under memory pressure, so it may take nearly everything.
mount -t tmpfs -o mode=1777,size=90% shm /dev/shm

# What wakes an idle kernel: compaction that looks twice a second whether there is work, and
# counters that are folded every second. And watermarks that are raised for a while whenever kinds
# of pages mix: compaction follows, which moves megabytes, and a clone that moves a page of its
# template has it for itself.
for setting in compaction_proactiveness=0 stat_interval=60 watermark_boost_factor=0; do
    file=/proc/sys/vm/${setting%=*}
    [ ! -w "$file" ] || echo "${setting#*=}" > "$file"
done

name=guest ctl=0 zram_mib=0 ip='' hosts='' reboot=0 root='' template=0 cpus=in-boot
# shellcheck disable=SC2013  # Words, not lines, are what a kernel command line is made of.
for word in $(cat /proc/cmdline); do
    case "$word" in
        pinhead.name=*) name=${word#*=} ;;
        pinhead.ctl=*) ctl=${word#*=} ;;
        pinhead.zram_mib=*) zram_mib=${word#*=} ;;
        pinhead.ip=*) ip=${word#*=} ;;
        pinhead.hosts=*) hosts=${word#*=} ;;
        pinhead.reboot=*) reboot=${word#*=} ;;
        pinhead.root=*) root=${word#*=} ;;
        pinhead.template=*) template=${word#*=} ;;
        pinhead.cpus=*) cpus=${word#*=} ;;
    esac
done

load() {
    while read -r module; do
        insmod "/lib/modules/$module.ko" || echo "pinhead: module $module does not load"
    done < "$1"
}
load /etc/modules
# Free pages are told to the host by 32 blocks at once, and only by a guest that has as much free:
# of blocks of 2 MiB a small guest never has. To be set when the balloon is there.
file=/sys/module/page_reporting/parameters/page_reporting_order
[ ! -w $file ] || echo 5 > $file
[ -z "$ip" ] || load /etc/modules.net
[ "$reboot" = 0 ] || load /etc/modules.panic
if [ "$zram_mib" -gt 0 ]; then
    load /etc/modules.zram
    echo "${zram_mib}M" > /sys/block/zram0/disksize
    mkswap /dev/zram0 > /dev/null
    swapon /dev/zram0
fi
export name ctl ip hosts template cpus
[ -z "$root" ] || exec pinhead-enter "$root"
# The root file system is memory: a loaded module's file is waste.
rm -rf /lib/modules
exec pinhead-guest
