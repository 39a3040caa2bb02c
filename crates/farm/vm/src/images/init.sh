#!/bin/sh
# First process of a guest. The script mounts file systems, loads modules, and continues as
# pinhead-guest, in memory or in the root file system of a disk.

export PATH=/sbin:/bin HOME=/

# The kernel unpacks an image into at most half of the free memory. If the image's last file is
# missing, other files may be truncated, too. The guest ends when this process exits.
if [ ! -e /~whole ]; then
    echo 'pinhead: the image does not fit into the memory of this guest: give it more'
    exit 1
fi

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/virtio-ports
mount -t tmpfs -o mode=755 run /run
# Tests fill this file system to put the guest under memory pressure, so it may take nearly all
# memory.
mount -t tmpfs -o mode=1777,size=90% shm /dev/shm

# These settings keep an idle kernel asleep. By default, compaction looks for work twice a second,
# and counters are folded every second. Watermarks are raised whenever kinds of pages mix, and
# compaction follows. Compaction moves megabytes, and a clone no longer shares moved pages with its
# template.
for setting in compaction_proactiveness=0 stat_interval=60 watermark_boost_factor=0; do
    file=/proc/sys/vm/${setting%=*}
    [ ! -w "$file" ] || echo "${setting#*=}" > "$file"
done

name=guest ctl=0 zram_mib=0 ip='' hosts='' reboot=0 root='' template=0 cpus=in-boot
# shellcheck disable=SC2013  # A kernel command line consists of words, not of lines.
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
# A guest reports free pages to the host only when it has 32 free blocks. A small guest never has 32
# free blocks of 2 MiB, so smaller blocks are reported. The setting exists only once the balloon's
# driver is loaded.
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
# The root file system is in memory, so the files of loaded modules waste memory.
rm -rf /lib/modules
exec pinhead-guest
