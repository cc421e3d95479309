package issuer

import (
	"crypto/rand"
	"mime"
	"net/http"
	"net/url"
)

// Ticket returns a link that signs a browser in and opens the console, once, within 10 minutes. The browser that used
// it may follow it again while it is signed in.
func (i *Issuer) Ticket(session Session, consoleURL string) string {
	value := i.signIns.addTicket(session, consoleURL)
	return i.url + "/start?" + url.Values{"ticket": {value}}.Encode()
}

func (s *signIns) addTicket(session Session, console string) string {
	claims := session.Claims
	session = plain(session)
	session.Claims = claims
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	value := rand.Text()
	s.tickets[value] = &ticket{
		signIn: &signIn{session: session, id: newSessionID()}, console: console, expires: s.now().Add(ticketTTL),
	}
	return value
}

// useTicket returns what a ticket stands for. Only the first call reports that it may sign a browser in.
func (s *signIns) useTicket(value string) (of *ticket, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tickets[value]
	if !ok || !s.now().Before(t.expires) {
		return nil, false
	}
	if t.used {
		return t, false
	}
	t.used, t.at = true, s.now()
	t.expires = s.now().Add(signInTTL) // its browser may follow the link again
	return t, true
}

// start signs a browser in with a ticket, and makes the console start its sign-in, which then asks for no choice. A
// request for the headers only, as for a preview of the link, does not use the ticket.
func (i *Issuer) start(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		return
	}
	t, first := i.signIns.useTicket(r.URL.Query().Get("ticket"))
	current, signedIn := i.browser(r)
	switch {
	case first:
		i.setCookie(w, i.signIns.bind(t.signIn))
	case t != nil && signedIn && current == t.signIn: // the same browser again
	default:
		i.show(w, http.StatusGone, "message.html", message{
			Heading: "This link has been used or has expired",
			Text:    "A sign-in link works once, within 10 minutes. This command prints a new one:",
			Command: "go run ./emulators console",
		}, "")
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, withQuery(t.console, url.Values{"iss": {i.url}}), http.StatusSeeOther)
}

// createTicket makes a ticket for another process. Like mintSession, it only accepts JSON, which a web page of another
// origin cannot send without a preflight.
func (i *Issuer) createTicket(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxTokenRequest)
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media != "application/json" {
		respond(w, http.StatusUnsupportedMediaType, map[string]string{"error": "send application/json"})
		return
	}
	var body struct {
		Session    Session `json:"session"`
		ConsoleURL string  `json:"console_url"`
	}
	if err := decodeJSON(r, &body); err != nil || !i.mayRedirect(body.ConsoleURL) {
		respond(w, http.StatusBadRequest,
			map[string]string{"error": "the body is not {session, console_url} with a URL of this machine"})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	respond(w, http.StatusCreated, map[string]string{"url": i.Ticket(body.Session, body.ConsoleURL)})
}
