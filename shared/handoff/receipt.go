package handoff

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
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

// VerifyReceipt verifies a receipt with the published keys and returns its claims.
func VerifyReceipt(receipt string, keys KeySet) (ReceiptClaims, error) {
	var claims ReceiptClaims
	token, err := jwt.ParseSigned(receipt, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		return claims, fmt.Errorf("it is not a receipt: %w", err)
	}
	header := token.Headers[0]
	if kind := header.ExtraHeaders[jose.HeaderType]; kind != ReceiptType {
		return claims, fmt.Errorf("it is not a receipt: its type is %v, not %s", kind, ReceiptType)
	}
	known := keys.set.Key(header.KeyID)
	if len(known) == 0 {
		return claims, fmt.Errorf("the key set has no key %q, which signed the receipt", header.KeyID)
	}
	if err := token.Claims(known[0].Key, &claims); err != nil {
		return ReceiptClaims{}, fmt.Errorf("the signature is wrong: %w", err)
	}
	if claims.Issuer != Issuer || len(claims.Audience) > 0 {
		return ReceiptClaims{}, fmt.Errorf("the issuer is %q, want %q", claims.Issuer, Issuer)
	}
	if !claims.AllGone() {
		return ReceiptClaims{}, errors.New("it says of a resource that it was not observed gone")
	}
	return claims, nil
}
