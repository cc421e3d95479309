#!/usr/bin/env bash
# Restores Firestore into a new database: from a backup, or as it was at a minute of the last seven days. It writes restored.json, with
# which Terraform takes the database over (restored.tf). It changes neither the database in use nor Terraform's state.
#
#   terraform/restore.sh [--backup=BACKUP | --at=TIME] DATABASE PROJECT_ID
#
# BACKUP is a name that `gcloud firestore backups list` prints, and TIME a minute such as 2026-01-31T08:15:00Z. It can be run again, and
# then waits on: it restores nothing into a database that exists, and refuses one of another backup or from before the minute. Without
# --backup and --at it writes restored.json of one that exists.
set -euo pipefail
cd "$(dirname "$0")"

usage() { echo "usage: terraform/restore.sh [--backup=BACKUP | --at=TIME] DATABASE PROJECT_ID" >&2; exit 2; }
fail() { printf '%s\n' "$*" >&2; exit 1; }

backup='' at=''
while [[ ${1:-} == -* ]]; do
	case $1 in
		--backup=?*) backup=${1#*=} ;;
		--at=?*) at=${1#*=} ;;
		*) usage ;;
	esac
	shift
done
[ $# -eq 2 ] || usage
[ -z "$backup" ] || [ -z "$at" ] || usage
database=$1 project=$2

gc() { gcloud --project="$project" --quiet "$@"; }
# shellcheck source=settings.sh
. ./settings.sh

[ -e terraform.tfvars ] || fail "terraform/terraform.tfvars is missing: run terraform/bootstrap.sh $project"
[ "$(setting project_id)" = "$project" ] || fail "terraform/terraform.tfvars is not of $project: see project_id"
used=$(setting database)
used=${used:-agents-$(setting environment)}

if [ -n "$backup$at" ]; then
	[ "$database" != "$used" ] || fail "$database is in use: restore into another database"
	if made=$(gc firestore databases describe --database="$database" 2>/dev/null \
		--format='csv[no-heading](createTime,sourceInfo.backup.backup)'); then
		# It may be of a practice, whose records are older.
		made_at=${made%%,*} made_of=${made##*[,/]}
		other="Restore into another database. To use this one, run this without --backup and --at."
		[ -z "$made_of" ] || [ "$made_of" = "${backup##*/}" ] || fail "$database exists and is of the backup $made_of. $other"
		[ -z "$at" ] || [[ $made_at > $at ]] || fail "$database exists and was made at $made_at, before $at. $other"
		echo "$database exists and is not restored again"
	elif [ -n "$backup" ]; then
		gc firestore databases restore --source-backup="$backup" --destination-database="$database"
	else
		gc firestore databases clone --source-database="projects/$project/databases/$used" --snapshot-time="$at" \
			--destination-database="$database" || fail "If this gcloud has no databases clone, run: gcloud components update"
	fi
fi

# A database cannot be read until its restore is done. The operations are name,done,error.
while :; do
	operations=$(gc firestore operations list --database="$database" --format='csv[no-heading](name.basename(),done,error.message)')
	failed=$(awk -F, '$3 != ""' <<<"$operations")
	[ -z "$failed" ] || [ -z "$backup$at" ] || fail "the restore failed: $failed"
	grep -Eqv '^[^,]*,[Tt]rue,|^$' <<<"$operations" || break
	echo "$database is being restored"
	sleep 30
done

indexes=$(gc firestore indexes composite list --database="$database" --format='json(name,queryScope,fields)')
fields=$(gc firestore indexes fields list --database="$database" --format='json(name)')
schedules=$(gc firestore backups schedules list --database="$database" --format='json(name,dailyRecurrence,weeklyRecurrence)')
printf '{\n"database": "%s",\n"indexes": %s,\n"fields": %s,\n"schedules": %s\n}\n' \
	"$database" "${indexes:-[]}" "${fields:-[]}" "${schedules:-[]}" >restored.json.new
mv restored.json.new restored.json
echo "terraform/restored.json has what Terraform takes over. The section Restore of terraform/README.md has the next steps."
