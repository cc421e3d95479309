package apikey

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"strings"
)

// The parts of a key: prefix, random part and checksum.
const (
	// Scheme begins every key. A bearer token with this prefix is a key; any other is a session token.
	Scheme         = "so_"
	randomLength   = 43 // base62 characters that hold 256 bits
	checksumLength = 6  // base62 characters that hold 32 bits
	// PrefixLength is the number of leading characters of a key that are stored and shown.
	PrefixLength = 11
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Generate makes a new key: "so_", 256 random bits and a checksum. The checksum lets secret scanners and the service
// detect a typo without a lookup.
func Generate() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	body := Scheme + base62(new(big.Int).SetBytes(b), randomLength)
	return body + checksum(body)
}

// WellFormed reports whether a token has the format and the checksum of a key.
func WellFormed(token string) bool {
	const body = len(Scheme) + randomLength
	if len(token) != body+checksumLength || !strings.HasPrefix(token, Scheme) {
		return false
	}
	return strings.Trim(token[len(Scheme):], alphabet) == "" && checksum(token[:body]) == token[body:]
}

// Hash returns the keyed hash of a key, the only form in which a key is stored. Without the pepper, a stolen database
// can't be used to check guesses.
func Hash(pepper []byte, token string) string {
	mac := hmac.New(sha256.New, pepper)
	mac.Write([]byte(token))
	return hex.EncodeToString(mac.Sum(nil))
}

func checksum(body string) string {
	return base62(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), checksumLength)
}

func base62(n *big.Int, length int) string {
	out := make([]byte, length)
	base, digit := big.NewInt(int64(len(alphabet))), new(big.Int)
	for i := length - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = alphabet[digit.Int64()]
	}
	return string(out)
}
