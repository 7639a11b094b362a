#!/bin/sh
# Brings Temporal's two databases to the schema of this server version; does nothing where they have it.
set -eu

tool="temporal-sql-tool --plugin postgres12 --ep postgres -p 5432 -u temporal"
schemas=/etc/temporal/schema/postgresql/v12

$tool --db temporal setup-schema -v 0.0
$tool --db temporal update-schema -d "$schemas/temporal/versioned"
$tool --db temporal_visibility setup-schema -v 0.0
$tool --db temporal_visibility update-schema -d "$schemas/visibility/versioned"
