#!/bin/sh
# Make the database and its password at the first start, then be PostgreSQL.
set -eu
umask 077

data=/storage/data
if [ ! -d "$data" ]; then
    # Renamed when all is done: a start that was cut short begins anew.
    rm -rf "$data.new"
    password=$(od -A n -N 32 -t x1 /dev/urandom | tr -d ' \n')
    initdb --pgdata="$data.new" --encoding=UTF8 --locale=C --auth=reject
    # Over the network one role, with its password; from within nobody but this user.
    cat > "$data.new/pg_hba.conf" <<HBA
local all pcts peer
host optuna optuna all scram-sha-256
HBA
    # The workers' role owns its database and may do nothing else.
    postgres --single -D "$data.new" postgres > /dev/null <<SQL
CREATE ROLE optuna LOGIN PASSWORD '$password'
CREATE DATABASE optuna OWNER optuna
SQL
    echo "*:*:optuna:optuna:$password" > /password/pgpass.new
    mv /password/pgpass.new /password/pgpass
    mv "$data.new" "$data"
fi
if [ ! -f /password/pgpass ]; then
    echo 'The volume with the password is gone, and the one with the study is not.' >&2
    exit 1
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp "$@"
