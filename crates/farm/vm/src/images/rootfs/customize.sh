#!/bin/sh
# Adds pinhead's servers to a new Debian root file system, as the last step of the image's build.
# customize.sh ROOT FILES SERVICES: FILES is a directory with the files for /usr/lib/pinhead.
# SERVICES are the names of the services that the image starts.
set -eu

root=$1 files=$2 services=$3
lib=$root/usr/lib/pinhead
has() { case ",$services," in *",$1,"*) ;; *) return 1 ;; esac }

mkdir -p "$lib/bin"
cp "$files"/* "$lib/"
chmod 755 "$lib/start"
echo "$services" > "$lib/services"
# Busybox has commands that Debian lacks, such as usleep. These commands are last in the PATH.
chroot "$root" busybox --install -s /usr/lib/pinhead/bin
printf '127.0.0.1 localhost\n' > "$root/etc/hosts"
# Each guest gets its own identity, so the image must not contain one.
: > "$root/etc/machine-id"
rm -f "$root/var/lib/dbus/machine-id" "$root"/etc/ssh/ssh_host_*

if has nginx; then
    www=$root/var/www/pinhead
    mkdir -p "$www"
    # The published study's pages had 27 KB. Each page contains its number, so no two are equal.
    page=0
    while [ $page -lt 64 ]; do
        awk -v page=$page 'BEGIN {
            text = "<!DOCTYPE html><title>Page " page "</title>\n"
            while (length(text) < 27 * 1024) text = text "<p>Page " page " of a pinhead guest</p>\n"
            printf "%s", substr(text, 1, 27 * 1024)
        }' > "$www/page$page.html"
        page=$((page + 1))
    done
    cp "$www/page0.html" "$www/index.html"
fi

if has app; then
    chroot "$root" python3 -m compileall -q /usr/lib/pinhead
fi

if has postgres; then
    bin=$(echo "$root"/usr/lib/postgresql/*/bin)
    bin=${bin#"$root"}
    ln -sfn "$bin" "$lib/postgres-bin"
    data=/var/lib/postgresql/pinhead
    as_postgres() { chroot "$root" setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
    chroot "$root" install -d -o postgres -g postgres -m 700 "$data"
    as_postgres "$bin/initdb" -D "$data" --auth=trust --encoding=UTF8 --locale=C --no-sync \
        --wal-segsize=4 > /dev/null
    cat "$lib/postgres.conf" >> "$root$data/postgresql.conf"
    # The build has no shared memory of its own, and its network is not meant for the database.
    as_postgres "$bin/pg_ctl" -s -w -D "$data" -l /dev/null -o "-c listen_addresses='' \
        -c unix_socket_directories=$data -c dynamic_shared_memory_type=mmap -c fsync=off" start
    as_postgres "$bin/createuser" -h "$data" --no-superuser --no-createrole pinhead
    as_postgres "$bin/createdb" -h "$data" -O pinhead pinhead
    as_postgres "$bin/pgbench" -h "$data" -U pinhead -q -i -s 2 pinhead 2> /dev/null
    large=
    if ! has app; then
        # The table has 234 MiB, two rows in a page, and does not fit into a small guest's memory.
        # Rows that are frozen when they are inserted need no vacuum, and reads do not change them.
        large="-t statements"
        lines="string_agg(encode(sha512((aid || ' ' || n)::bytea), 'hex'), '')"
        as_postgres "$bin/psql" -h "$data" -d pinhead -q -c "COPY (SELECT aid, (SELECT $lines \
            FROM generate_series(1, 31) n) FROM generate_series(1, 60000) aid) TO STDOUT" \
            > "$root/statements"
        as_postgres "$bin/psql" -h "$data" -U pinhead -d pinhead -q -1 \
            -c "CREATE TABLE statements (aid int PRIMARY KEY, lines text NOT NULL)" \
            -c "ALTER TABLE statements ALTER lines SET STORAGE PLAIN" \
            -c "COPY statements FROM STDIN WITH (FREEZE)" < "$root/statements"
        rm "$root/statements"
    fi
    # pgbench reports its inserted rows only after its own vacuum. Without a second vacuum here,
    # every guest would vacuum the rows in its first ten minutes: 4 to 17 s under emulation.
    # shellcheck disable=SC2086  # $large is two words, or none.
    as_postgres "$bin/vacuumdb" -h "$data" -U pinhead -q --analyze -t pgbench_accounts $large \
        pinhead
    as_postgres "$bin/pg_ctl" -s -w -m fast -D "$data" stop
    # Until now, only the build could connect to the database.
    cat "$lib/pg_hba.conf" > "$root$data/pg_hba.conf"
fi

# A guest does not need the build's package sources and name servers.
rm -rf "$root"/etc/apt/sources.list* "$root/etc/resolv.conf"
# A guest does not need lists of packages, cached packages and old logs.
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
    "$root"/var/cache/debconf/*-old "$root"/var/lib/dpkg/*-old
