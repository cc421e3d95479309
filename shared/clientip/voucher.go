package clientip

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
)

// VouchedHeader has the address of the client on whose behalf a function calls the API, and the proof that a function
// wrote it. Load balancers pass it on.
const VouchedHeader = "X-Edge-Vouched-Address"

// Voucher lets functions report the addresses of the clients whose calls they forward. The proof covers the token of
// the call, so it is of no use for calls with another token. The zero value vouches for no one and accepts no proof.
type Voucher struct{ keys [][sha256.Size]byte }

// NewVoucher returns a voucher with secrets that only functions know. It proves with the first one and accepts all.
func NewVoucher(secrets ...[]byte) Voucher {
	v := Voucher{keys: make([][sha256.Size]byte, len(secrets))}
	for i, secret := range secrets {
		v.keys[i] = sha256.Sum256(append([]byte("forwarded client address\n"), secret...))
	}
	return v
}

// Vouch adds the address of the client to the header of a request, which has its token already.
func (v Voucher) Vouch(h http.Header, address string) {
	h.Del(VouchedHeader)
	if len(v.keys) > 0 {
		h.Set(VouchedHeader, address+" "+base64.RawURLEncoding.EncodeToString(proof(v.keys[0], h, address)))
	}
}

// vouched returns the address that a function reports, and whether it proved to be one.
func (v Voucher) vouched(h http.Header) (address string, ok bool) {
	value := h.Get(VouchedHeader)
	if value == "" {
		return "", false
	}
	address, sent, _ := strings.Cut(value, " ")
	got, err := base64.RawURLEncoding.DecodeString(sent)
	if err != nil {
		return "", false
	}
	for _, key := range v.keys {
		ok = hmac.Equal(got, proof(key, h, address)) || ok
	}
	return address, ok
}

func proof(key [sha256.Size]byte, h http.Header, address string) []byte {
	mac := hmac.New(sha256.New, key[:])
	token := sha256.Sum256([]byte(h.Get("Authorization")))
	mac.Write(token[:])
	mac.Write([]byte(address))
	return mac.Sum(nil)
}
