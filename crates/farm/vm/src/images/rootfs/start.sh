#!/bin/sh
# Starts the services of a guest with a disk, and returns when every service accepts connections.
# Settings on the kernel's command line:
#   pinhead.services=a,b    services to start: nginx, app, postgres (default: all in the image)
#   pinhead.app=HOST:PORT   address of the application server, for nginx
#   pinhead.db=HOST:PORT    address of the database, for the application server
#   pinhead.heap_mib=N      heap of the application server
#   pinhead.threads=N       number of requests that the application server handles at once
#   pinhead.shared_mib=N    shared buffers of PostgreSQL
set -u

export PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/pinhead/bin LC_ALL=C
lib=/usr/lib/pinhead
read -r services < $lib/services
app=127.0.0.1:8000 db=127.0.0.1:5432 heap_mib=16 threads=4 shared_mib=16
# shellcheck disable=SC2013  # A kernel command line consists of words, not of lines.
for word in $(cat /proc/cmdline); do
    value=${word#*=}
    case "$word" in
        pinhead.services=*) services=$value ;;
        pinhead.app=*) app=$value ;;
        pinhead.db=*) db=$value ;;
        pinhead.heap_mib=*) heap_mib=$value ;;
        pinhead.threads=*) threads=$value ;;
        pinhead.shared_mib=*) shared_mib=$value ;;
    esac
done
# wanted SERVICE PROGRAM: succeeds if this guest should run SERVICE and its image has PROGRAM.
wanted() {
    case ",$services," in
        *",$1,"*) ;;
        *) return 1 ;;
    esac
    [ -x "$2" ] || { echo "pinhead: this image has no $1"; return 1; }
}
# failed SERVICE LOG: reports the end of LOG.
failed() {
    echo "pinhead: $1 does not start:"
    tail -n 5 "$2"
}
logs=/run/pinhead

busybox ifconfig lo 127.0.0.1 up
mkdir -p $logs

if wanted postgres $lib/postgres-bin/pg_ctl; then
    data=/var/lib/postgresql/pinhead
    # A killed guest leaves this file behind. Another process may now have the process id in it.
    rm -f $data/postmaster.pid
    install -d -o postgres -g postgres /run/postgresql
    install -o postgres -g postgres -m 600 /dev/null $logs/postgres.log
    setpriv --reuid=postgres --regid=postgres --init-groups \
        $lib/postgres-bin/pg_ctl -s -w -t 300 -D $data -l $logs/postgres.log \
        -o "-c shared_buffers=${shared_mib}MB" start || failed postgres $logs/postgres.log
    sh $lib/take-password
fi

if wanted app /usr/bin/uwsgi-core; then
    # A master process would wake up every second to check its workers, so there is none.
    PINHEAD_DB=$db PINHEAD_HEAP_MIB=$heap_mib uwsgi-core --plugin python3 --single-interpreter \
        --http-socket :8000 --listen 128 --chdir $lib --module app --need-app \
        --threads "$threads" --disable-logging --uid www-data --gid www-data \
        --daemonize $logs/app.log
    # The server accepts connections as soon as its port is open, and answers when its heap exists.
    tries=0
    until wget -q -T 120 -O /dev/null http://127.0.0.1:8000/app/heap 2> /dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || { failed app $logs/app.log; break; }
        usleep 100000
    done
fi

if wanted nginx /usr/sbin/nginx; then
    mkdir -p $logs/nginx
    sed "s/@APP@/$app/" $lib/nginx.conf > $logs/nginx.conf
    nginx -c $logs/nginx.conf || failed nginx $logs/nginx.log
fi
