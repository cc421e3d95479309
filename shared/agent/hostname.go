package agent

import (
	"encoding/base32"
	"net/url"
	"strings"

	"github.com/google/uuid"
)

// Addresses holds the parts that the URLs of all agents share. The operator configures them.
type Addresses struct {
	// Domain is the agent domain, such as "agents.example.com". It is never part of another tenant's hostname.
	Domain string
	// Scheme is "https", or "http" on a laptop.
	Scheme string
	// Port is part of the URLs if it is not the scheme's default; "" otherwise. It is never part of a hostname.
	Port string
}

// maxSlug is the maximum length of a slug, so that slug, dash and id fit into a DNS label of 63 characters.
const maxSlug = 30

// Slug turns a name into the readable part of a hostname: lower-case letters, digits and single dashes, or "agent" if
// the name has none of them.
func Slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == maxSlug {
			break
		}
	}
	slug := strings.Trim(b.String(), "-")
	if slug == "" {
		return "agent"
	}
	return slug
}

// hostnameEncoding is lower-case RFC 4648 base32 without padding. It writes an id in 26 characters that DNS allows.
func hostnameEncoding() *base32.Encoding {
	return base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
}

// Hostname is the agent's DNS name. It is unique forever because it contains the id.
func (a Agent) Hostname(d Addresses) string {
	id, err := uuid.Parse(a.ID)
	if err != nil {
		return ""
	}
	return a.Slug + "-" + hostnameEncoding().EncodeToString(id[:]) + "." + d.Domain
}

// IDFromHostname decodes the agent's id from its hostname.
func IDFromHostname(hostname string, d Addresses) (id string, ok bool) {
	label, ok := strings.CutSuffix(strings.ToLower(hostname), "."+d.Domain)
	if !ok {
		return "", false
	}
	raw, err := hostnameEncoding().DecodeString(label[strings.LastIndex(label, "-")+1:])
	if err != nil {
		return "", false
	}
	parsed, err := uuid.FromBytes(raw)
	return parsed.String(), err == nil
}

// URL is the address of a path on the agent's hostname.
func (a Agent) URL(d Addresses, path string) string {
	host := a.Hostname(d)
	if d.Port != "" {
		host += ":" + d.Port
	}
	u := url.URL{Scheme: d.Scheme, Host: host, Path: path}
	return u.String()
}
