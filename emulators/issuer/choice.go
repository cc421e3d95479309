package issuer

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// maxSubject bounds a user id (OpenID Connect Core 1.0, section 2).
const maxSubject = 255

// maxButtons is how many suggestions are buttons. The others are suggestions of the text fields.
const maxButtons = 6

// choice is what the sign-in page shows.
type choice struct {
	current *signIn // nil if the browser is not signed in
	entered Session
	invalid map[string]string // messages by field
}

// option is a session that the sign-in page offers as a button.
type option struct {
	Name, Initials, Detail, Value string
	Color                         int
	Current                       bool
}

type parameter struct{ Name, Value string }

// choicePage is the data of choice.html.
type choicePage struct {
	// Action is where the forms lead, and Lead introduces them.
	Action, Lead         string
	Request              []parameter
	Options              []option
	Users, Organizations []string
	Entered              Session
	Invalid              map[string]string
	Cancel               string
}

// showChoice shows the page to choose a user, an organization and a role.
func (i *Issuer) showChoice(w http.ResponseWriter, status int, request authRequest, c choice) {
	page := choicePage{
		Action: "/authorize", Lead: "Choose who you are. There is no password on this machine.",
		Request: request.parameters(), Entered: c.entered, Invalid: c.invalid,
	}
	if request.userCode != "" {
		page.Action = "/device"
		page.Lead = "Choose who the device with the code " + request.userCode +
			" is for. Cancel if it shows another code."
		page.Cancel = "/device?" + url.Values{"user_code": {request.userCode}, "cancel": {""}}.Encode()
	} else {
		if request.client.registered {
			page.Lead = "The application “" + request.client.name + "” at " + origin(request.RedirectURI) +
				" wants to act for a user. Choose who, or cancel if you did not start it."
		}
		page.Cancel = i.answerURL(request, refusal{"access_denied", "The user canceled the sign-in."}.parameters())
	}
	known := i.signIns.suggestions.list()
	for n, session := range known {
		if n < maxButtons {
			page.Options = append(page.Options, i.newOption(session, c.current))
		}
		page.Users = append(page.Users, session.Subject)
		if session.Organization != "" {
			page.Organizations = append(page.Organizations, session.Organization)
		}
	}
	slices.Sort(page.Users)
	slices.Sort(page.Organizations)
	page.Users, page.Organizations = slices.Compact(page.Users), slices.Compact(page.Organizations)
	i.show(w, status, "choice.html", page, request.RedirectURI)
}

// origin returns the part of a URL that says whose it is; empty for a URL without a host.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// avatarColors is the number of colors that page.css has for avatars.
const avatarColors = 6

func (i *Issuer) newOption(session Session, current *signIn) option {
	o := option{
		Name: i.nameOf(session.Subject), Detail: "Without an organization",
		Value: url.Values{
			"subject": {session.Subject}, "organization": {session.Organization}, "role": {session.Role},
		}.Encode(),
		Current: current != nil && isSame(session, current.session),
	}
	if session.Organization != "" {
		o.Detail = strings.ToUpper(session.Role[:1]) + session.Role[1:] + " of " + session.Organization
	}
	words := strings.Fields(strings.TrimPrefix(o.Name, "user "))
	for _, word := range words[:min(len(words), 2)] {
		o.Initials += strings.ToUpper(string([]rune(word)[:1]))
	}
	for _, b := range []byte(session.Subject) {
		o.Color = (o.Color*31 + int(b)) % avatarColors
	}
	return o
}

// parameters returns what the forms of the sign-in page repeat.
func (a authRequest) parameters() []parameter {
	var all []parameter
	for _, name := range []string{
		"client_id", "redirect_uri", "response_type", "response_mode", "scope", "state", "nonce", "code_challenge",
		"code_challenge_method", "user_code",
	} {
		if a.values.Has(name) {
			all = append(all, parameter{name, a.values.Get(name)})
		}
	}
	return all
}

// chosenSession reads a form of the sign-in page: a button's value, or what was entered.
func chosenSession(form url.Values) Session {
	if button, err := url.ParseQuery(form.Get("choice")); err == nil && form.Has("choice") {
		form = button
	}
	return Session{
		Subject: strings.TrimSpace(form.Get("subject")), Organization: strings.TrimSpace(form.Get("organization")),
		Role: form.Get("role"),
	}
}

var (
	subjectPattern      = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
	organizationPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)
)

// checkSession returns messages by field: the service accepts no other users and organizations.
func checkSession(session Session) map[string]string {
	invalid := map[string]string{}
	if len(session.Subject) > maxSubject || !subjectPattern.MatchString(session.Subject) {
		invalid["subject"] = "Enter a user ID: 1 to 255 letters, digits and punctuation marks."
	}
	organization := session.Organization
	if organization != "" &&
		(!organizationPattern.MatchString(organization) || strings.HasPrefix(organization, "__")) {
		invalid["organization"] = "Enter at most 128 letters, digits, - and _ that do not begin with __."
	}
	if organization != "" && session.Role != roleAdmin && session.Role != roleMember {
		invalid["role"] = "Choose a role."
	}
	return invalid
}
