package agent

import (
	"encoding/base32"
	"net/url"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// Addresses holds the parts that the URLs of all agents share. The operator configures them.
type Addresses struct {
	// Domain is the agent domain, such as "agents.example.com". The hostname of an agent is below its cell's label.
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

// hostnameAlphabet has the digits of ids in hostnames.
const hostnameAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

// hostnameEncoding is lower-case RFC 4648 base32 without padding. It writes an id in 26 characters that DNS allows.
var hostnameEncoding = sync.OnceValue(func() *base32.Encoding {
	return base32.NewEncoding(hostnameAlphabet).WithPadding(base32.NoPadding)
})

// CellDomain is the parent domain of the hostnames of a cell's agents.
func (d Addresses) CellDomain(cell string) string { return cell + "." + d.Domain }

// Hostname is the agent's DNS name. It is unique forever because it contains the id. The cell is part of it, so that
// one wildcard record and one wildcard certificate serve all agents of a cell.
func (a Agent) Hostname(d Addresses) string {
	id, err := uuid.Parse(a.ID)
	if err != nil || a.Cell == "" {
		return ""
	}
	return a.Slug + "-" + hostnameEncoding().EncodeToString(id[:]) + "." + d.CellDomain(a.Cell)
}

// IDFromHostname decodes the agent's id from a hostname of one cell. The suffix is "<cell>.<agent domain>". Hostnames
// of other cells have no id here, and neither have other spellings of an id: a client must not reach an agent under
// two names.
func IDFromHostname(hostname, suffix string) (id string, ok bool) {
	label, ok := strings.CutSuffix(strings.ToLower(hostname), "."+suffix)
	if !ok || strings.Contains(label, ".") {
		return "", false
	}
	dash := strings.LastIndex(label, "-")
	if dash < 1 {
		return "", false
	}
	return decodeID(label[dash+1:])
}

// decodeID reads an id that is written as in hostnames. Each id has one spelling.
func decodeID(text string) (id string, ok bool) {
	raw, err := hostnameEncoding().DecodeString(text)
	if err != nil {
		return "", false
	}
	parsed, err := uuid.FromBytes(raw)
	// The last character encodes three bits of the id. Decoding ignores the other two.
	if err != nil || hostnameEncoding().EncodeToString(raw) != text {
		return "", false
	}
	return parsed.String(), true
}

// URL is the address of a path on the agent's hostname.
func (a Agent) URL(d Addresses, path string) string { return d.url(a.Hostname(d), path) }

func (d Addresses) url(host, path string) string {
	if d.Port != "" {
		host += ":" + d.Port
	}
	u := url.URL{Scheme: d.Scheme, Host: host, Path: path}
	return u.String()
}
