package issuer

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// refusal is an error response of OAuth (RFC 6749, section 5.2).
type refusal struct{ code, description string }

func refuse(code, description string) error { return refusal{code, description} }

// Error implements error.
func (r refusal) Error() string { return r.code + ": " + r.description }

// grantTokens serves the grants authorization_code and refresh_token. The client is public: PKCE and the rotation of
// refresh tokens take the place of a secret.
func (i *Issuer) grantTokens(w http.ResponseWriter, r *http.Request) {
	answer, err := i.redeemGrant(r)
	var refused refusal
	switch {
	case errors.As(err, &refused):
		respond(w, http.StatusBadRequest,
			map[string]string{"error": refused.code, "error_description": refused.description})
	case err != nil:
		respond(w, http.StatusInternalServerError, map[string]string{"error": "server_error"})
	default:
		respond(w, http.StatusOK, answer)
	}
}

func (i *Issuer) redeemGrant(r *http.Request) (map[string]any, error) {
	if err := r.ParseForm(); err != nil {
		return nil, refuse("invalid_request", "The body is not a form of at most 64 KiB.")
	}
	form := r.PostForm
	for _, values := range form {
		if len(values) > 1 {
			return nil, refuse("invalid_request", "A parameter is repeated.")
		}
	}
	if form.Get("client_id") != i.options.ClientID {
		return nil, refuse("invalid_client", "client_id is unknown.")
	}
	switch form.Get("grant_type") {
	case "authorization_code":
		c, err := i.signIns.redeem(form.Get("code"), form.Get("redirect_uri"), form.Get("code_verifier"))
		if err != nil {
			return nil, err
		}
		return i.issue(c.family, c.nonce)
	case "refresh_token":
		f, err := i.signIns.renew(form.Get("refresh_token"))
		if err != nil {
			return nil, err
		}
		return i.issue(f, "")
	default:
		return nil, refuse("unsupported_grant_type", "grant_type must be authorization_code or refresh_token.")
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
	identity["aud"], identity["auth_time"], identity["jti"] = i.options.ClientID, of.at.Unix(), compactID()
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
