#!/bin/sh
# The work of a guest, by the words of its kernel's command line: `busy` keeps a CPU at work,
# `steal` says the time that was stolen, and `fill=MIB` holds that much memory and says its
# checksum, every few seconds on the console.

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
            while :; do
                echo "sum $(md5sum < /fill/data)" > /dev/console
                sleep 5
            done &
            ;;
    esac
done
wait
