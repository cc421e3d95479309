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

// readSession checks the claims of a session token and reads what they say.
func readSession(c object, issuer string, parties []string) (identity.Claims, error) {
	if err := errors.Join(checkParty(c, parties), checkStatus(c)); err != nil {
		return identity.Claims{}, err
	}
	subject, err := c.text("sub")
	if err != nil {
		return identity.Claims{}, err
	}
	if subject == "" || len(subject) > maxSubjectBytes || !printable(subject) {
		return identity.Claims{}, fmt.Errorf("sub: not 1 to %d printable ASCII characters", maxSubjectBytes)
	}
	organization, role, err := readOrganization(c)
	if err != nil {
		return identity.Claims{}, err
	}
	email, emailErr := c.text("email")
	name, nameErr := c.text("name")
	return identity.Claims{
		Issuer: issuer, Subject: subject, Email: email, Name: name, OrganizationID: organization, Role: role,
	}, errors.Join(emailErr, nameErr)
}

// checkParty checks who the token was made for. Tokens for other than browsers have no azp.
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

// checkStatus refuses sessions that are not complete: "pending" is the session of a user who has still to do something,
// such as to choose an organization or to set up a second factor. A status that is unknown here is no complete session
// either.
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

// readOrganization reads the active organization and the role in it. The provider writes the role without its prefix
// "org:"; custom token templates write it with the prefix.
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
	case !identifier(id):
		// The id becomes part of document paths and label values.
		return "", "", fmt.Errorf("o.id: not 1 to %d letters, digits, - and _", maxOrganizationBytes)
	case rol == "admin" || rol == "org:admin":
		return id, identity.RoleAdmin, nil
	default:
		return id, identity.RoleMember, nil
	}
}

// checkPush checks the claims of a push token. Google signs tokens for whoever asks, with any audience: it is the
// account that counts.
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
		return errors.New("aud: another audience")
	case email != o.ServiceAccount:
		return errors.New("email: another account")
	case string(c["email_verified"]) != "true":
		return errors.New("email_verified: not true")
	default:
		return nil
	}
}

// audience reads aud, which may be a string or a list; a list of several is nobody's alone and is refused.
func (o object) audience() (string, error) {
	var several []string
	if o.has("aud") && o["aud"][0] == '[' {
		if err := json.Unmarshal(o["aud"], &several); err != nil || len(several) != 1 {
			return "", errors.New("aud: not exactly one audience")
		}
		return several[0], nil
	}
	return o.text("aud")
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 && strings.TrimSpace(s) == s
}

func identifier(s string) bool {
	other := func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	return len(s) <= maxOrganizationBytes && strings.IndexFunc(s, other) < 0 && !strings.HasPrefix(s, "__")
}
