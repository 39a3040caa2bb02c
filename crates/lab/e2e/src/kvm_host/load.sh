#!/bin/sh
# Load of a guest, chosen by words of its kernel's command line:
#   busy         keeps one CPU busy
#   steal        prints the stolen time, in seconds, every 2 s
#   virtio_mem   loads that driver
#   cold=MIB     fills that much memory and does not touch it again
#   fill=MIB     fills that much memory, and prints its checksum, the guest's clock and its uptime
#                every 5 s
# All output goes to the console.

hold() {
    mkdir -p /fill
    grep -q ' /fill ' /proc/mounts || mount -t tmpfs -o size=90% fill /fill
    dd if=/dev/urandom of="/fill/$1" bs=1M count="$2" 2> /dev/null
}

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
            hold data "${word#fill=}"
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
        cold=*) hold cold "${word#cold=}" ;;
    esac
done
wait
