#!/bin/sh
# The first process of a guest: brings up what the daemon and the tests need, then only reaps.
# It must not wake up when nothing happens: an idle guest costs its host nothing.

export PATH=/sbin:/bin HOME=/

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/virtio-ports
mount -t tmpfs -o mode=755 run /run
# Tests fill this to put the guest under memory pressure, so it may take nearly everything.
mount -t tmpfs -o mode=1777,size=90% shm /dev/shm

name=guest ctl=0 zram_mib=0
# shellcheck disable=SC2013  # Words, not lines, are what a kernel command line is made of.
for word in $(cat /proc/cmdline); do
    case "$word" in
        pinhead.name=*) name=${word#*=} ;;
        pinhead.ctl=*) ctl=${word#*=} ;;
        pinhead.zram_mib=*) zram_mib=${word#*=} ;;
    esac
done
hostname "$name"

load() {
    while read -r module; do
        insmod "/lib/modules/$module.ko" || echo "pinhead: module $module does not load"
    done < "$1"
}
load /etc/modules
if [ "$zram_mib" -gt 0 ]; then
    load /etc/modules.zram
    echo "${zram_mib}M" > /sys/block/zram0/disksize
    mkswap /dev/zram0 > /dev/null
    swapon /dev/zram0
fi
# The root file system is memory: a loaded module's file is waste.
rm -rf /lib/modules

# A port shows its name some time after its driver was loaded.
link_port() {
    tries=0
    while [ $tries -lt 250 ]; do
        for file in /sys/class/virtio-ports/*/name; do
            [ -r "$file" ] || continue
            read -r found < "$file"
            if [ "$found" = "$1" ]; then
                port=${file%/name}
                ln -sf "/dev/${port##*/}" "/dev/virtio-ports/$1"
                return
            fi
        done
        tries=$((tries + 1))
        usleep 20000
    done
    echo "pinhead: no port $1"
}
link_port org.pinhead.0

# Runs one line at a time for the tests, and says when and how it ended.
ctl_loop() {
    while read -r line <&3; do
        sh -c "$line" < /dev/null >&3 2>&1 3<&-
        printf '\001done %s\n' $? >&3
    done
}
if [ "$ctl" = 1 ]; then
    link_port org.pinhead.ctl.0
    # The loop ends when the host's end was not there yet; then it starts again.
    while :; do ctl_loop 3<> /dev/virtio-ports/org.pinhead.ctl.0; usleep 100000; done &
fi

[ -x /sbin/pinheadd ] && start-pinheadd &
[ -r /etc/load.sh ] && sh /etc/load.sh < /dev/null > /dev/console 2>&1 &

echo "pinhead: $name is up"

# The shell reaps orphans while it waits, whosever they were.
while :; do
    wait
    sleep 3600
done
