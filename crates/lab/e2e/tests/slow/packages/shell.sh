#!/bin/sh
# Runs in a Debian with systemd what a test asks for, a line at a time: what guests without systemd
# have in their first process.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root
port=''
tries=0
while [ -z "$port" ] && [ $tries -lt 1000 ]; do
    for file in /sys/class/virtio-ports/*/name; do
        read -r found < "$file"
        if [ "$found" = org.pinhead.ctl.0 ]; then
            port=${file%/name}
            port=/dev/${port##*/}
        fi
    done
    tries=$((tries + 1))
    sleep 0.02
done
read -r name < /proc/sys/kernel/hostname
echo "pinhead: $name is up" > /dev/console
exec 3<> "$port"
while read -r line <&3; do
    (eval "$line") < /dev/null >&3 2>&1 3<&-
    printf '\001done %s\n' $? >&3
done
