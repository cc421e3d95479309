package issuer

import (
	"net/http"
	"net/url"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// logout signs a browser out (OpenID Connect RP-Initiated Logout 1.0). Without an ID token of this issuer, a link of
// any page could cause it, so that the browser's user is asked.
func (i *Issuer) logout(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	target := query.Get("post_logout_redirect_uri")
	if target != "" && !i.mayRedirect(target) {
		i.showMessage(w, http.StatusBadRequest, "This redirect address is not registered",
			"After sign-out, only an http address of this machine can follow.")
		return
	}
	id, known := i.readHint(query.Get("id_token_hint"))
	if _, signedIn := i.browser(r); signedIn && !known {
		i.show(w, http.StatusOK, "logout.html",
			[]parameter{{"post_logout_redirect_uri", target}, {"state", query.Get("state")}}, target)
		return
	}
	i.signOut(w, r, id, query)
}

// confirmLogout accepts the form of the sign-out page.
func (i *Issuer) confirmLogout(w http.ResponseWriter, r *http.Request) {
	if !i.readForm(w, r) {
		return
	}
	i.signOut(w, r, "", r.PostForm)
}

func (i *Issuer) signOut(w http.ResponseWriter, r *http.Request, id string, values url.Values) {
	browser := "" // no cookie
	if cookie, err := r.Cookie(i.cookie); err == nil {
		browser = cookie.Value
	}
	i.signIns.end(browser, id)
	i.setCookie(w, "")
	target := values.Get("post_logout_redirect_uri")
	if !i.mayRedirect(target) {
		i.showMessage(w, http.StatusOK, "You are signed out", "You can close this page.")
		return
	}
	answer := url.Values{}
	if state := values.Get("state"); state != "" {
		answer.Set("state", state)
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, withQuery(target, answer), http.StatusSeeOther)
}

// readHint returns the session of an ID token that this issuer signed, even if it has expired.
func (i *Issuer) readHint(token string) (id string, ok bool) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return "", false
	}
	var claims struct {
		Issuer  string `json:"iss"`
		Session string `json:"sid"`
	}
	keys := i.keySet()
	err = parsed.Claims(&keys, &claims)
	return claims.Session, err == nil && claims.Issuer == i.url && claims.Session != ""
}
