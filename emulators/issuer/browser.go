package issuer

import (
	"net/http"
	"strings"
)

// browser returns the sign-in of the browser that sent a request.
func (i *Issuer) browser(r *http.Request) (*signIn, bool) {
	cookie, err := r.Cookie(i.cookie)
	if err != nil {
		return nil, false
	}
	found, ok := i.signIns.ofBrowser(cookie.Value)
	if !ok {
		return nil, false
	}
	return found, true
}

// setCookie makes the browser send a value until it is closed. Lax, because the client's page links to the issuer. An
// empty value removes the cookie.
func (i *Issuer) setCookie(w http.ResponseWriter, value string) {
	cookie := &http.Cookie{
		Name: i.cookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(i.url, "https:"),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}
