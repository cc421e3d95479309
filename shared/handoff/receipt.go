package handoff

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"agents.example/controlplane/shared/agent"
)

// ReceiptType is the type of a receipt's token.
const ReceiptType = "deletion-receipt+jwt"

// ReceiptClaims holds the claims of a receipt: at iat, the control plane had observed these facts. The receipt has no
// audience and no subject, so no agent accepts it as a link.
type ReceiptClaims struct {
	jwt.Claims
	OrganizationID string `json:"organization_id"`
	agent.DeletionFacts
}

// DeletionReceipt returns the receipt of a deletion, and nil until everything was observed gone.
func (s *Signer) DeletionReceipt(r agent.DeletionRecord, now time.Time) (*string, error) {
	facts := r.Show().DeletionFacts
	if s == nil || !facts.AllGone() {
		return nil, nil
	}
	return s.state(s.receipts, ReceiptClaims{
		Claims:         jwt.Claims{Issuer: Issuer, IssuedAt: jwt.NewNumericDate(now)},
		OrganizationID: r.OrganizationID, DeletionFacts: facts,
	})
}

// VerifyReceipt verifies a receipt with the published keys and returns its claims. It accepts no other token that these
// keys sign.
func VerifyReceipt(receipt string, keys KeySet) (ReceiptClaims, error) {
	claims, err := verify[ReceiptClaims](receipt, ReceiptType, keys)
	if err != nil {
		return ReceiptClaims{}, err
	}
	switch {
	case claims.Issuer != Issuer:
		return ReceiptClaims{}, fmt.Errorf("its issuer is %q, not %q", claims.Issuer, Issuer)
	case len(claims.Audience) > 0:
		return ReceiptClaims{}, fmt.Errorf("it has the audience %q, and a receipt has none", claims.Audience)
	case claims.IssuedAt == nil:
		return ReceiptClaims{}, errors.New("it does not say when it was signed")
	case !claims.AllGone():
		return ReceiptClaims{}, errors.New("it says of a resource that it was not observed gone")
	}
	return claims, nil
}
