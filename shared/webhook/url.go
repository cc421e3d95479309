package webhook

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"agents.example/controlplane/shared/fault"
)

// MaxURLBytes bounds the URL of a webhook.
const MaxURLBytes = 2048

// URLPolicy says which URLs webhooks may have. It checks what a URL says, not the addresses that its host has: those
// are checked at every connection.
type URLPolicy struct {
	// AllowLoopback also allows receivers on the machine itself, and plain HTTP to them. It is for local development.
	AllowLoopback bool
}

// Violations checks the body of a request with a url.
func (p URLPolicy) Violations(body map[string]any) []fault.Violation {
	raw, ok := body["url"].(string)
	if !ok {
		return nil // the schema reports it
	}
	why := p.Violation(raw)
	if why == "" {
		return nil
	}
	return []fault.Violation{fault.ValueError([]any{"body", "url"}, why)}
}

// Violation returns why a webhook may not have a URL, or "" if it may.
func (p URLPolicy) Violation(raw string) string {
	u, why := parseURL(raw)
	if why != "" {
		return why
	}
	if p.AllowLoopback && isLoopback(u.Hostname()) {
		if u.Scheme != "https" && u.Scheme != "http" {
			return "the URL must begin with https:// or http://"
		}
		return ""
	}
	switch {
	case u.Scheme != "https":
		return "the URL must begin with https://"
	case !validPort(u.Port(), strings.HasSuffix(u.Host, ":")):
		return "the port must be 443, or from 1024 to 65535"
	default:
		return hostViolation(u.Hostname())
	}
}

// parseURL parses a URL, and refuses what could make two parsers read different hosts in it.
func parseURL(raw string) (u *url.URL, why string) {
	if len(raw) > MaxURLBytes {
		return nil, "the URL must not exceed " + strconv.Itoa(MaxURLBytes) + " bytes"
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return nil, "the URL must consist of printable ASCII characters without spaces and backslashes; " +
			"write international names in their ASCII form (xn--...)"
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "":
		return nil, "the URL must have the form https://host/path"
	case u.User != nil || strings.Contains(u.Host, "@"):
		return nil, "the URL must not contain a user name or password"
	case strings.Contains(raw, "#"):
		return nil, "the URL must not contain a fragment"
	default:
		return u, ""
	}
}

func validPort(port string, dangling bool) bool {
	if port == "" {
		return !dangling
	}
	n, err := strconv.Atoi(port)
	return err == nil && strconv.Itoa(n) == port && (n == 443 || n >= 1024 && n <= 65535)
}

// isLoopback reports whether a host stands for the machine itself whatever the DNS says.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || host == "localhost"
}

// internalDomains are names that exist in private networks only, or not at all.
func internalDomains() []string {
	return []string{
		"localhost", "localdomain", "local", "internal", "svc", "default", "arpa", "onion", "invalid", "lan", "home",
		"corp", "intranet", "private",
	}
}

// hostViolation returns why a host is not a name of the internet, or "" if it may be one.
func hostViolation(host string) string {
	labels := strings.Split(strings.ToLower(host), ".")
	last := labels[len(labels)-1]
	switch {
	case strings.ContainsAny(host, ":%[]"), endsInNumber(last):
		return "the host must be a name, not an IP address"
	case len(host) > 253 || slices.ContainsFunc(labels, func(l string) bool { return !validLabel(l) }):
		return "the host must be a name of letters, digits, hyphens and dots, without a dot at its end"
	case len(labels) == 1, slices.Contains(internalDomains(), last):
		return "the host must be a public name, such as hooks.example.com"
	default:
		return ""
	}
}

// endsInNumber reports whether a host with this last label is an IPv4 address for clients such as browsers, which also
// read 127.1, 2130706433, 0x7f.1 and 0177.0.0.1 as addresses.
func endsInNumber(last string) bool {
	if digits, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}

func validLabel(l string) bool {
	return l != "" && len(l) <= 63 && l[0] != '-' && l[len(l)-1] != '-' &&
		strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
