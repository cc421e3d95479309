#!/bin/sh
# Starts OpenClaw with the platform's settings of its gateway, and with the agent's config.
set -e
node /opt/agent/configure.mjs
exec openclaw gateway run
