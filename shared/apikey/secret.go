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
	// Scheme is how every key begins. A bearer token that begins with it is a key, any other a session.
	Scheme         = "so_"
	randomLength   = 43 // base62 characters that hold 256 bits
	checksumLength = 6  // base62 characters that hold 32 bits
	// PrefixLength is how many leading characters of a key are kept and shown.
	PrefixLength = 11
	alphabet     = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// Generate makes a new key: "so_", 256 random bits and a checksum, so that scanners and the service's own edge tell a
// typo without a look-up.
func Generate() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	body := Scheme + base62(new(big.Int).SetBytes(b), randomLength)
	return body + checksum(body)
}

// WellFormed reports whether a token has the form and the checksum of a key.
func WellFormed(token string) bool {
	const body = len(Scheme) + randomLength
	if len(token) != body+checksumLength || !strings.HasPrefix(token, Scheme) {
		return false
	}
	return strings.Trim(token[len(Scheme):], alphabet) == "" && checksum(token[:body]) == token[body:]
}

// Hash is the keyed hash of a key, the only form in which it is stored. The pepper keeps a stolen database from being a
// list of things to check guesses against.
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
