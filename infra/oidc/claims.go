package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agents.example/controlplane/shared/identity"
)

const (
	maxSubjectBytes      = 255 // OpenID Connect Core 1.0, section 2
	maxOrganizationBytes = 128
)

// readSession checks and reads the claims of a session token.
func readSession(c object, issuer string, parties []string) (identity.Claims, error) {
	if err := errors.Join(checkParty(c, parties), checkStatus(c)); err != nil {
		return identity.Claims{}, err
	}
	subject, err := c.text("sub")
	if err != nil {
		return identity.Claims{}, err
	}
	if subject == "" || len(subject) > maxSubjectBytes || !isPrintable(subject) {
		return identity.Claims{}, fmt.Errorf("sub: not 1 to %d printable ASCII characters", maxSubjectBytes)
	}
	organization, role, err := readOrganization(c)
	if err != nil {
		return identity.Claims{}, err
	}
	email, emailErr := readEmail(c)
	name, nameErr := c.text("name")
	issuedAt, _, issuedAtErr := c.time("iat")
	return identity.Claims{
		Issuer: issuer, Subject: subject, Email: email, Name: name, OrganizationID: organization, Role: role,
		IssuedAt: issuedAt,
	}, errors.Join(emailErr, nameErr, issuedAtErr)
}

// readEmail reads the address of the user. It leaves out one that the provider says it has not verified: users give
// themselves any address, and agents and the audit log take it for the person who has it. A provider that says nothing,
// such as Clerk, issues verified addresses only.
func readEmail(c object) (string, error) {
	email, err := c.text("email")
	if c.has("email_verified") && strings.Trim(string(c["email_verified"]), `"`) != "true" { // some write it as text
		email = ""
	}
	return email, err
}

// checkParty checks which web app the token was issued to. Only tokens for browsers have an azp claim.
func checkParty(c object, allowed []string) error {
	party, err := c.text("azp")
	if err != nil {
		return err
	}
	if c.has("azp") && len(allowed) > 0 && !slices.Contains(allowed, party) {
		return errors.New("azp: not an authorized party")
	}
	return nil
}

// checkStatus refuses incomplete sessions. A session is "pending" while the user has a step left, such as choosing an
// organization or setting up a second factor. An unknown status counts as incomplete.
func checkStatus(c object) error {
	status, err := c.text("sts")
	if err != nil {
		return err
	}
	if status != "" && status != "active" {
		return errors.New("sts: the session is not active")
	}
	return nil
}

// readOrganization reads the active organization and the user's role in it. The provider omits the role's prefix
// "org:"; custom token templates include it.
func readOrganization(c object) (id string, role identity.Role, err error) {
	o, err := c.child("o")
	if err != nil {
		return "", "", err
	}
	id, err = o.text("id")
	if err != nil {
		return "", "", fmt.Errorf("o.%w", err)
	}
	rol, err := o.text("rol")
	switch {
	case err != nil:
		return "", "", fmt.Errorf("o.%w", err)
	case id == "":
		return "", "", nil
	case !isIdentifier(id):
		// The id becomes part of document paths and label values.
		return "", "", fmt.Errorf("o.id: not 1 to %d letters, digits, - and _", maxOrganizationBytes)
	case rol == "admin" || rol == "org:admin":
		return id, identity.RoleAdmin, nil
	default:
		return id, identity.RoleMember, nil
	}
}

// checkPush checks the claims of a push token. Google signs tokens with any audience for any of its customers, so only
// the service account proves the sender.
func checkPush(c object, o PushOptions) error {
	audience, err := c.audience()
	if err != nil {
		return err
	}
	email, err := c.text("email")
	switch {
	case err != nil:
		return err
	case audience != o.Audience:
		return errors.New("aud: not the configured audience")
	case email != o.ServiceAccount:
		return errors.New("email: not the configured service account")
	case string(c["email_verified"]) != "true":
		return errors.New("email_verified: not true")
	default:
		return nil
	}
}

// audience reads aud, a string or a list. A list with more than one audience is refused.
func (o object) audience() (string, error) {
	var audiences []string
	if o.has("aud") && o["aud"][0] == '[' {
		if err := json.Unmarshal(o["aud"], &audiences); err != nil || len(audiences) != 1 {
			return "", errors.New("aud: not exactly one audience")
		}
		return audiences[0], nil
	}
	return o.text("aud")
}

func isPrintable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 && strings.TrimSpace(s) == s
}

func isIdentifier(s string) bool {
	other := func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	return len(s) <= maxOrganizationBytes && strings.IndexFunc(s, other) < 0 && !strings.HasPrefix(s, "__")
}
