package front

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// maxCookie bounds the value of a cookie that is looked at. That of a session has maxToken bytes and few more.
	maxCookie = maxToken + 256
	// keyBytes is the size of the key that seals cookies.
	keyBytes = 32
)

// seal makes the values of sessions' cookies, and reads those of former processes of the agent's front: a browser's
// session survives the agent's sleep. A value is
//
//	<random>.<end of the session in milliseconds>.<the link's token>.<HMAC-SHA256 of what is before>
//
// The person is in the token, which this front or a former one has verified. The key follows from the credentials, so
// that other credentials end all sessions, and other agents have other keys.
type seal struct{ key []byte }

func newSeal(c Credentials, hostname string) (seal, error) {
	key, err := hkdf.Key(sha256.New, []byte(c.APIKey), []byte(c.Password), "agent session "+hostname, keyBytes)
	if err != nil {
		return seal{}, fmt.Errorf("derive the key of sessions: %w", err)
	}
	return seal{key}, nil
}

// write returns the value for a session that a link started.
func (s seal) write(link string, endsAt time.Time) string {
	text := rand.Text() + "." + strconv.FormatInt(endsAt.UnixMilli(), 10) + "." + link
	return text + "." + s.sum(text)
}

func (s seal) sum(text string) string {
	mac := hmac.New(sha256.New, s.key)
	_, _ = mac.Write([]byte(text)) // never fails
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// errNoCookie means that a value is none that this seal made.
var errNoCookie = errors.New("the cookie is not that of a session of this agent")

// read returns what a value says, whether the session's time is over or not.
func (s seal) read(value string) (who person, link string, endsAt time.Time, err error) {
	last := strings.LastIndexByte(value, '.')
	if len(value) > maxCookie || last < 0 || !hmac.Equal([]byte(value[last+1:]), []byte(s.sum(value[:last]))) {
		return person{}, "", time.Time{}, errNoCookie
	}
	_, rest, _ := strings.Cut(value[:last], ".")
	end, link, _ := strings.Cut(rest, ".")
	milliseconds, err := strconv.ParseInt(end, 10, 64)
	if err != nil {
		return person{}, "", time.Time{}, errNoCookie
	}
	token, err := jwt.ParseSigned(link, []jose.SignatureAlgorithm{jose.ES256})
	var claims linkClaims
	if err != nil || token.UnsafeClaimsWithoutVerification(&claims) != nil {
		return person{}, "", time.Time{}, errNoCookie
	}
	return claims.person(), link, time.UnixMilli(milliseconds), nil
}

// cookieName returns the name of the session's cookie. A router that does not say how the client connected gets the
// secure one.
func cookieName(req *http.Request) (name string, secure bool) {
	if strings.EqualFold(req.Header.Get("X-Forwarded-Proto"), "http") {
		return dataplane.PlainCookie, false
	}
	return dataplane.SecureCookie, true
}

// sessionCookie returns the cookie that carries a session's token. SameSite is Lax, because the link is on a page of
// another site, and the redirect that answers it continues that page's navigation: browsers send no Strict cookie with
// it, so the dashboard would ask for the password.
func sessionCookie(req *http.Request, token string) *http.Cookie {
	name, secure := cookieName(req)
	return &http.Cookie{
		Name: name, Value: token, Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode,
		MaxAge: int(dataplane.SessionTime / time.Second),
	}
}

// endedCookie returns the cookie that makes a browser forget its session.
func endedCookie(req *http.Request) *http.Cookie {
	cookie := sessionCookie(req, "")
	cookie.MaxAge = -1
	return cookie
}

// removeSessionCookies removes the front's cookies, and leaves all others as the client wrote them.
func removeSessionCookies(h http.Header) {
	var kept []string
	for _, line := range h.Values("Cookie") {
		for pair := range strings.SplitSeq(line, ";") {
			pair = strings.TrimSpace(pair)
			name, _, _ := strings.Cut(pair, "=")
			name = strings.TrimSpace(name)
			if pair != "" && name != dataplane.SecureCookie && name != dataplane.PlainCookie {
				kept = append(kept, pair)
			}
		}
	}
	if len(kept) == 0 {
		h.Del("Cookie")
		return
	}
	h.Set("Cookie", strings.Join(kept, "; "))
}
