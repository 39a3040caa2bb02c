#!/bin/sh
# Starts the daemon with the guest's arguments: those of /etc/pinheadd.args, or those of the kernel
# command line, where commas stand for the spaces that it cannot hold.

args=
if [ -r /etc/pinheadd.args ]; then
    args=$(cat /etc/pinheadd.args)
else
    # shellcheck disable=SC2013  # Words, not lines, are what a kernel command line is made of.
    for word in $(cat /proc/cmdline); do
        case "$word" in
            pinhead.args=*) args=$(echo "${word#*=}" | tr , ' ') ;;
        esac
    done
fi
# shellcheck disable=SC2086  # The arguments are words.
exec /sbin/pinheadd $args < /dev/null > /dev/console 2>&1
