# shellcheck shell=bash
# Reads terraform.tfvars for the other scripts, which source this file.

# setting prints the value of a setting that is a text, if there is one.
setting() {
	local file=${BASH_SOURCE[0]%/*}/terraform.tfvars
	[ ! -e "$file" ] || sed -n "s/^$1[[:space:]]*=[[:space:]]*\"\([^\"]*\)\".*/\1/p" "$file"
}
