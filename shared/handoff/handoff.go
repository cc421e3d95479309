// Package handoff knows the links by which an admin of an organization opens an agent's dashboard without its password:
// who gets one, what it says, and how it is signed. It does not know how an agent verifies it; what an agent has to
// check is said at Claims.
package handoff

import (
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
)

// Lifetime is how long a link is good.
const Lifetime = time.Minute

// Issuer is the iss of every link.
const Issuer = "agent-control-plane"

// Claims is what a link's token says. It is a JWT, signed with ES256 by a key of /.well-known/jwks.json that its kid
// names. An agent takes it once, and only if the signature is good, aud is its own hostname, iss is Issuer, and the
// present lies between iat and exp; it has to remember jti until exp. Clocks may differ by some seconds.
type Claims struct {
	jwt.Claims
	// AgentID is the agent whose dashboard is opened.
	AgentID string `json:"agent_id"`
	// OrganizationID is the organization whose admin opens it.
	OrganizationID string `json:"organization_id"`
}

// Signer makes links. A nil Signer makes none.
type Signer struct{ key Key }

// NewSigner makes a signer; it is nil without a key.
func NewSigner(key Key) *Signer {
	if key.jwk == nil {
		return nil
	}
	return &Signer{key}
}

// Link makes a link to the dashboard of an agent that runs, for the session of an admin; for everybody else there is
// none. API keys get none, because who has a link is let in as a person.
func (s *Signer) Link(a agent.Agent, caller identity.Caller, d agent.Addresses, now time.Time) (*string, error) {
	if s == nil || a.Status != agent.Running || !a.Routed || caller.Type != identity.Session || !caller.Admin() {
		return nil, nil
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: *s.key.jwk},
		(&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, err
	}
	token, err := jwt.Signed(signer).Claims(Claims{
		Claims: jwt.Claims{
			Issuer: Issuer, Subject: caller.ID, Audience: jwt.Audience{a.Hostname(d)}, ID: uuid.NewString(),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(Lifetime)),
		},
		AgentID: a.ID, OrganizationID: a.OrganizationID,
	}).Serialize()
	if err != nil {
		return nil, err
	}
	link := a.URL(d, "/handoff") + "?" + url.Values{"token": {token}}.Encode()
	return &link, nil
}
