#!/usr/bin/env bash
# Applies the objects that every cell has before any agent. OUTPUTS is a file with the output of `terraform output -json`.
#
#   terraform/apply-cells.sh OUTPUTS PROJECT_ID
set -euo pipefail

[ $# -eq 2 ] || { echo "usage: $0 OUTPUTS PROJECT_ID" >&2; exit 2; }
outputs=$1 project=$2
attempts=30 # a new cluster serves Google's custom resources only after some minutes

value() { python3 -c 'import json, sys
v = json.load(open(sys.argv[1]))
for key in sys.argv[2:]: v = v[key]
print("\n".join(v) if isinstance(v, dict) else v)' "$outputs" "$@"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KUBECONFIG=$work/kubeconfig

for cell in $(value clusters value); do
	echo "cell $cell"
	gcloud container clusters get-credentials "$(value clusters value "$cell" name)" \
		--project="$project" --region="$(value clusters value "$cell" region)" --dns-endpoint
	value cell_objects value "$cell" >"$work/$cell.yaml"
	for ((attempt = 1; ; attempt++)); do
		kubectl apply --server-side --force-conflicts --field-manager=deployment -f "$work/$cell.yaml" && break
		[ "$attempt" -lt "$attempts" ] || { echo "cell $cell refused its objects; see the errors above" >&2; exit 1; }
		sleep 20
	done
	for deployment in agent-router agent-notifier; do
		kubectl rollout status --namespace=agent-gateway --timeout=15m "deployment/$deployment"
	done
	kubectl wait --namespace=agent-gateway --for=condition=Programmed --timeout=15m gateway/agents
done
