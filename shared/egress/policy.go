package egress

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Annotation is the annotation of an agent's Service with its Policy. A Service without it belongs to an agent that the
// gate forwards nothing for.
const Annotation = "agents.example/egress"

// Placeholder is the value that an agent finds in its environment in place of a brokered secret.
const Placeholder = "injected"

// ValueMark stands for the secret's value in the format of a Target.
const ValueMark = "{value}"

// DefaultHeader and DefaultFormat are those of most APIs.
const (
	DefaultHeader = "Authorization"
	DefaultFormat = "Bearer " + ValueMark
)

// Target says where the gate adds the value of a brokered secret, and how.
type Target struct {
	// Hosts are names, without wildcards and sorted.
	Hosts []string `json:"hosts"`
	// Header is the request's header that is set.
	Header string `json:"header"`
	// Format is the header's value, with ValueMark in it once.
	Format string `json:"format"`

	// Rest has the members that only a later release knows. After a roll-back, the gate of the cell still goes by them.
	// A gate that does not know them adds the secret to no request: they may restrict the requests that get it. So a
	// gate must know a member before workers write it.
	Rest map[string]json.RawMessage `json:"-"`
}

// Clone returns a copy that shares no memory with the target.
func (t Target) Clone() Target {
	t.Hosts = slices.Clone(t.Hosts)
	return t
}

// Canonical returns the target with each host once, in lower case and in order, and with the defaults.
func (t Target) Canonical() Target {
	t.Hosts = canonical(t.Hosts)
	if t.Header == "" {
		t.Header = DefaultHeader
	}
	if t.Format == "" {
		t.Format = DefaultFormat
	}
	return t
}

// Encode writes the target as one text, by which two of them can be compared.
func (t Target) Encode() string {
	text, err := encodeWith(t, t.Rest)
	if err != nil {
		return "" // texts always encode
	}
	return string(text)
}

// encodeWith writes a value as an object, with other members.
func encodeWith(value any, rest map[string]json.RawMessage) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil || len(rest) == 0 {
		return text, err
	}
	members := maps.Clone(rest)
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// DecodeTarget reads what Encode wrote.
func DecodeTarget(text string) (t Target) {
	_ = json.Unmarshal([]byte(text), &t) // what Encode wrote can be read
	t.Rest = restOf([]byte(text))
	return t
}

// restOf returns the members of an encoded Target or Injection that only a later release knows.
func restOf(text []byte) map[string]json.RawMessage {
	var rest map[string]json.RawMessage
	_ = json.Unmarshal(text, &rest)
	for _, known := range []string{"hosts", "header", "format", "key", "version"} {
		delete(rest, known)
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

// Overlaps reports whether another target sets the same header at one of the same hosts.
func (t Target) Overlaps(other Target) bool {
	return strings.EqualFold(t.Header, other.Header) &&
		slices.ContainsFunc(t.Hosts, func(host string) bool { return slices.Contains(other.Hosts, host) })
}

// Render returns the header's value for a secret's.
func (t Target) Render(value string) string { return strings.Replace(t.Format, ValueMark, value, 1) }

// maxFormatBytes bounds what is around the value.
const maxFormatBytes = 256

// Violation returns the field of a target that is wrong and why, or two empty texts.
func (t Target) Violation() (field, why string) {
	for _, host := range t.Hosts {
		if strings.HasPrefix(host, "*") {
			return "hosts", "a secret is added to requests of hosts that are named in full"
		}
		if why := PatternViolation(host); why != "" {
			return "hosts", why
		}
	}
	switch {
	case len(t.Hosts) == 0 || len(t.Hosts) > MaxHosts:
		return "hosts", fmt.Sprintf("1 to %d hosts are needed", MaxHosts)
	case !httpguts.ValidHeaderFieldName(t.Header) || len(t.Header) > maxFormatBytes:
		return "header", "must be the name of a header"
	case ofConnection(t.Header):
		return "header", "the header belongs to the connection: choose another"
	case strings.Count(t.Format, ValueMark) != 1:
		return "format", "must have " + ValueMark + " in it once"
	case len(t.Format) > maxFormatBytes || !httpguts.ValidHeaderFieldValue(t.Format):
		return "format", fmt.Sprintf("must be at most %d characters that a header can have", maxFormatBytes)
	}
	return "", ""
}

// ofConnection reports whether a header says how a request is sent, or where.
func ofConnection(header string) bool {
	switch strings.ToLower(header) {
	case "host", "connection", "content-length", "transfer-encoding", "te", "trailer", "upgrade", "keep-alive",
		"proxy-connection", "expect", "content-encoding":
		return true
	default:
		return false
	}
}

// Injection is a brokered secret in a Policy.
type Injection struct {
	// Key is the variable's name, and Version the secret store's version of its value.
	Key     string `json:"key"`
	Version int64  `json:"version"`
	Target
}

// MarshalJSON implements json.Marshaler.
func (i Injection) MarshalJSON() ([]byte, error) {
	type plain Injection
	return encodeWith(plain(i), i.Rest)
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *Injection) UnmarshalJSON(text []byte) error {
	type plain Injection
	if err := json.Unmarshal(text, (*plain)(i)); err != nil {
		return err
	}
	i.Rest = restOf(text)
	return nil
}

// Policy is what the gate needs to know of an agent.
type Policy struct {
	// Control is the URL of the control plane. The gate passes the calls of the agent's front on to it, and no others.
	Control string   `json:"control,omitempty"`
	Allow   []string `json:"allow,omitempty"`
	Deny    []string `json:"deny,omitempty"`
	// Inject is sorted by key.
	Inject []Injection `json:"inject,omitempty"`

	// Rest has the members of the agent's rules that only a later release knows. A gate that knows them goes by them.
	Rest map[string]json.RawMessage `json:"-"`
}

// Check returns why the policy refuses a canonical name, or "" if it allows it.
func (p Policy) Check(host string) Reason {
	return Rules{Mode: AllowList, Allow: p.Allow, Deny: p.Deny}.Check(host)
}

// Injections returns the brokered secrets of a canonical name.
func (p Policy) Injections(host string) []Injection {
	var found []Injection
	for _, i := range p.Inject {
		if slices.Contains(i.Hosts, host) {
			found = append(found, i)
		}
	}
	return found
}

// InjectedHosts lists the names for which the gate terminates TLS, sorted.
func (p Policy) InjectedHosts() []string {
	var hosts []string
	for _, i := range p.Inject {
		hosts = append(hosts, i.Hosts...)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// hashBytes is enough to tell the lists of one agent apart.
const hashBytes = 8

// InjectHash identifies InjectedHosts: the agent's CA is restricted to them, and a pod starts with one CA. It is empty
// without a host.
func (p Policy) InjectHash() string {
	hosts := p.InjectedHosts()
	if len(hosts) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(hosts, " ")))
	return hex.EncodeToString(sum[:hashBytes])
}

// Encode returns the value of Annotation. Equal policies have equal ones.
func (p Policy) Encode() string {
	text, err := encodeWith(p, p.Rest)
	if err != nil {
		return "" // texts and numbers always encode
	}
	return string(text)
}

// Decode reads the value of Annotation. The control plane has checked the rules, and whoever can write the annotation
// could write any; so the fields are not checked again. A policy with a member that only a later release knows is an
// error: it may allow less than the rest says. So a gate must know a member before workers write it.
func Decode(text string) (Policy, error) {
	var p Policy
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return Policy{}, fmt.Errorf("decode the policy: %w", err)
	}
	return p, nil
}
