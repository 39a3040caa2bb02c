#!/bin/sh
# Gives this guest its identity at each start. A clone, which resumes from another guest's state,
# gets its identity from its daemon. The daemon changes the files that this script has made.
#
#   pinhead-identity name=NAME [ip=ADDRESS] [template=1]

export PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/lib/pinhead/bin
failed=0

fail() {
    echo "pinhead: identity: $*"
    failed=1
}

# Kernel files with a text that a clone must replace. In a template, ordinary files are mounted over
# these files, so that the daemon of a clone can write to them. While the file `unnamed` exists, the
# daemon accepts an identity.
dmi=/sys/class/dmi/id/product_uuid
boot=/proc/sys/kernel/random/boot_id
shown=/run/pinhead-identity

show() {
    [ -r "$1" ] || return 0
    read -r text < "$1"
    echo "$text" > "$2"
    mount -o bind "$2" "$1" || fail "$1 cannot be replaced"
}

ifconfig lo 127.0.0.1 up || fail "no loopback"
machine=''
if [ -r $dmi ]; then
    read -r machine < $dmi
elif [ -r /proc/sysinfo ]; then
    machine=$(awk '/UUID/ { print $NF }' /proc/sysinfo)
fi
[ -z "$machine" ] || echo "$machine" | tr -d - | tr A-F a-f > /etc/machine-id

for word; do
    value=${word#*=}
    case "$word" in
        name=*)
            echo "$value" > /proc/sys/kernel/hostname
            echo "$value" > /etc/hostname
            ;;
        ip=*)
            ifconfig eth0 "$value" netmask 255.0.0.0 up || fail "eth0 does not take $value"
            route add default gw 10.0.0.2 || fail "no gateway"
            ;;
        template=1)
            mkdir -p $shown
            show $dmi $shown/uuid
            show $boot $shown/boot
            : > $shown/unnamed
            ;;
        template=0) ;;
        *) fail "what is $word" ;;
    esac
done
exit $failed
