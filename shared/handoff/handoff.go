// Package handoff makes signed links with which an admin of an organization opens an agent's dashboard without its
// password, signed statements about audit logs, and receipts of deletions. It verifies receipts, and links for the
// control plane; Claims documents what an agent must check.
package handoff

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/identity"
)

// Lifetime is how long a link is valid.
const Lifetime = time.Minute

// Issuer is the iss claim of every link.
const Issuer = "agent-control-plane"

// Claims holds the claims of a link's token. The token is a JWT, signed with ES256 by the key in /.well-known/jwks.json
// that its kid names. An agent must check that the signature is valid, aud is the agent's hostname, iss is Issuer, and
// the current time lies between iat and exp, give or take a few seconds. It must accept each token only once, so it
// must remember jti until exp.
type Claims struct {
	jwt.Claims
	// AgentID is the agent whose dashboard the link opens.
	AgentID string `json:"agent_id"`
	// OrganizationID is the organization of the agent and the admin.
	OrganizationID string `json:"organization_id"`
	// Email is the admin's e-mail address, which the agent's container gets with each request of the session.
	Email string `json:"email,omitempty"`
	// SessionSubject and SessionIssuedAt are sub and iat of the session token with which the admin asked for the link.
	// They are for the control plane: what ends that session, ends the dashboard's, too.
	SessionSubject  string           `json:"session_sub,omitempty"`
	SessionIssuedAt *jwt.NumericDate `json:"session_iat,omitempty"`
}

// Signer makes links and statements. A nil Signer makes none: its methods return nil.
type Signer struct {
	signer jose.Signer
	// statements and receipts sign tokens of other types, which are no links.
	statements, receipts jose.Signer
	// err says why there is no signer. EnvDecode accepts only keys that have one.
	err error
}

// NewSigner returns a signer, or nil for the zero Key.
func NewSigner(key Key) *Signer {
	if key.jwk == nil {
		return nil
	}
	signing := jose.SigningKey{Algorithm: jose.ES256, Key: *key.jwk}
	signer, err := jose.NewSigner(signing, (&jose.SignerOptions{}).WithType("JWT"))
	statements, statementsErr := jose.NewSigner(signing, (&jose.SignerOptions{}).WithType(SealType))
	receipts, receiptsErr := jose.NewSigner(signing, (&jose.SignerOptions{}).WithType(ReceiptType))
	return &Signer{signer, statements, receipts, cmp.Or(err, statementsErr, receiptsErr)}
}

// Link returns a link to the dashboard of a running agent for an admin's session, and nil for any other agent or
// caller. API keys get no link, because the dashboard treats the holder of a link as a person.
func (s *Signer) Link(a agent.Agent, caller identity.Caller, d agent.Addresses, now time.Time) (*string, error) {
	if s == nil || a.Status != agent.Running || !a.Routed || caller.Type != identity.Session || !caller.Admin() {
		return nil, nil
	}
	if s.err != nil {
		return nil, s.err
	}
	claims, err := json.Marshal(Claims{
		Claims: jwt.Claims{
			Issuer: Issuer, Subject: caller.ID, Audience: jwt.Audience{a.Hostname(d)}, ID: uuid.NewString(),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(Lifetime)),
		},
		AgentID: a.ID, OrganizationID: a.OrganizationID, Email: mailOf(caller),
		SessionSubject: caller.Subject, SessionIssuedAt: jwt.NewNumericDate(caller.IssuedAt),
	})
	if err != nil {
		return nil, err
	}
	token, err := sign(s.signer, claims)
	if err != nil {
		return nil, err
	}
	link := a.URL(d, "/handoff") + "?" + url.Values{"token": {token}}.Encode()
	return &link, nil
}

// maxEmailBytes is the longest e-mail address (RFC 5321, 4.5.3.1.3). Fronts refuse tokens that are too long.
const maxEmailBytes = 254

// mailOf returns the address as the token holds it; empty for one that JSON would make longer.
func mailOf(caller identity.Caller) string {
	escaped := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }
	if len(caller.Email) > maxEmailBytes || strings.ContainsFunc(caller.Email, escaped) {
		return ""
	}
	return caller.Email
}

// sign makes a token. jwt.Signed would encode the claims three times.
func sign(signer jose.Signer, claims []byte) (string, error) {
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// SealType is the type of a statement's token.
const SealType = "audit-seal+jwt"

// SealClaims holds the claims of a statement: at iat, the seal was the newest of the organization's audit log. The
// statement has no audience, so no agent accepts it as a link.
type SealClaims struct {
	jwt.Claims
	OrganizationID string `json:"organization_id"`
	Sequence       int64  `json:"sequence"`
	Hash           string `json:"hash"`
}

// SealStatement states what the newest seal of an organization's audit log is.
func (s *Signer) SealStatement(organizationID string, newest seal.Anchor, now time.Time) (*string, error) {
	if s == nil {
		return nil, nil
	}
	return s.state(s.statements, SealClaims{
		Claims:         jwt.Claims{Issuer: Issuer, IssuedAt: jwt.NewNumericDate(now)},
		OrganizationID: organizationID, Sequence: newest.Sequence, Hash: newest.Hash,
	})
}

// state signs claims that are no link.
func (s *Signer) state(signer jose.Signer, statement any) (*string, error) {
	if s.err != nil {
		return nil, s.err
	}
	claims, err := json.Marshal(statement)
	if err != nil {
		return nil, err
	}
	token, err := sign(signer, claims)
	if err != nil {
		return nil, err
	}
	return &token, nil
}
