#!/bin/sh
# Gives the servers of this guest the password of their farm's database. The host runs this script
# after it has written the file, and start.sh runs it once PostgreSQL runs. The later run finds the
# file and PostgreSQL.
set -u

file=/run/pinhead/database-password
[ -s $file ] || exit 0
read -r services < /usr/lib/pinhead/services
case ",$services," in
    *,app,*) chown www-data $file ;;
esac
[ -S /run/postgresql/.s.PGSQL.5432 ] || exit 0
# The SQL is passed by standard input, because all users can see the arguments of a command.
{
    printf "ALTER ROLE pinhead PASSWORD '"
    tr -d '\n' < $file
    echo "';"
} | setpriv --reuid=postgres --regid=postgres --clear-groups \
    /usr/lib/pinhead/postgres-bin/psql -X -q -v ON_ERROR_STOP=1 -h /run/postgresql postgres
