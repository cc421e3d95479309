package issuer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

const maxTokenRequest = 64 << 10

// handler serves discovery, the keys, sign-in for browsers, and tokens for other processes on this machine.
func (i *Issuer) handler() http.Handler {
	mux := http.NewServeMux()
	for path, serve := range map[string]http.HandlerFunc{
		"GET /.well-known/openid-configuration": i.discovery,
		"GET /jwks.json":                        i.publishKeys,
		"POST /token":                           i.token,
	} {
		_, open, _ := strings.Cut(path, " ")
		mux.HandleFunc(path, allowLoopback(serve))
		mux.HandleFunc("OPTIONS "+open, allowLoopback(noContent))
	}
	mux.HandleFunc("POST /register", allowLoopback(i.register))
	mux.HandleFunc("OPTIONS /register", allowLoopback(func(w http.ResponseWriter, r *http.Request) {
		// What it answers gives a page no right that its user did not confirm.
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
		noContent(w, r)
	}))
	forms := http.NewCrossOriginProtection()
	forms.SetDenyHandler(http.HandlerFunc(i.denyForm))
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.Handle("POST /authorize", forms.Handler(http.HandlerFunc(i.choose)))
	mux.HandleFunc("GET /logout", i.logout)
	mux.Handle("POST /logout", forms.Handler(http.HandlerFunc(i.confirmLogout)))
	mux.HandleFunc("POST /revoke", i.revoke)
	mux.HandleFunc("POST /device_authorization", i.authorizeDevice)
	mux.HandleFunc("GET /device", i.showDevice)
	mux.Handle("POST /device", forms.Handler(http.HandlerFunc(i.chooseForDevice)))
	mux.HandleFunc("POST /tickets", i.createTicket)
	mux.HandleFunc("GET /start", i.start)
	mux.Handle("GET /assets/", http.StripPrefix("/assets/", assets()))
	return i.guardHost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/jwks.json" {
			i.fetches.Add(1)
		}
		if i.paused.Load() {
			respond(w, http.StatusServiceUnavailable, map[string]string{"error": "the issuer is paused"})
			return
		}
		mux.ServeHTTP(w, r)
	}))
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, map[string]any{
		"issuer": i.url, "jwks_uri": i.url + "/jwks.json",
		"authorization_endpoint": i.url + "/authorize",
		"token_endpoint":         i.url + "/token",
		"end_session_endpoint":   i.url + "/logout",
		"revocation_endpoint":    i.url + "/revoke",

		"device_authorization_endpoint": i.url + "/device_authorization",
		"registration_endpoint":         i.url + "/register",

		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{"authorization_code", "refresh_token", deviceGrant},
		"code_challenge_methods_supported":               []string{"S256"},
		"token_endpoint_auth_methods_supported":          []string{"none"},
		"revocation_endpoint_auth_methods_supported":     []string{"none"},
		"scopes_supported":                               []string{"openid", "profile", "email", "offline_access"},
		"prompt_values_supported":                        []string{"none", "login", "select_account"},
		"subject_types_supported":                        []string{"public"},
		"id_token_signing_alg_values_supported":          []string{"RS256"},
		"authorization_response_iss_parameter_supported": true,
		"request_uri_parameter_supported":                false,
	})
}

func (i *Issuer) publishKeys(w http.ResponseWriter, _ *http.Request) {
	respond(w, http.StatusOK, i.keySet())
}

// token issues tokens: to web apps for forms, as OAuth has them, and to other processes for JSON.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	w.Header().Set("Cache-Control", "no-store")
	switch media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media {
	case "application/json":
		i.mintSession(w, r)
	case "application/x-www-form-urlencoded":
		i.grantTokens(w, r)
	default:
		respond(w, http.StatusUnsupportedMediaType,
			map[string]string{"error": "send application/x-www-form-urlencoded or application/json"})
	}
}

// mintSession mints a session token for another process. Its body must be JSON, which a web page of another origin
// cannot send: CORS allows pages no header.
func (i *Issuer) mintSession(w http.ResponseWriter, r *http.Request) {
	var session Session
	if err := decodeJSON(r, &session); err != nil {
		respond(w, http.StatusBadRequest,
			map[string]string{"error": fmt.Sprintf("the body is not {subject, organization, role, claims}: %v", err)})
		return
	}
	token, err := i.Session(session)
	if err != nil {
		respond(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	respond(w, http.StatusOK, map[string]string{"token": token})
}

func noContent(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// decodeJSON decodes a request's body. An empty body changes nothing.
func decodeJSON(r *http.Request, to any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// allowLoopback lets web pages of this machine read the answers of a handler.
func allowLoopback(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Origin")
		if origin := r.Header.Get("Origin"); isLoopback(origin) {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST")
		}
		next(w, r)
	}
}

// isLoopback reports whether a URL is one of http or https at a loopback address. The agents' names below localhost
// are not: their pages are those of customers.
func isLoopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.Zone() == "" && ip.IsLoopback()
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}
