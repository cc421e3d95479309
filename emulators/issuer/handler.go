package issuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
)

const maxTokenRequest = 64 << 10

// handler serves discovery, the keys, and tokens for other processes on this machine.
func (i *Issuer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, map[string]any{
			"issuer": i.url, "jwks_uri": i.url + "/jwks.json", "token_endpoint": i.url + "/token",
			// required by the standard; there is no sign-in here
			"authorization_endpoint":                i.url + "/authorize",
			"response_types_supported":              []string{"code"},
			"subject_types_supported":               []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /jwks.json",
		func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, i.keySet()) })
	mux.HandleFunc("POST /token", i.token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jwks.json" {
			i.fetches.Add(1)
		}
		if i.paused.Load() {
			respond(w, http.StatusServiceUnavailable, map[string]string{"error": "the issuer is paused"})
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// token mints a session token for another process. It only accepts JSON, which a web page of another origin cannot send
// without a preflight.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		respond(w, http.StatusUnsupportedMediaType, map[string]string{"error": "send application/json"})
		return
	}
	var session Session
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTokenRequest))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&session); err != nil && !errors.Is(err, io.EOF) {
		respond(w, http.StatusBadRequest,
			map[string]string{"error": fmt.Sprintf("the body is not {subject, organization, role, claims}: %v", err)})
		return
	}
	token, err := i.Session(session)
	if err != nil {
		respond(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	respond(w, http.StatusOK, map[string]string{"token": token})
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}
