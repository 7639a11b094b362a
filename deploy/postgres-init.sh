#!/bin/sh
# Runs once, on an empty volume: a role and a database for Placet, and others for Temporal; neither can read the other's.
set -eu

psql --quiet --no-psqlrc -v ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\getenv placet POSTGRES_PLACET_PASSWORD
\getenv temporal POSTGRES_TEMPORAL_PASSWORD
CREATE ROLE placet LOGIN PASSWORD :'placet';
CREATE ROLE temporal LOGIN PASSWORD :'temporal';
CREATE DATABASE placet OWNER placet;
CREATE DATABASE temporal OWNER temporal;
CREATE DATABASE temporal_visibility OWNER temporal;
REVOKE CONNECT, TEMPORARY ON DATABASE placet, temporal, temporal_visibility FROM PUBLIC;
SQL
