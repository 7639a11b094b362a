#!/bin/sh
# Creates the namespace that Placet and its callers share; does nothing where it exists.
set -eu

until temporal operator cluster health; do
    sleep 2
done
temporal operator namespace describe -n "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create -n "$TEMPORAL_NAMESPACE" --retention 72h
