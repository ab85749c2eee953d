#!/bin/bash
# Builds target/otlp-collector: the OTLP receiver of the OpenTelemetry collector, which prints what it gets. The tests of
# telemetry use it if it is there. Needs Go, and minutes the first time.
set -eu
cd "$(dirname "$0")"
exec go build -p "${JOBS:-2}" -o ../../target/otlp-collector .
