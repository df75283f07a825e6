# As the official image: at the first start a database and its owner, then the command.
set -eu
if [ "$(id -u)" = 0 ]; then
    chown postgres:postgres "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --clear-groups sh "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    password=$(mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" > "$password"
    initdb --encoding UTF8 --locale C.UTF-8 --username "$POSTGRES_USER" --pwfile "$password" --auth-local trust --auth-host scram-sha-256 "$PGDATA"
    rm "$password"
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    # Nobody can connect from outside before it is done.
    pg_ctl --pgdata "$PGDATA" --wait --options "-c listen_addresses='' -c unix_socket_directories=/tmp" start
    createdb --host /tmp --username "$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --pgdata "$PGDATA" --wait --mode fast stop
fi
exec "$@"
