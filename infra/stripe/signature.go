package stripe

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxSignatureAge bounds the age of an event's signature, so that a recorded event cannot be replayed later. A
// signature may lie as far in the future, because clocks differ.
const maxSignatureAge = 5 * time.Minute

// Reasons to refuse a signature.
var (
	errUnsigned = errors.New("the header of the signature is missing or not valid")
	errUnequal  = errors.New("no signature of the header is one of the body")
	errTime     = errors.New("the signature is too old, or of the future")
)

// verifySignature verifies the header Stripe-Signature of a body, such as "t=1767225600,v1=5257a8,v1=f4c2". It has
// several signatures while the endpoint's secret is replaced, and those of other schemes than v1 prove nothing.
func verifySignature(body []byte, header, secret string) error {
	var at int64
	var signatures [][]byte
	for pair := range strings.SplitSeq(header, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return errUnsigned
		}
		var err error
		switch name {
		case "t":
			if at, err = strconv.ParseInt(value, 10, 64); err != nil {
				return errUnsigned
			}
		case "v1":
			if signature, err := hex.DecodeString(value); err == nil {
				signatures = append(signatures, signature)
			}
		}
	}
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at, body) // a hash never fails
	want := mac.Sum(nil)
	for _, signature := range signatures {
		if !hmac.Equal(signature, want) {
			continue
		}
		if time.Since(time.Unix(at, 0)).Abs() > maxSignatureAge {
			return errTime
		}
		return nil
	}
	return errUnequal
}
