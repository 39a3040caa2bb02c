#!/bin/sh
# Gives the servers of this guest the password of their farm's database. The host runs it when it
# has written the file, and the guest's start when PostgreSQL runs: whichever is later finds both.
set -u

file=/run/pinhead/database-password
[ -s $file ] || exit 0
read -r services < /usr/lib/pinhead/services
case ",$services," in
    *,app,*) chown www-data $file ;;
esac
[ -S /run/postgresql/.s.PGSQL.5432 ] || exit 0
# Its words come by standard input: those of a command are for everyone to see.
{
    printf "ALTER ROLE pinhead PASSWORD '"
    tr -d '\n' < $file
    echo "';"
} | setpriv --reuid=postgres --regid=postgres --clear-groups \
    /usr/lib/pinhead/postgres-bin/psql -X -q -v ON_ERROR_STOP=1 -h /run/postgresql postgres
