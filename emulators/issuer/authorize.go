package issuer

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// authRequest is an authorization request (OpenID Connect Core 1.0, section 3.1.2.1).
type authRequest struct {
	ClientID, RedirectURI, State, Nonce, Scope, Challenge string

	// client is the one with the ID; the zero value for a device.
	client Client
	// userCode is set if a device asked instead of an application that the browser returns to.
	userCode string

	prompt []string
	maxAge time.Duration
	hasAge bool
	values url.Values
}

// authorize signs a browser in: immediately if it is signed in, and else after its user has chosen a user.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	request, ok := i.readRequest(w, r, r.URL.Query())
	if !ok {
		return
	}
	current, signedIn := i.browser(r)
	fresh := signedIn && (!request.hasAge || i.options.Now().Sub(current.at) <= request.maxAge)
	mayAsk := !slices.Contains(request.prompt, "none")
	mustAsk := request.client.registered ||
		slices.Contains(request.prompt, "login") || slices.Contains(request.prompt, "select_account")
	switch {
	case fresh && !mustAsk:
		i.finish(w, r, request, current)
	case mayAsk:
		i.showChoice(w, http.StatusOK, request, choice{current: current})
	default:
		i.fail(w, r, request, refusal{"login_required", "The browser is not signed in."})
	}
}

// choose accepts the form of the sign-in page.
func (i *Issuer) choose(w http.ResponseWriter, r *http.Request) {
	if !i.readForm(w, r) {
		return
	}
	request, ok := i.readRequest(w, r, r.PostForm)
	if !ok {
		return
	}
	chosen := chosenSession(r.PostForm)
	if invalid := checkSession(chosen); len(invalid) > 0 {
		current, _ := i.browser(r)
		i.showChoice(w, http.StatusUnprocessableEntity, request,
			choice{current: current, entered: chosen, invalid: invalid})
		return
	}
	cookie, started := i.signIns.start(plain(chosen))
	i.setCookie(w, cookie)
	i.finish(w, r, request, started)
}

// readRequest reads and checks an authorization request. If it is invalid, readRequest answers it: with a page if the
// redirect URI cannot be trusted, and else with a redirect.
func (i *Issuer) readRequest(w http.ResponseWriter, r *http.Request, values url.Values) (authRequest, bool) {
	request := authRequest{
		ClientID: values.Get("client_id"), RedirectURI: values.Get("redirect_uri"), State: values.Get("state"),
		Nonce: values.Get("nonce"), Scope: values.Get("scope"), Challenge: values.Get("code_challenge"),
		prompt: strings.Fields(values.Get("prompt")), values: values,
	}
	var known bool
	if request.client, known = i.client(request.ClientID); !known {
		i.showMessage(w, http.StatusBadRequest, "This application is not registered",
			"The sign-in request names the client “"+request.ClientID+"”. Set the client ID of the application to "+
				i.clientNames()+".")
		return request, false
	}
	if !request.client.mayRedirect(request.RedirectURI) {
		i.showMessage(w, http.StatusBadRequest, "This redirect address is not registered",
			request.client.redirects())
		return request, false
	}
	if refused, invalid := request.check(); invalid {
		i.fail(w, r, request, refused)
		return request, false
	}
	return request, true
}

// challengePattern is the syntax of a SHA-256 sum in the URL alphabet of base64.
var challengePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// check checks everything except the client and the redirect URI. It sets the maximum age.
func (a *authRequest) check() (refusal, bool) {
	for _, values := range a.values {
		if len(values) > 1 {
			return refusal{"invalid_request", "A parameter is repeated."}, true
		}
	}
	age, ageErr := strconv.Atoi(a.values.Get("max_age"))
	a.maxAge, a.hasAge = time.Duration(age)*time.Second, a.values.Has("max_age")
	switch {
	case a.values.Has("request"):
		return refusal{"request_not_supported", "Send the parameters in the query."}, true
	case a.values.Has("request_uri"):
		return refusal{"request_uri_not_supported", "Send the parameters in the query."}, true
	case a.values.Get("response_type") != "code":
		return refusal{"unsupported_response_type", "response_type must be code."}, true
	case a.values.Has("response_mode") && a.values.Get("response_mode") != "query":
		return refusal{"invalid_request", "response_mode must be query."}, true
	case !slices.Contains(strings.Fields(a.Scope), "openid"):
		return refusal{"invalid_scope", "scope must contain openid."}, true
	case a.values.Get("code_challenge_method") != "S256" || !challengePattern.MatchString(a.Challenge):
		return refusal{"invalid_request", "PKCE is required: send code_challenge and code_challenge_method=S256."}, true
	case a.hasAge && (ageErr != nil || age < 0):
		return refusal{"invalid_request", "max_age must be a number of seconds."}, true
	case slices.Contains(a.prompt, "none") && len(a.prompt) > 1:
		return refusal{"invalid_request", "prompt=none excludes other values."}, true
	}
	return refusal{}, false
}

// finish sends the browser back to the client with a code.
func (i *Issuer) finish(w http.ResponseWriter, r *http.Request, request authRequest, of *signIn) {
	i.redirect(w, r, request, url.Values{"code": {i.signIns.addCode(of, request)}})
}

// fail sends the browser back to the client with an error.
func (i *Issuer) fail(w http.ResponseWriter, r *http.Request, request authRequest, refused refusal) {
	i.redirect(w, r, request, refused.parameters())
}

func (r refusal) parameters() url.Values {
	return url.Values{"error": {r.code}, "error_description": {r.description}}
}

func (i *Issuer) redirect(w http.ResponseWriter, r *http.Request, request authRequest, answer url.Values) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, i.answerURL(request, answer), http.StatusSeeOther)
}

// answerURL returns the redirect URI with an answer. The parameter iss names the issuer that answers (RFC 9207).
func (i *Issuer) answerURL(request authRequest, answer url.Values) string {
	answer.Set("iss", i.url)
	if request.State != "" {
		answer.Set("state", request.State)
	}
	return withQuery(request.RedirectURI, answer)
}

// withQuery adds parameters to a URL that is known to be valid.
func withQuery(address string, add url.Values) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	query := u.Query()
	for name, values := range add {
		query[name] = values
	}
	u.RawQuery = query.Encode()
	return u.String()
}
