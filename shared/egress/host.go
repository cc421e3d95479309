package egress

import (
	"errors"
	"net/netip"
	"strings"
)

const (
	maxHostBytes  = 253
	maxLabelBytes = 63
)

// Errors of CanonicalHost.
var (
	errNoDot    = errors.New("must be a full name with a dot, such as api.example.com")
	errLongHost = errors.New("must not have more than 253 characters, or 63 between two dots")
	errLabel    = errors.New("must consist of letters, digits and hyphens between dots; write other letters as " +
		"Punycode, such as xn--bcher-kva.example")
	errAddress = errors.New("must be a name, not an address")
)

// CanonicalHost returns a name in the form in which rules are compared: in lower case, without the dot at the end. It
// refuses what names no host of the internet, such as addresses in any notation.
func CanonicalHost(host string) (string, error) {
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxHostBytes {
		return "", errLongHost
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "", errAddress
	}
	last := ""
	labels := 0
	for label := range strings.SplitSeq(host, ".") {
		if err := checkLabel(label); err != nil {
			return "", err
		}
		last = label
		labels++
	}
	if labels < 2 { //nolint:mnd // a name and a domain
		return "", errNoDot
	}
	if last[0] >= '0' && last[0] <= '9' { // programs read such a text as an address, as in 127.1 or 0x7f.0x1
		return "", errAddress
	}
	return strings.ToLower(host), nil
}

// checkLabel admits underscores, which names of hosts should not have and some have.
func checkLabel(label string) error {
	switch {
	case len(label) > maxLabelBytes:
		return errLongHost
	case label == "", label[0] == '-', label[len(label)-1] == '-':
		return errLabel
	}
	for _, c := range []byte(label) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return errLabel
		}
	}
	return nil
}
