#!/bin/sh
# Starts the daemon with the arguments in /etc/pinheadd.args, or else with those in `pinhead.args`
# on the kernel's command line. In that word, commas stand for spaces.

args=
if [ -r /etc/pinheadd.args ]; then
    args=$(cat /etc/pinheadd.args)
else
    # shellcheck disable=SC2013  # A kernel command line consists of words, not of lines.
    for word in $(cat /proc/cmdline); do
        case "$word" in
            pinhead.args=*) args=$(echo "${word#*=}" | tr , ' ') ;;
        esac
    done
fi
# shellcheck disable=SC2086  # The arguments are words.
exec /sbin/pinheadd $args < /dev/null > /dev/console 2>&1
