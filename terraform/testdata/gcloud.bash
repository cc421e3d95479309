# shellcheck shell=bash
# Stands in for Google's command. Scripts read it as their BASH_ENV: a function costs much less than a process.
#
# It records its arguments in $GCLOUD_STATE/calls, remembers what was created and refuses to create it again. Other files in $GCLOUD_STATE
# are answers, or let a build fail.

gcloud() (
	set -u
	{ printf '%s' gcloud; printf ' %q' "$@"; echo; } >>"$GCLOUD_STATE/calls"

	words=()
	for word in "$@"; do [[ $word == -* ]] || words+=("$word"); done
	# flag sets value to the value of a flag.
	flag() {
		local name=$1 argument
		shift
		for argument in "$@"; do [[ $argument != "$name="* ]] || value=${argument#*=}; done
	}
	answer() { [ -e "$GCLOUD_STATE/$1" ] && cat "$GCLOUD_STATE/$1"; }

	# Each line of refusals is a part of a command that fails once.
	if [ -s "$GCLOUD_STATE/refusals" ] && [[ ${words[*]} == *"$(head -1 "$GCLOUD_STATE/refusals")"* ]]; then
		sed -i 1d "$GCLOUD_STATE/refusals"
		exit 1
	fi

	case "${words[*]}" in
		projects\ describe*) echo 123456789012; exit ;;
		compute\ project-info\ describe) answer quotas-project; exit ;;
		compute\ regions\ describe*) answer quotas-region; exit ;;
		beta\ quotas\ info\ list) flag --service "$@"; answer "quotas-$value"; exit ;;
		storage\ cat*) answer "${words[2]##*/}"; exit ;;
		firestore\ databases\ describe) flag --database "$@"; [ -e "$GCLOUD_STATE/database-$value" ]; exit ;;
		firestore\ databases\ restore | firestore\ databases\ clone)
			flag --destination-database "$@"
			: >"$GCLOUD_STATE/database-$value"
			exit
			;;
		# Each line of operations is one answer, and the last one stays.
		firestore\ operations\ list)
			[ ! -s "$GCLOUD_STATE/operations" ] || head -1 "$GCLOUD_STATE/operations"
			[ "$(wc -l <"$GCLOUD_STATE/operations")" -lt 2 ] || sed -i 1d "$GCLOUD_STATE/operations"
			exit
			;;
		firestore\ *\ list) answer "firestore-${words[2]}"; exit ;;
		certificate-manager*) answer certificate; exit ;;
		beta\ builds\ submit*) flag --config "$@"; [ ! -e "$GCLOUD_STATE/fail-${value##*/}" ]; exit ;;
		*identity\ create*) exit ;;
		*versions\ add*) cat >/dev/null; exit ;;
	esac

	for i in "${!words[@]}"; do
		case ${words[i]} in create | describe) ;; *) continue ;; esac
		thing="${words[*]:0:i} ${words[i + 1]:-}"
		file=${thing//@project-1.iam.gserviceaccount.com/}
		file=$GCLOUD_STATE/${file//[ \/:@.]/_}
		case ${words[i]} in
			create)
				[ ! -e "$file" ] || { echo "$thing exists" >&2; exit 1; }
				: >"$file"
				exit
				;;
			describe) [ -e "$file" ]; exit ;;
		esac
	done
)
