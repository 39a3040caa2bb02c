#!/bin/sh
# Makes this guest itself: at each start, and again when it goes on from another guest's state.
#
#   pinhead-identity name=NAME [ip=ADDRESS]                                  at a start
#   pinhead-identity name=NAME uuid=UUID machine=HEX boot=UUID [mac=ADDRESS ip=ADDRESS]
#                    seed=HEX clock=SECONDS,MICROSECONDS                     in a clone
#
# A process more costs an emulated guest more than all the rest: what the shell can do, it does.

export PATH=/sbin:/bin:/usr/sbin:/usr/bin:/usr/lib/pinhead/bin
failed=0 mac='' seed='' clock=''

fail() {
    echo "pinhead: identity: $*"
    failed=1
}

# Files of the kernel whose text a clone has to replace: ours are shown in their place from the
# start, so that a clone only writes.
dmi=/sys/class/dmi/id/product_uuid
boot=/proc/sys/kernel/random/boot_id
shown=/run/pinhead-identity

show() {
    [ -r "$1" ] || return 0
    read -r text < "$1"
    echo "$text" > "$2"
    mount -o bind "$2" "$1" || fail "$1 cannot be replaced"
}

if [ ! -d $shown ]; then
    mkdir -p $shown
    show $dmi $shown/uuid
    show $boot $shown/boot
    ifconfig lo 127.0.0.1 up || fail "no loopback"
    machine=''
    if [ -r $dmi ]; then
        read -r machine < $dmi
    elif [ -r /proc/sysinfo ]; then
        machine=$(awk '/UUID/ { print $NF }' /proc/sysinfo)
    fi
    [ -z "$machine" ] || echo "$machine" | tr -d - | tr A-F a-f > /etc/machine-id
fi

for word; do
    value=${word#*=}
    case "$word" in
        name=*)
            echo "$value" > /proc/sys/kernel/hostname
            echo "$value" > /etc/hostname
            ;;
        uuid=*) [ ! -e $shown/uuid ] || echo "$value" > $shown/uuid ;;
        machine=*) echo "$value" > /etc/machine-id ;;
        boot=*) echo "$value" > $shown/boot ;;
        mac=*) mac="hw ether $value" ;;
        ip=*)
            # shellcheck disable=SC2086  # They are words.
            ifconfig eth0 $mac "$value" netmask 255.0.0.0 up || fail "eth0 does not take $value"
            route add default gw 10.0.0.2 || fail "no gateway"
            ;;
        clock=*) clock=$value ;;
        seed=*) seed=$value ;;
        *) fail "what is $word" ;;
    esac
done
if [ -n "$seed" ]; then
    pinheadd --reseed --set-clock "$clock" << END || fail "clock and random numbers are another's"
$seed
END
fi
exit $failed
