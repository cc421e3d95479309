package front

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"

	"agents.example/controlplane/shared/clientip"
	"agents.example/controlplane/shared/dataplane"
)

// Credentials are what the front accepts. They do not print.
type Credentials struct{ Username, Password, APIKey string }

// String keeps credentials out of formatted text.
func (Credentials) String() string { return "[redacted]" }

// GoString keeps credentials out of formatted text.
func (Credentials) GoString() string { return "[redacted]" }

// credentials compare an Authorization header with what the front accepts.
type credentials struct {
	username string
	// basic and bearer are the digests of the two accepted credentials, and password that of a part of basic.
	basic, bearer, password [sha256.Size]byte
	// header is the Authorization header that the dashboard's credential has.
	header string
}

func newCredentials(c Credentials) (credentials, error) {
	switch {
	case c.Username == "" || c.Password == "":
		return credentials{}, errors.New("the dashboard's user name or password is missing")
	case c.APIKey == "":
		return credentials{}, errors.New("the API's key is missing")
	case !printable(c.Username) || strings.Contains(c.Username, ":"):
		return credentials{}, errors.New("the dashboard's user name has characters that HTTP Basic cannot carry")
	}
	pair := c.Username + ":" + c.Password
	return credentials{
		username: c.Username, basic: sha256.Sum256([]byte(pair)), bearer: sha256.Sum256([]byte(c.APIKey)),
		password: sha256.Sum256([]byte(c.Password)), header: "Basic " + base64.StdEncoding.EncodeToString([]byte(pair)),
	}, nil
}

// apiUser is the user that the container sees for a request with the API's key.
const apiUser = "api"

// dashboard accepts HTTP Basic with the dashboard's user name and password.
func (c credentials) dashboard(h http.Header) (w way, ok bool) {
	encoded, found := cutScheme(h, "basic")
	pair, err := base64.StdEncoding.DecodeString(encoded)
	return wayBasic, found && err == nil && equal(pair, c.basic)
}

// api accepts a bearer of the API's key.
func (c credentials) api(h http.Header) (w way, ok bool) {
	key, found := cutScheme(h, "bearer")
	return wayAPI, found && equal([]byte(key), c.bearer)
}

// anyKind accepts either.
func (c credentials) anyKind(h http.Header) (w way, ok bool) {
	if w, ok = c.dashboard(h); ok {
		return w, true
	}
	return c.api(h)
}

// areIn reports whether an Authorization header has one of the credentials, whatever its scheme is.
func (c credentials) areIn(h http.Header) bool {
	for _, value := range h.Values("Authorization") {
		_, text, _ := strings.Cut(strings.TrimSpace(value), " ")
		text = strings.TrimSpace(text)
		pair, _ := base64.StdEncoding.DecodeString(text)
		user, password, _ := strings.Cut(string(pair), ":")
		for _, part := range [...]string{strings.TrimSpace(value), text, string(pair), user, password} {
			if equal([]byte(part), c.basic) || equal([]byte(part), c.bearer) || equal([]byte(part), c.password) {
				return true
			}
		}
	}
	return false
}

// cutScheme returns the credential in the only Authorization header, if it has the scheme.
func cutScheme(h http.Header, scheme string) (credential string, ok bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	got, credential, found := strings.Cut(values[0], " ")
	return strings.TrimLeft(credential, " "), found && strings.EqualFold(got, scheme)
}

// equal compares a value with the digest of another in a time that does not depend on either, or on their lengths.
func equal(got []byte, want [sha256.Size]byte) bool {
	digest := sha256.Sum256(got)
	return subtle.ConstantTimeCompare(digest[:], want[:]) == 1
}

// verdict is what authentication found about a request.
type verdict struct {
	// status is 200, 401 or 429.
	status int
	// wait is the time until another attempt is checked, if status is 429.
	wait time.Duration
	// person is who the container sees.
	person
	// way is how the client proved it.
	way way
	// browser is true if a browser adds the credential by itself, also to the requests of other sites' pages.
	browser bool
}

// way is how a client proved who it is, as the container sees it.
type way string

// The ways.
const (
	waySession way = "session" // a session that a link started
	wayBasic   way = "basic"   // the dashboard's user name and password
	wayAPI     way = "api"     // the API's key
	wayPublic  way = "public"  // not at all: anyone may request the path
)

// authenticate checks the Authorization header of a request. A request without one is not a failed attempt.
func (f *Front) authenticate(req *http.Request, accepts func(http.Header) (way, bool)) verdict {
	if len(req.Header.Values("Authorization")) == 0 {
		return verdict{status: http.StatusUnauthorized}
	}
	var found way
	ok, wait := f.attempts.try(clientAddress(req), func() (ok bool) {
		found, ok = accepts(req.Header)
		return ok
	})
	switch {
	case wait > 0:
		return verdict{status: http.StatusTooManyRequests, wait: wait}
	case !ok:
		return verdict{status: http.StatusUnauthorized}
	}
	user := apiUser
	if found == wayBasic {
		user = f.credentials.username
	}
	return verdict{status: http.StatusOK, person: person{id: user}, way: found, browser: found == wayBasic}
}

// challenge refuses a request that was not authenticated.
func (f *Front) challenge(w http.ResponseWriter, v verdict, api bool) {
	if v.status == http.StatusTooManyRequests {
		w.Header().Set("Cache-Control", "no-store")
		tooMany(w, api, v.wait)
		return
	}
	refuse(w, api, http.StatusUnauthorized, dataplane.Challenge(w.Header(), api))
}

// behindBalancer is the client's place in X-Forwarded-For, from the right, on Google Cloud: the load balancer appends
// the client's address and its own, and the router appends the load balancer's.
const behindBalancer = 3

// clientAddress returns what limits count the client by: a network of IPv6 addresses, which one client has, is one
// address.
func clientAddress(req *http.Request) string { return clientip.Bucket(clientIP(req)) }

// clientIP returns the address of the client. Without a load balancer, whose requests arrived over HTTPS, it is the
// last entry of X-Forwarded-For, which the router wrote. Clients can write only the entries before it. It is the
// connection's if there is no such entry.
func clientIP(req *http.Request) string {
	from, _ := netip.ParseAddrPort(req.RemoteAddr) // in tests, connections have other addresses
	address := from.Addr()
	chain := strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ",")
	last := len(chain) - 1
	if _, secure := cookieName(req); secure && len(chain) >= behindBalancer {
		last = len(chain) - behindBalancer
	}
	if client, err := netip.ParseAddr(strings.TrimSpace(chain[last])); err == nil {
		address = client
	}
	return address.Unmap().WithZone("").String()
}

// printable reports whether a text can be the value of a header.
func printable(s string) bool {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' {
			return false
		}
	}
	return s != ""
}

// isAPI reports whether a path belongs to the API, which is /v1 and what is below it. Servers read some paths
// differently, such as /v1/../admin, //v1 and /V1. They are ambiguous and must be refused: whoever holds one credential
// must not reach with it what the container serves to the other.
func isAPI(decoded string) (api, ambiguous bool) {
	api = dataplane.IsAPIPath(decoded)
	return api, api != dataplane.IsAPIPath(normalize(decoded))
}

// normalize returns the path as the most liberal server may read it: the case of letters does not matter, backslashes
// separate segments, parameters after a semicolon are not part of a segment, and dot segments and empty segments are
// resolved.
func normalize(p string) string {
	segments := strings.Split(strings.ReplaceAll(strings.ToLower(p), `\`, "/"), "/")
	for i, s := range segments {
		segments[i], _, _ = strings.Cut(s, ";")
	}
	return path.Clean("/" + strings.Join(segments, "/"))
}
