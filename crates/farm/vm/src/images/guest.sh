#!/bin/sh
# The second half of a guest's first process: brings up what the daemon and the tests need, then
# only reaps. It must not wake up when nothing happens: an idle guest costs its host nothing.
#
# The first half says in `name`, `ctl`, `ip`, `hosts`, `template` and `cpus` what stands on the
# kernel's command line. Where the root is Debian's, busybox's commands come last in the PATH.

export PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/lib/pinhead/bin HOME=/

pinhead-identity "name=${name:=guest}" ${ip:+"ip=$ip"} "template=${template:-0}"

# Names of the guests that this one is linked with, as NAME/ADDRESS,NAME/ADDRESS.
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

# Runs one line at a time for the tests, and says when and how it ended. A shell of its own for
# each would cost an emulated guest more than most lines do.
ctl_loop() {
    while read -r line <&3; do
        (eval "$line") < /dev/null >&3 2>&1 3<&-
        printf '\001done %s\n' $? >&3
    done
}
if [ "${ctl:-0}" = 1 ]; then
    link_port org.pinhead.ctl.0
    # The loop ends when the host's end was not there yet; then it starts again.
    while :; do ctl_loop 3<> /dev/virtio-ports/org.pinhead.ctl.0; usleep 100000; done &
fi

# Under an emulation that does not bear code that is patched while another CPU runs it, all that
# patches the kernel in a boot comes before this, and what finds and counts CPUs after it.
if [ "${cpus:-}" = later ]; then
    # A kernel patches itself at its first connection.
    [ -z "${ip:-}" ] || wget -q -O /dev/null http://127.0.0.1:1/ 2> /dev/null
    for file in /sys/devices/system/cpu/cpu[0-9]*/online; do
        read -r online < "$file"
        [ "$online" = 1 ] || echo 1 > "$file" || echo "pinhead: $file: it does not start"
    done
fi

# What the image is for. Each ends when its service is ready.
for service in /etc/services/* /usr/lib/pinhead/start; do
    [ -r "$service" ] && sh "$service" < /dev/null > /dev/console 2>&1
done

[ -x /sbin/pinheadd ] && start-pinheadd &
[ -r /etc/load.sh ] && sh /etc/load.sh < /dev/null > /dev/console 2>&1 &

echo "pinhead: $name is up"

# The shell reaps orphans while it waits, whosever they were.
while :; do
    wait
    sleep 3600
done
