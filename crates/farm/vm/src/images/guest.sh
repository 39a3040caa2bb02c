#!/bin/sh
# Second half of a guest's first process. The script starts everything that the daemon and the tests
# need. After that it only reaps orphans, and otherwise sleeps, because an idle guest must cost its
# host nothing.
#
# The first half sets `name`, `ctl`, `ip`, `hosts`, `template` and `cpus` from the kernel's command
# line. On a Debian root, busybox's commands come last in the PATH.

export PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/lib/pinhead/bin HOME=/

pinhead-identity "name=${name:=guest}" ${ip:+"ip=$ip"} "template=${template:-0}"

# Names and addresses of the classes that this guest is linked with, as NAME/ADDRESS,NAME/ADDRESS.
{
    echo '127.0.0.1 localhost'
    rest=${hosts:-}
    while [ -n "$rest" ]; do
        one=${rest%%,*}
        rest=${rest#"$one"}
        rest=${rest#,}
        echo "${one#*/} ${one%%/*}"
    done
} > /etc/hosts

# The name of a port appears some time after the port's driver was loaded.
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

# Runs one line at a time for the host, and then reports its exit status. A new shell for each line
# would cost an emulated guest more than most lines do.
ctl_loop() {
    while read -r line <&3; do
        (eval "$line") < /dev/null >&3 2>&1 3<&-
        printf '\001done %s\n' $? >&3
    done
}
if [ "${ctl:-0}" = 1 ]; then
    link_port org.pinhead.ctl.0
    # The loop ends if the host has not opened its end of the port yet, and is then started again.
    while :; do ctl_loop 3<> /dev/virtio-ports/org.pinhead.ctl.0; usleep 100000; done &
fi

# Some emulators fail if a kernel patches code that another CPU runs. On such an emulator the other
# CPUs start here. Everything that patches the kernel during a boot comes earlier, and everything
# that counts CPUs comes later.
if [ "${cpus:-}" = later ]; then
    # A kernel patches itself at its first connection.
    [ -z "${ip:-}" ] || wget -q -O /dev/null http://127.0.0.1:1/ 2> /dev/null
    for file in /sys/devices/system/cpu/cpu[0-9]*/online; do
        read -r online < "$file"
        [ "$online" = 1 ] || echo 1 > "$file" || echo "pinhead: $file: it does not start"
    done
fi

# Services of the image. Each script ends when its service is ready.
for service in /etc/services/* /usr/lib/pinhead/start; do
    [ -r "$service" ] && sh "$service" < /dev/null > /dev/console 2>&1
done

[ -x /sbin/pinheadd ] && start-pinheadd &
[ -r /etc/load.sh ] && sh /etc/load.sh < /dev/null > /dev/console 2>&1 &

echo "pinhead: $name is up"

# While the shell waits, it reaps all orphans.
while :; do
    wait
    sleep 3600
done
