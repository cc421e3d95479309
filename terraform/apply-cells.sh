#!/usr/bin/env bash
# Applies the objects that every cell has before any agent, and deletes those that only a former release had. OUTPUTS is a file with the output of `terraform output -json`. A release
# whose output names no project for a cluster has its cells in PROJECT_ID.
#
#   terraform/apply-cells.sh OUTPUTS PROJECT_ID
#   terraform/apply-cells.sh --admit=IMAGES OUTPUTS PROJECT_ID SERVING
#
# A cell admits pods of agents only with images that a deployment has; see cell/workload.yaml. With --admit, the script adds those of the
# next deployment, before its services start. IMAGES is a file with the answer of `terraform console` to jsonencode(local.cell_images),
# OUTPUTS is of the former deployment, and SERVING a file with the revisions that have the traffic: after a failed test or a roll-back they
# are of an earlier one. A cell that cannot be reached keeps its images: Terraform may be about to repair it. Until the
# cell's objects are applied, it refuses what the new services write, and they retry.
set -euo pipefail

images='' wanted=2
[[ ${1-} != --admit=?* ]] || { images=${1#*=} wanted=3; shift; }
[ $# -eq "$wanted" ] || { echo "usage: $0 [--admit=IMAGES] OUTPUTS PROJECT_ID [SERVING]" >&2; exit 2; }
outputs=$1 project=$2 serving=${3-}
attempts=30 # a new cluster serves Google's custom resources only after some minutes

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export KUBECONFIG=$work/kubeconfig

# Each line of this file has the name, the cluster, the region and the project of a cell, and whether it is closed. A first apply that failed has kept some outputs,
# and none about clusters that it did not make.
python3 -c 'import json, sys
for name, c in json.load(open(sys.argv[1])).get("clusters", {"value": {}})["value"].items():
	print(name, c["name"], c["region"], c.get("project", sys.argv[2]), c.get("closed", False))' "$outputs" "$project" >"$work/cells"
[ -s "$work/cells" ] || [ -z "$images" ] || { echo "no cell exists yet"; exit 0; }
[ -s "$work/cells" ] || { echo "$outputs names no cell" >&2; exit 1; }

# answers reports whether the API server of a cell answers.
answers() {
	local try
	for try in 1 2 3; do
		connect && kubectl get --raw=/readyz --request-timeout=20s >/dev/null && return
		[ "$try" -eq 3 ] || sleep 20
	done
	return 1
}

connect() { gcloud container clusters get-credentials "$cluster" --project="$place" --region="$region" --dns-endpoint; }

# admitted prints what the cell's record of images is to have: the present images of the deployment as the previous ones, and the next ones.
# A deployment that failed leaves its images among the next ones, because its services may run. Deploying twice keeps the previous ones, and
# so does a deployment while those serve.
admitted() { python3 -c 'import json, sys
new = json.loads(json.load(open(sys.argv[1]))).get(sys.argv[2], [])
made = json.loads(json.load(open(sys.argv[3])).get("revisions", {}).get("value", "{}"))
serving = json.load(open(sys.argv[4]))
earlier = any(serving.get(service, revision) != revision for service, revision in made.items())
data = json.loads(sys.stdin.read() or "{}").get("data", {})
deployed = data.get("deployed", "")
previous = data.get("previous", "")
if set(deployed.split()) != set(new):
	previous = " ".join(dict.fromkeys((previous.split() if earlier else []) + deployed.split()))
print(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "agent-images", "namespace": "agent-gateway"},
	"data": {"previous": previous, "next": " ".join(dict.fromkeys(data.get("next", "").split() + new))}}))' "$images" "$1" "$outputs" "$serving"; }

admit() {
	connect && kubectl get configmap agent-images --namespace=agent-gateway --ignore-not-found --output=json >"$work/images" &&
		admitted "$1" <"$work/images" >"$work/admitted" &&
		kubectl apply --server-side --force-conflicts --field-manager=release -f "$work/admitted"
}

if [ -n "$images" ]; then
	while read -r -u 3 cell cluster region place _; do
		echo "cell $cell"
		admit "$cell" || echo "cell $cell admits the next images only with its objects" >&2
	done 3<"$work/cells"
	exit 0
fi

# identities prints a line for each object: its kind with version and group, its name, and its namespace.
identities() { kubectl create --dry-run=client --validate=false --output=json -f "$1" | python3 -c 'import json, sys
text, decoder = sys.stdin.read().strip(), json.JSONDecoder()
while text:
	o, end = decoder.raw_decode(text)
	group, _, version = o["apiVersion"].rpartition("/")
	print(o["kind"] + "." + version + "." + group, o["metadata"]["name"], o["metadata"].get("namespace", ""))
	text = text[end:].strip()' | sort -u; }

# remember keeps the list of what the deployments have applied in the cell.
remember() {
	kubectl create configmap deployed-objects --namespace=agent-gateway --from-file=objects="$1" --dry-run=client --output=json |
		kubectl apply --server-side --force-conflicts --field-manager=deployment -f -
}

# look lists what the cell may have and what this release has. The list in the cell has both until the rest is deleted, so that a
# deployment that ends half-way forgets none.
look() {
	local namespace
	kubectl get configmap deployed-objects --namespace=agent-gateway --ignore-not-found --output='jsonpath={.data.objects}' >"$work/former" &&
		identities "$1" >"$work/present" || return
	sort -u "$work/former" "$work/present" >"$work/both"
	# The namespace of the list is one of the objects, so a new cell lacks it.
	namespace=$(kubectl get namespace agent-gateway --ignore-not-found --output=name) || return
	[ -n "$namespace" ] || kubectl create namespace agent-gateway || return
	remember "$work/both" || return
	touch "$work/looked"
}

# tidy deletes what only former releases have, such as a policy that refuses what this release writes. Namespaces stay: they may have what
# nothing can restore.
tidy() {
	sort -u "$work/former" | comm -23 - "$work/present" >"$work/left"
	while read -r kind name namespace; do
		if [ "${kind%%.*}" = Namespace ]; then
			echo "the namespace $name is of a former release and stays: delete it by hand if nothing in it is needed"
			continue
		fi
		kubectl delete "$kind" "$name" ${namespace:+"--namespace=$namespace"} --ignore-not-found || return
	done <"$work/left"
	remember "$work/present"
}

# leave reports a cell that keeps its objects: here, and to deploy.sh, which prints at its end what is left to do.
leave() {
	local text="cell $cell is closed and does not answer, so it keeps its objects: deploy again once it does" next
	next=$(dirname "$outputs")/release/next
	echo "$text" >&2
	[ ! -e "$next" ] || echo "The $text." >>"$next"
}

# A region may be down: then its cells are closed, so that no agent is placed there, and the deployment that closes them must not wait.
while read -r -u 3 cell cluster region place closed; do
	echo "cell $cell"
	if [ "$closed" = True ]; then
		answers || { leave; continue; }
	else
		connect
	fi
	python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["cell_objects"]["value"][sys.argv[2]])' "$outputs" "$cell" >"$work/$cell.yaml"
	rm -f "$work/looked"
	for ((attempt = 1; ; attempt++)); do
		{ [ -e "$work/looked" ] || look "$work/$cell.yaml"; } &&
			kubectl apply --server-side --force-conflicts --field-manager=deployment -f "$work/$cell.yaml" && tidy && break
		[ "$attempt" -lt "$attempts" ] || { echo "cell $cell refused its objects; see the errors above" >&2; exit 1; }
		sleep 20
	done
	kubectl patch configmap agent-images --namespace=agent-gateway --type=merge --field-manager=release --patch='{"data":{"next":""}}'
	for deployment in agent-router agent-notifier agent-gate; do
		kubectl rollout status --namespace=agent-gateway --timeout=15m "deployment/$deployment"
	done
	kubectl wait --namespace=agent-gateway --for=condition=Programmed --timeout=15m gateway/agents
done 3<"$work/cells"
