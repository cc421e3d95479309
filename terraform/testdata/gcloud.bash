# shellcheck shell=bash
# Stands in for Google's command. Scripts read it as their BASH_ENV: a function costs much less than a process. It starts few others.
#
# It records its arguments in $GCLOUD_STATE/calls, remembers what was created and refuses to create it again. Other files in $GCLOUD_STATE
# are answers, or let a build fail.

gcloud() {
	local words=() word value i thing file build pairs generation refusal=
	{ printf '%s' gcloud; printf ' %q' "$@"; echo; } >>"$GCLOUD_STATE/calls"

	for word in "$@"; do [[ $word == -?* ]] || words+=("$word"); done
	# flag sets value to the value of a flag.
	flag() {
		local name=$1 argument
		shift
		for argument in "$@"; do [[ $argument != "$name="* ]] || value=${argument#*=}; done
	}
	answer() {
		local content
		[ -e "$GCLOUD_STATE/$1" ] || return
		IFS= read -r -d '' content <"$GCLOUD_STATE/$1" || printf %s "$content" # it ends with the file
	}
	# copy copies files and objects. An object has a generation, which a copy to it may require. 0 is that of no object.
	copy() {
		local value=any last=$((${#words[@]} - 1)) from to file generation sources=()
		flag --if-generation-match "$@"
		for from in "${words[@]:2:last-2}"; do
			case $from in /*'*') from=("${from%'*'}"*) ;; esac
			sources+=("${from[@]}")
		done
		for from in "${sources[@]}"; do
			to=${words[last]}
			if [ -d "$from" ]; then
				[[ " $* " == *" --no-clobber "* ]] || continue # folders are published, and nothing else needs them
				for file in "$from"/*; do
					file=${file##*/}
					[ -e "$GCLOUD_STATE/objects/${to#gs://}${from##*/}/$file" ] && continue
					mkdir -p "$GCLOUD_STATE/objects/${to#gs://}${from##*/}"
					cp "$from/$file" "$GCLOUD_STATE/objects/${to#gs://}${from##*/}/$file"
				done
				continue
			fi
			[[ $to != */ && $to != . ]] || to=${to%/}/${from##*/}
			if [[ $from == gs://* ]]; then
				cp "$GCLOUD_STATE/objects/${from#gs://}" "$to" || return
				continue
			fi
			to=${to#gs://}
			generation=$(answer "generations/$to" || echo 0)
			[ "$value" = any ] || [ "$value" = "$generation" ] || { echo "HTTPError 412: the generation is $generation" >&2; return 1; }
			[ -d "$GCLOUD_STATE/generations/${to%/*}" ] || mkdir -p "$GCLOUD_STATE/"{objects,generations}"/${to%/*}"
			cat "$from" >"$GCLOUD_STATE/objects/$to" && echo $((generation + 1)) >"$GCLOUD_STATE/generations/$to"
		done
	}

	# Each line of refusals is a part of a command that fails once. Commands run in parallel: the file may be empty by the time it is read.
	[ ! -s "$GCLOUD_STATE/refusals" ] || read -r refusal <"$GCLOUD_STATE/refusals" || true
	if [[ -n $refusal && ${words[*]} == *"$refusal"* ]]; then
		sed -i 1d "$GCLOUD_STATE/refusals"
		return 1
	fi

	case "${words[*]}" in
		projects\ describe*) echo 123456789012; return ;;
		compute\ project-info\ describe) answer quotas-project; return ;;
		compute\ regions\ describe*) answer quotas-region; return ;;
		beta\ quotas\ info\ list) flag --service "$@"; answer "quotas-$value"; return ;;
		# The present generation has no time at which it was replaced.
		storage\ objects\ list*)
			generation=$(answer "generations/${words[3]#gs://}") || return 0
			[ "$generation" -lt 2 ] || echo "$((generation - 1)),2026-01-01T00:00:00+0000"
			echo "$generation,"
			return
			;;
		storage\ objects\ describe*) answer "generations/${words[3]#gs://}"; return ;;
		storage\ cp*) copy "$@"; return ;;
		storage\ ls\ *)
			for file in "$GCLOUD_STATE/objects/${words[2]#gs://}"* "$GCLOUD_STATE/objects/${words[2]#gs://}".[!.]*; do
				[ ! -e "$file" ] || echo "gs://${file#"$GCLOUD_STATE/objects/"}"
			done
			return
			;;
		storage\ cat*) answer "objects/${words[2]#gs://}" || answer "${words[2]##*/}"; return ;;
		org-policies\ describe*) answer "policy-${words[2]}"; return 0 ;;
		firestore\ databases\ describe) flag --database "$@"; answer "database-$value"; return ;;
		# The answer is when the database was made, and its backup.
		firestore\ databases\ restore | firestore\ databases\ clone)
			flag --destination-database "$@"
			file=$GCLOUD_STATE/database-$value value=
			flag --source-backup "$@"
			echo "2026-02-01T00:00:00.123456Z,${value:+projects/project-1/locations/eur3/backups/$value}" >"$file"
			return
			;;
		# Each line of ongoing is one answer.
		builds\ list)
			[ ! -s "$GCLOUD_STATE/ongoing" ] || { head -1 "$GCLOUD_STATE/ongoing" && sed -i 1d "$GCLOUD_STATE/ongoing"; }
			return
			;;
		# Each line of operations is one answer, and the last one stays.
		firestore\ operations\ list)
			[ ! -s "$GCLOUD_STATE/operations" ] || head -1 "$GCLOUD_STATE/operations"
			[ "$(wc -l <"$GCLOUD_STATE/operations")" -lt 2 ] || sed -i 1d "$GCLOUD_STATE/operations"
			return
			;;
		firestore\ *\ list) answer "firestore-${words[2]}"; return ;;
		certificate-manager*) answer certificate; return ;;
		beta\ builds\ submit*)
			flag --config "$@"
			[ ! -e "$GCLOUD_STATE/fail-${value##*/}" ] || return 1
			[ ! -e "$GCLOUD_STATE/build-${value##*/}" ] || {
				build=$GCLOUD_STATE/build-${value##*/}
				flag --substitutions "$@"
				IFS=, read -ra pairs <<<"$value"
				env "${pairs[@]}" "$build"
			}
			return
			;;
		run\ revisions\ describe*)
			[ ! -e "$GCLOUD_STATE/gone-${words[3]}" ] || { echo "ERROR: Cannot find revision [${words[3]}]" >&2; return 1; }
			echo "${words[3]}"
			return
			;;
		run\ services\ update-traffic*)
			flag --to-revisions "$@"
			echo "${value%=100}" >"$GCLOUD_STATE/traffic-${words[3]}"
			# Another deployment directs the traffic at the same time.
			mv "$GCLOUD_STATE/directed" "$GCLOUD_STATE/objects/state/releases/serving" 2>/dev/null || true
			return
			;;
		*identity\ create*) return ;;
		secrets\ versions\ list*) answer "versions-${words[3]}"; return 0 ;;
		*versions\ add*) cat >/dev/null; echo 1 >"$GCLOUD_STATE/versions-${words[3]}"; return ;;
	esac

	for i in "${!words[@]}"; do
		case ${words[i]} in create | describe) ;; *) continue ;; esac
		thing="${words[*]:0:i} ${words[i + 1]:-}"
		file=${thing//@project-1.iam.gserviceaccount.com/}
		file=$GCLOUD_STATE/${file//[ \/:@.]/_}
		case ${words[i]} in
			create)
				[ ! -e "$file" ] || { echo "$thing exists" >&2; return 1; }
				: >"$file"
				return
				;;
			describe) answer "${file##*/}"; return ;;
		esac
	done
}

