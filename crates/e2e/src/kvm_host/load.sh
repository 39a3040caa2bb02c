#!/bin/sh
# The work of a guest, by the words of its kernel's command line: `busy` keeps a CPU at work,
# `steal` says the time that was stolen, and `virtio_mem` loads that driver. `fill=MIB` holds that
# much memory. Every few seconds it says on the console the memory's checksum, the guest's clock
# and its uptime.

for word in $(cat /proc/cmdline); do
    case $word in
        busy) while :; do :; done & ;;
        steal)
            while :; do
                awk '/^cpu / { print "steal", $9 / 100 }' /proc/stat > /dev/console
                sleep 2
            done &
            ;;
        fill=*)
            mkdir -p /fill
            mount -t tmpfs -o size=90% fill /fill
            dd if=/dev/urandom of=/fill/data bs=1M count="${word#fill=}" 2> /dev/null
            cat /sys/devices/system/clocksource/clocksource0/current_clocksource > /dev/console
            while :; do
                echo "sum $(md5sum < /fill/data)" > /dev/console
                busybox adjtimex |
                    awk '/sec:/ { n[i++] = $2 } END { printf "clock %d.%06d\n", n[0], n[1] }' \
                        > /dev/console
                echo "uptime $(cut -d ' ' -f 1 /proc/uptime)" > /dev/console
                sleep 5
            done &
            ;;
        virtio_mem) insmod /etc/virtio_mem.ko ;;
    esac
done
wait
