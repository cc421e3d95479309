#!/usr/bin/env bash
# Compares the project's quotas with quotas.csv and says which ones to raise. It changes nothing. It fails if a quota is too small. What
# only a domain needs counts once terraform.tfvars names one. With --free, what is in use already does not count as available. If CELLS_PROJECT
# or terraform.tfvars names a project of the cells, each of the two projects is compared with what it gets. Each cell in
# terraform.tfvars counts, in its region; without cells there, the one that Terraform makes then does; without the file, one in REGION.
#
#   terraform/quotas.sh [--free] PROJECT_ID [REGION]
set -euo pipefail
cd "$(dirname "$0")"

free=
[ "${1:-}" != --free ] || { free=1; shift; }
[ $# -ge 1 ] || { echo "usage: $0 [--free] PROJECT_ID [REGION]" >&2; exit 2; }
project=$1 region=${2:-us-central1}

# shellcheck source=settings.sh
. ./settings.sh
domain=$(setting domain)
cells=${CELLS_PROJECT:-$(setting cells_project)}

# cell_regions prints the region of each cell in terraform.tfvars. A region must be written there as a text. Settings of former releases have
# no cells: the default is in variables_cells.tf.
cell_regions() {
	[ ! -e terraform.tfvars ] || awk '
		{ sub(/(#|\/\/).*/, "") }
		!found && /^[[:space:]]*cells[[:space:]]*=/ { found = 1 }
		found {
			text = text "\n" $0
			depth += gsub(/[{]/, "{") - gsub(/[}]/, "}")
			if (depth == 0 && index(text, "}")) exit
		}
		END {
			if (!found) {
				print "us-central1"
				exit
			}
			while (match(text, /[^a-z_]region"?[[:space:]]*[=:][[:space:]]*"[^"]+"/)) {
				value = substr(text, RSTART, RLENGTH)
				text = substr(text, RSTART + RLENGTH)
				sub(/"$/, "", value)
				sub(/.*"/, "", value)
				print value
				some = 1
			}
			if (!some) print "terraform.tfvars has cells and no region of one could be read: one cell is assumed" >"/dev/stderr"
		}' terraform.tfvars
}
regions_of_cells=$(cell_regions)
regions_of_cells=${regions_of_cells:-$region}

gc() { gcloud --project="$project" --quiet "$@"; }

# A line is service,metric,scope,limit,usage. The values of Compute Engine have a usage, the others have none.
compute() {
	local scope=$1
	shift
	gc compute "$@" --flatten='quotas[]' --format='csv[no-heading](quotas.metric,quotas.limit,quotas.usage)' |
		awk -F, -v OFS=, -v scope="$scope" 'NF == 3 { print "compute.googleapis.com", $1, scope, $2, $3 }'
}
# A value applies to some regions or to the whole project, and -1 is no limit.
others() {
	gc beta quotas info list --service="$1" --flatten='dimensionsInfos[]' \
		--format='csv[no-heading](metric,dimensionsInfos.applicableLocations.list(separator=" "),dimensionsInfos.details.value)' |
		awk -F, -v OFS=, -v service="$1" -v region="$region" '
			$3 == "-1" { $3 = "1e18" }
			(" " $2 " ") ~ (" " region " ") { print service, $1, "region", $3, 0 }
			(" " $2 " ") ~ " global " { print service, $1, "project", $3, 0 }'
}

# An API that was enabled a moment ago refuses calls for a minute or two.
retry() {
	local try
	for try in 1 2 3 4 5 6 7 8; do
		"$@" && return
		[ "$try" -lt 8 ] || return 1
		sleep 15
	done
}

found=$(mktemp)
trap 'rm -f "$found"' EXIT

# compare compares the quotas of a project with what one place needs: services, cells, or all. The other regions of cells need only what
# cells do.
compare() {
	local project=$1 place=$2 service other short=''
	retry compute project project-info describe >"$found" && retry compute region regions describe "$region" >>"$found" || return 1
	for service in run.googleapis.com iam.googleapis.com; do
		[ "$service $place" != "run.googleapis.com cells" ] || continue
		others "$service" >>"$found" || echo "the quotas of $service could not be read" >&2
	done
	report "$project" "$place" "$region" || short=1
	for other in $([ "$place" = services ] || sort -u <<<"$regions_of_cells" | grep -vx "$region"); do
		retry compute region regions describe "$other" >"$found" && report "$project" cells "$other" || short=1
	done
	[ -z "$short" ]
}

# report compares what was found. The columns have the needs of one cell. Among several values for a quota the smallest one counts.
report() {
	awk -F, -v free="$free" -v domain="$domain" -v project="$1" -v place="$2" -v region="$3" -v other="$([ "$3" = "$region" ] || echo 1)" \
		-v cells="$(wc -l <<<"$regions_of_cells")" -v here="$(grep -cx "$3" <<<"$regions_of_cells")" '
		FNR == NR {
			key = $1 "," $2 "," $3
			value = $4 - (free ? $5 : 0)
			if (!(key in has) || value < has[key]) has[key] = value
			next
		}
		other && ($3 != "region" || $9 == 0) { next }
		FNR > 1 && (place == "all" || $8 == "both" || $8 == place) {
			key = $1 "," $2 "," $3
			further = (($3 == "region" ? here : cells) - 1) * $9
			with_domain = other ? here * $9 : $5 + further
			need = other || domain != "" ? with_domain : $4 + further
			where = $3 == "region" ? region : "global"
			if (!(key in has)) {
				print "  unknown: " $2 " (" where "), needs " need ": " $7
			} else if (has[key] < need) {
				short++
				print "  RAISE " $2 " of " $1 " (" where ") from " has[key] " to " need ": " $7
			} else if (has[key] < with_domain) {
				print "  for a domain, raise " $2 " of " $1 " (" where ") from " has[key] " to " with_domain ": " $7
			} else {
				print "  ok: " $2 " (" where ") has " (has[key] > 1e15 ? "no limit" : has[key]) ", needs " need
			}
		}
		END {
			if (!short) exit 0
			print "Request higher quotas at https://console.cloud.google.com/iam-admin/quotas?project=" project " (filter by the name)."
			exit 1
		}' "$found" quotas.csv
}

if [ -z "$cells" ]; then
	compare "$project" all
	exit
fi
short=
echo "  project $project:"
compare "$project" services || short=1
echo "  project $cells:"
compare "$cells" cells || short=1
[ -z "$short" ]
