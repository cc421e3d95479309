package handoff

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/identity"
)

// linkType is the type of a link's token.
const linkType = "JWT"

// leeway is the difference of two clocks that is allowed.
const leeway = 5 * time.Second

// VerifySession verifies the token of a link whose session may still go on: the link itself may have expired.
func VerifySession(link string, keys KeySet, now time.Time) (Claims, error) {
	claims, err := verify[Claims](link, linkType, keys)
	switch {
	case err != nil:
		return Claims{}, err
	case claims.Issuer != Issuer:
		return Claims{}, fmt.Errorf("its issuer is %q, not %q", claims.Issuer, Issuer)
	case claims.IssuedAt == nil || claims.OrganizationID == "":
		return Claims{}, errors.New("its claims are incomplete")
	case claims.IssuedAt.Time().After(now.Add(leeway)):
		return Claims{}, errors.New("it was issued in the future")
	case now.After(claims.IssuedAt.Time().Add(Lifetime + dataplane.SessionTime + leeway)):
		return Claims{}, errors.New("its session is over")
	}
	return claims, nil
}

// EndedBy reports whether the end of a user's sessions at a time ended the session with the link, too. A link of a
// former release does not say when the session began; it counts as older.
func (c Claims) EndedBy(end time.Time) bool {
	var issuedAt time.Time
	if c.SessionIssuedAt != nil {
		issuedAt = c.SessionIssuedAt.Time()
	}
	return identity.EndedBy(issuedAt, end)
}

// verify returns the claims of a token of a type, which one of the keys signed. Its errors do not quote the token.
func verify[Claims any](text, kind string, keys KeySet) (claims Claims, err error) {
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return claims, errors.New("it is not a token that is signed with ES256")
	}
	header := token.Headers[0]
	if got, _ := header.ExtraHeaders[jose.HeaderType].(string); got != kind {
		return claims, fmt.Errorf("its type is %q, not %q", got, kind)
	}
	known := keys.set.Key(header.KeyID)
	if len(known) == 0 {
		return claims, fmt.Errorf("the key set has no key %q, which signed it", header.KeyID)
	}
	if token.Claims(known[0].Key, &claims) != nil {
		return claims, errors.New("its signature is wrong")
	}
	return claims, nil
}
