package issuer

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// refusal is an error response of OAuth (RFC 6749, section 5.2).
type refusal struct{ code, description string }

func refuse(code, description string) error { return refusal{code, description} }

// Error implements error.
func (r refusal) Error() string { return r.code + ": " + r.description }

// grantTokens serves the grants authorization_code, refresh_token and that of devices. Clients are public: PKCE and the
// rotation of refresh tokens take the place of a secret.
func (i *Issuer) grantTokens(w http.ResponseWriter, r *http.Request) {
	answer, err := i.redeemGrant(r)
	if err != nil {
		respondRefusal(w, err)
		return
	}
	respond(w, http.StatusOK, answer)
}

// respondRefusal answers with the error of a token endpoint.
func respondRefusal(w http.ResponseWriter, err error) {
	var refused refusal
	if !errors.As(err, &refused) {
		respond(w, http.StatusInternalServerError, map[string]string{"error": "server_error"})
		return
	}
	respond(w, http.StatusBadRequest,
		map[string]string{"error": refused.code, "error_description": refused.description})
}

// readTokenForm reads the form of a token endpoint, and the client that sent it.
func (i *Issuer) readTokenForm(r *http.Request) (url.Values, Client, error) {
	if err := r.ParseForm(); err != nil {
		return nil, Client{}, refuse("invalid_request", "The body is not a form of at most 64 KiB.")
	}
	for _, values := range r.PostForm {
		if len(values) > 1 {
			return nil, Client{}, refuse("invalid_request", "A parameter is repeated.")
		}
	}
	client, known := i.client(r.PostForm.Get("client_id"))
	if !known {
		return nil, Client{}, refuse("invalid_client", "client_id is unknown.")
	}
	return r.PostForm, client, nil
}

func (i *Issuer) redeemGrant(r *http.Request) (map[string]any, error) {
	form, client, err := i.readTokenForm(r)
	if err != nil {
		return nil, err
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		c, err := i.signIns.redeem(client, form.Get("code"), form.Get("redirect_uri"), form.Get("code_verifier"))
		if err != nil {
			return nil, err
		}
		return i.issue(c.family, c.nonce)
	case "refresh_token":
		f, err := i.signIns.renew(client, form.Get("refresh_token"))
		if err != nil {
			return nil, err
		}
		return i.issue(f, "")
	case deviceGrant:
		f, err := i.signIns.redeemDevice(client, form.Get("device_code"))
		if err != nil {
			return nil, err
		}
		return i.issue(f, "")
	default:
		return nil, refuse("unsupported_grant_type", "grant_type must be one of those in the discovery document.")
	}
}

// issue returns new tokens of a sign-in. The access token is a session token.
func (i *Issuer) issue(of *family, nonce string) (map[string]any, error) {
	claims := i.Claims(of.session)
	claims["sid"], claims["exp"] = of.id, i.options.Now().Add(i.options.AccessTTL).Unix()
	access, err := i.Mint(claims)
	if err != nil {
		return nil, err
	}
	identity := maps.Clone(claims)
	identity["aud"], identity["auth_time"], identity["jti"] = of.client, of.at.Unix(), compactID()
	if nonce != "" {
		identity["nonce"] = nonce
	}
	id, err := i.Mint(identity)
	if err != nil {
		return nil, err
	}
	answer := map[string]any{
		"token_type": "Bearer", "access_token": access, "id_token": id, "scope": of.scope,
		"expires_in": int(i.options.AccessTTL.Seconds()),
	}
	if slices.Contains(strings.Fields(of.scope), "offline_access") {
		answer["refresh_token"] = i.signIns.addRefreshToken(of)
	}
	return answer, nil
}

// EndSessions ends every sign-in: browsers must choose a user again, and no code or refresh token is valid. Access
// tokens stay valid until they expire.
func (i *Issuer) EndSessions() { i.signIns.endAll() }
