#!/bin/sh
# Moves the guest's first process from memory to the root file system on the guest's disk.
#
#   pinhead-enter rw      the disk is the root file system, and writes go to the disk
#   pinhead-enter layer   the disk is only read, and writes stay in memory
#
# pinhead.device=NAME selects a partition of the disk, such as vda1.

layer=$1 device=vda
# shellcheck disable=SC2013  # A kernel command line consists of words, not of lines.
for word in $(cat /proc/cmdline); do
    case "$word" in
        pinhead.device=*) device=${word#*=} ;;
    esac
done

stop() {
    echo "pinhead: $*"
    # The kernel panics when its first process ends. QEMU then ends too, so that nobody waits for
    # this guest.
    exit 1
}

load() {
    while read -r module; do
        insmod "/lib/modules/$module.ko" || echo "pinhead: module $module does not load"
    done < "$1"
}
load /etc/modules.disk

# A disk appears some time after its driver was loaded.
tries=0
until [ -b "/dev/$device" ]; do
    [ $tries -lt 250 ] || stop "no disk $device"
    tries=$((tries + 1))
    usleep 20000
done

mkdir -p /root
case "$layer" in
    rw) mount -t ext4 -o noatime,noinit_itable "/dev/$device" /root || stop "no root on $device" ;;
    layer)
        load /etc/modules.layer
        mkdir -p /base /layer
        mount -t ext4 -o ro,noatime "/dev/$device" /base || stop "no root on $device"
        mount -t tmpfs -o mode=755,size=50% layer /layer
        mkdir /layer/upper /layer/work
        mount -t overlay -o lowerdir=/base,upperdir=/layer/upper,workdir=/layer/work root /root ||
            stop "no layer over $device"
        ;;
    *) stop "pinhead.root is rw or layer, not $layer" ;;
esac

# The image contains neither the daemon nor this guest's own files. Both are copied from memory.
mkdir -p /root/sbin /root/etc /root/proc /root/sys /root/dev /root/run
for file in pinheadd start-pinheadd pinhead-identity pinhead-guest; do
    [ ! -e "/sbin/$file" ] || cp "/sbin/$file" "/root/usr/sbin/$file"
done
while read -r file; do
    mkdir -p "/root${file%/*}"
    cp -p "$file" "/root$file"
done < /etc/pinhead.files
for part in proc sys dev run; do
    mount -o move "/$part" "/root/$part" || stop "no $part in the root of $device"
done
exec switch_root /root /usr/sbin/pinhead-guest
