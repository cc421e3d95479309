#!/bin/sh
# Plans and applies, in the second build of a deployment. WORKSPACE has what the build's first steps wrote:
#
#   former.json  the outputs of the former deployment
#   serving      the revision of each service that keeps the traffic until the new one is tested, as JSON
#   allowed      addresses that may be destroyed or replaced, one in a line; PREFIX* stands for all that begin with it
#
# At the end it writes applied. The build goes on if it fails, because the traffic may need a repair (serve.sh).
#
#   RELEASE=... terraform/apply.sh WORKSPACE
#
# A right takes effect some minutes after its grant. What needs it earlier fails, and the next attempt applies what is left.
set -eu
workspace=$1
cd "$(dirname "$0")"
TF_VAR_serving=$(cat "$workspace/serving")
export TF_VAR_serving

# destroyed prints what the plan destroys or replaces. What is tainted never came to be: its creation failed. Terraform itself reads its
# plan, because its image has no other program that knows JSON. It fails if it cannot. A text of several lines is printed without quotes.
destroyed() {
	rm -rf "$workspace/plan.d"
	mkdir "$workspace/plan.d"
	terraform show -json "$workspace/plan" >"$workspace/plan.d/plan.json"
	(cd "$workspace/plan.d" && terraform console) >"$workspace/destroyed" <<'EXPRESSION'
join("\n", concat(["", ""], [for r in lookup(jsondecode(file("plan.json")), "resource_changes", []) : r.address if contains(r.change.actions, "delete") && try(r.action_reason, "") != "replace_because_tainted"]))
EXPRESSION
	rm -rf "$workspace/plan.d"
	sed '/^<<EOT$/d; /^EOT$/d; /^$/d' "$workspace/destroyed"
}

# allowed reports whether an address was named.
allowed() {
	while read -r pattern; do
		[ "$pattern" != "$1" ] || return 0
		case $pattern in
			*'*') case $1 in "${pattern%'*'}"*) return 0 ;; esac ;;
		esac
	done <"$workspace/allowed"
	return 1
}

# check ends the build if the plan destroys or replaces what was not named.
check() {
	destroyed >"$workspace/addresses"
	: >"$workspace/refused"
	while read -r address; do
		allowed "$address" || echo "$address" >>"$workspace/refused"
	done <"$workspace/addresses"
	[ -s "$workspace/refused" ] || return 0
	echo "This deployment would destroy or replace what these options name. If that is wanted, deploy this image with them:" >&2
	echo "  --image=${TF_VAR_image:?}" >&2
	sed "s/.*/  --allow='&'/" "$workspace/refused" >&2
	exit 1
}

terraform init -lockfile=readonly

# A new cell has no Gateway and no certificate for a while. Agents must not be placed in it before its canary answers.
# Warnings come before the value, such as those about settings that another release has.
terraform console >"$workspace/unproven" <<EXPRESSION
[for former in [try(jsondecode(file("$workspace/former.json")).clusters.value, {})] : join(" ", [for name, c in var.cells : name if length(former) > 0 && !c.closed && !contains(keys(former), name)])][0]
EXPRESSION
unproven=$(tail -n 1 "$workspace/unproven")
[ "$unproven" = '""' ] || {
	echo "These cells are new: $unproven. Set closed = true for them, deploy, and open them when their canaries answer." >&2
	exit 1
}

attempt=1
while :; do
	# A revision that did not start keeps its name, so each attempt has another one.
	export TF_VAR_release="$RELEASE-$attempt"
	if terraform plan -out="$workspace/plan"; then
		check
		if terraform apply "$workspace/plan"; then break; fi
	fi
	[ "$attempt" -lt 3 ] || exit 1
	attempt=$((attempt + 1))
	echo "attempt $attempt of 3 begins in two minutes"
	sleep 120
done

terraform output -json >"$workspace/outputs.json"
mkdir "$workspace/release"
terraform output -raw next >"$workspace/release/next"
terraform output -raw revisions >"$workspace/release/revisions"
for name in base_url api_address api_certificate candidate_url maintenance; do
	value=$(terraform output -raw "$name")
	echo "$name $value"
done >"$workspace/release/deployment"
: >"$workspace/applied"
