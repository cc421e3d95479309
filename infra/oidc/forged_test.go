package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
	"time"
)

// forgedHeaders returns tokens that are valid except for the part of the header that each name describes.
func forgedHeaders(f *sessionFixture) map[string]string {
	claims := f.claims().String()
	jwk, _ := json.Marshal(publicJWK("k1", unpublishedKey()))
	with := func(k *rsa.PrivateKey, changes ...string) string {
		return sign(k, header("k1").with(changes...).String(), claims)
	}
	return map[string]string{
		"alg none":                    with(testKey(0), "alg", `"none"`),
		"alg none without signature":  b64(header("k1").with("alg", `"none"`).String()) + "." + b64(claims) + ".",
		"alg None":                    with(testKey(0), "alg", `"None"`),
		"alg rs256":                   with(testKey(0), "alg", `"rs256"`),
		"alg RS384 signed with RS256": with(testKey(0), "alg", `"RS384"`),
		"alg PS256 signed with RS256": with(testKey(0), "alg", `"PS256"`),
		"alg missing":                 with(testKey(0), "alg", ""),
		"alg null":                    with(testKey(0), "alg", "null"),
		"alg a list":                  with(testKey(0), "alg", `["RS256"]`),
		"alg with a space":            with(testKey(0), "alg", `"RS256 "`),
		"alg twice":                   sign(testKey(0), header("k1").withRaw(`"alg":"RS256"`), claims),
		"alg twice, none first": sign(testKey(0), header("k1").with("alg", "").withRaw(`"alg":"none","alg":"RS256"`),
			claims),
		"alg in two cases":            sign(testKey(0), header("k1").withRaw(`"ALG":"none"`), claims),
		"kid missing":                 with(testKey(0), "kid", ""),
		"kid empty":                   with(testKey(0), "kid", `""`),
		"kid null":                    with(testKey(0), "kid", "null"),
		"kid a number":                with(testKey(0), "kid", "1"),
		"kid a list":                  with(testKey(0), "kid", `["k1"]`),
		"kid twice":                   sign(testKey(0), header("k1").withRaw(`"kid":"k1"`), claims),
		"kid a path":                  with(unpublishedKey(), "kid", `"../../../../dev/null"`),
		"kid a URL":                   with(unpublishedKey(), "kid", `"`+f.URL+`/keys"`),
		"kid SQL":                     with(unpublishedKey(), "kid", `"k1' UNION SELECT 'key' --"`),
		"kid a command":               with(unpublishedKey(), "kid", `"k1|id"`),
		"kid with NUL":                with(testKey(0), "kid", `"k1\u0000"`),
		"kid in capitals":             with(testKey(0), "kid", `"K1"`),
		"kid of 300 bytes":            with(testKey(0), "kid", `"`+strings.Repeat("k", 300)+`"`),
		"kid unknown":                 with(testKey(0), "kid", `"k9"`),
		"jku to the attacker's keys":  with(unpublishedKey(), "jku", `"https://evil.example.com/keys"`),
		"jwk with the attacker's key": with(unpublishedKey(), "jwk", string(jwk)),
		"x5u to the attacker's keys":  with(unpublishedKey(), "x5u", `"https://evil.example.com/cert"`),
		"x5c with nonsense":           with(testKey(0), "x5c", `["AAAA"]`),
		"crit with an unknown name":   with(testKey(0), "crit", `["exp"]`),
		"crit empty":                  with(testKey(0), "crit", "[]"),
		"crit b64":                    with(testKey(0), "crit", `["b64"]`, "b64", "true"),
		"b64 false":                   with(testKey(0), "b64", "false"),
		"typ of an access token":      with(testKey(0), "typ", `"at+jwt"`),
		"typ of a logout token":       with(testKey(0), "typ", `"logout+jwt"`),
		"typ a number":                with(testKey(0), "typ", "1"),
		"header a list":               sign(testKey(0), "["+header("k1").String()+"]", claims),
		"header null":                 sign(testKey(0), "null", claims),
		"header followed by another":  sign(testKey(0), header("k1").String()+header("k1").String(), claims),
		"header cut off":              sign(testKey(0), strings.TrimSuffix(header("k1").String(), "}"), claims),
		"header not UTF-8":            sign(testKey(0), header("k1").withRaw("\"x\":\"\xff\""), claims),
		"header bomb": sign(testKey(0), header("k1").withRaw(`"x":`+strings.Repeat("[", 3000)),
			claims),
		"key of another use":            with(testKey(1), "kid", `"encryption"`),
		"key for another algorithm":     with(testKey(1), "kid", `"rs512"`),
		"key too short":                 with(testKey(3), "kid", `"short"`),
		"private-looking symmetric key": with(testKey(1), "kid", `"symmetric"`),
	}
}

// malformedTokens returns tokens with a wrong form or signature.
func malformedTokens(f *sessionFixture) map[string]string {
	good, claims := f.validToken(), f.claims().String()
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	admin := f.claims().with("sub", `"user_2"`).String()
	der, _ := x509.MarshalPKIXPublicKey(testKey(0).Public())
	asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return map[string]string{
		"empty":                      "",
		"dots":                       "..",
		"one part":                   head,
		"no signature":               head + "." + body,
		"empty signature":            head + "." + body + ".",
		"four parts":                 good + "." + signature,
		"five parts, as encrypted":   good + "." + body + "." + signature,
		"no payload":                 head + ".." + signature,
		"another payload":            head + "." + b64(admin) + "." + signature,
		"another header":             b64(header("k1").withRaw(`"x":1`)) + "." + body + "." + signature,
		"signature cut off":          good[:len(good)-4],
		"signature of zeros":         head + "." + body + "." + b64(string(make([]byte, 256))),
		"signature of another token": head + "." + b64(admin) + "." + signature,
		"signature in other letters": good[:len(good)-1] + equivalentLetter(good[len(good)-1]),
		"padded":                     good + "==",
		"standard base64": head + "." + body + "." +
			base64.StdEncoding.EncodeToString([]byte("\xff\xfe\xfd")),
		"leading space":       " " + good,
		"trailing line break": good + "\n",
		"line break inside":   head + ".\n" + body + "." + signature,
		"with its scheme":     "Bearer " + good,
		"JSON serialization": fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, head, body,
			signature),
		"signed by a stranger":      sign(unpublishedKey(), header("k1").String(), claims),
		"HS256 with the public DER": hs256(der, claims),
		"HS256 with the public PEM": hs256(asPEM, claims),
		"HS256 with the modulus":    hs256(testKey(0).N.Bytes(), claims),
		"HS256 with nothing":        hs256(nil, claims),
		"ES256 with psychic zeros": b64(header("k1").with("alg", `"ES256"`).String()) + "." + body + "." +
			b64(string(make([]byte, 64))),
		"ES256 with a stranger's key": es256(claims),
		"PS256 truly signed":          ps256(claims),
		"RS512 truly signed":          rs512(claims),
		"more than 8 KiB": sign(testKey(0), header("k1").String(),
			f.claims().with("x", `"`+strings.Repeat("x", 8<<10)+`"`).String()),
		"a megabyte": strings.Repeat("A", 1<<20),
		"an API key": "so_" + strings.Repeat("a", 49),
		"NUL":        "\x00",
	}
}

// forgedClaims returns signed tokens that are valid except for the claim that each name describes.
func forgedClaims(f *sessionFixture) map[string]string {
	rows := map[string]string{
		"iss missing": f.claims().with("iss", "").String(),
		"sub twice":   f.claims().withRaw(`"sub":"user_2"`), "sub in two cases": f.claims().withRaw(`"Sub":"user_2"`),
		"sub with a long s":    f.claims().withRaw(`"ſub":"user_2"`),
		"iss with a long s":    f.claims().withRaw(`"iſs":"` + f.URL + `"`),
		"exp twice":            f.claims().withRaw(`"exp":` + f.timestampIn(time.Hour)),
		"o twice":              f.claims().withRaw(`"o":{"id":"org_2","rol":"admin"}`),
		"azp twice":            f.claims().withRaw(`"azp":"` + webApp + `"`),
		"sts twice":            f.claims().withRaw(`"sts":"active"`),
		"iss only in capitals": f.claims().with("iss", "").withRaw(`"ISS":"` + f.URL + `"`),
		"sub only in capitals": f.claims().with("sub", "").withRaw(`"SUB":"user_1"`),
		"exp only in capitals": f.claims().with("exp", "").withRaw(`"EXP":` + f.timestampIn(time.Hour)),
		"not an object":        "[" + f.claims().String() + "]", "not JSON": "sub=user_1", "null": "null",
		"a string":    `"user_1"`,
		"two objects": f.claims().String() + f.claims().String(),
		"cut off":     strings.TrimSuffix(f.claims().String(), "}"),
		"not UTF-8":   f.claims().withRaw("\"x\":\"\xff\""),
		"a bomb":      f.claims().withRaw(`"x":` + strings.Repeat("[", 4000)),
	}
	add := func(claim string, values ...string) {
		for _, v := range values {
			rows[claim+" "+v] = f.claims().with(claim, v).String()
		}
	}
	u := `"` + f.URL
	add("iss", u+`/"`, u+`.evil.example.com"`, `"https://evil.example.com"`, `"`+strings.ToUpper(f.URL)+`"`, u+` "`,
		`["`+f.URL+`"]`, "null", `""`, "1",
		`"accounts.google.com"`)
	rows["exp missing"] = f.claims().with("exp", "").String()
	add("exp", "null", `"`+f.timestampIn(time.Minute)+`"`, "0", "-1", "1e30", "1e400", "9223372036854775807",
		"253402300800",
		"true", "[]", "{}",
		f.timestampIn(-time.Hour), `"2099-01-01T00:00:00Z"`, "1800000060000")
	add("nbf", f.timestampIn(time.Hour), "1e30", `"0"`, "null", "-5", "true", "[]")
	add("iat", f.timestampIn(time.Hour), `"now"`, "{}")
	add("azp", `"https://evil.example.com"`, `"`+webApp+`/"`, `""`, "1", `["`+webApp+`"]`,
		`"https://app.example.com.evil.example.com"`)
	add("sts", `"pending"`, `"PENDING"`, `"unknown"`, "1", `["active"]`)
	rows["sub missing"] = f.claims().with("sub", "").String()
	add("sub", `""`, `" "`, "null", "1", `["user_1"]`, `{"id":"user_1"}`, `"user_1\u0000"`, `"usér"`, `"\ud800"`, `"`+
		strings.Repeat("u", 256)+`"`)
	add("o", `[]`, `"org_1"`, "1", "true", `{"id":1}`, `{"id":["org_1"]}`, `{"id":{}}`, `{"id":"org_1","rol":1}`,
		`{"id":"org_1","rol":["admin"]}`,
		`{"id":"org_1","rol":true}`, `{"id":"org_1","id":"org_2"}`, `{"id":"org_1","ID":"org_2"}`,
		`{"id":"org_1","rol":"member","rol":"admin"}`,
		`{"id":"../org_2"}`, `{"id":"org_1/agents"}`, `{"id":".."}`, `{"id":"__org__"}`, `{"id":"org 1"}`, `{"id":"`+
			strings.Repeat("o", 129)+`"}`)
	add("email", "1", `["a@example.com"]`)
	add("name", "{}")
	tokens := make(map[string]string, len(rows))
	for name, payload := range rows {
		tokens[name] = sign(testKey(0), header("k1").String(), payload)
	}
	return tokens
}

func TestSessions_RefuseForgedTokens(t *testing.T) {
	t.Parallel()
	// All rows share one verifier: no token may change the verdict on another.
	f := newSessionFixture(t)
	symmetric, _ := json.Marshal(map[string]string{
		"kty": "oct", "kid": "symmetric", "alg": "HS256", "k": b64(string(testKey(1).N.Bytes())),
	})
	encryption, other, short := publicJWK("encryption", testKey(1)), publicJWK("rs512", testKey(1)),
		publicJWK("short", testKey(3))
	encryption.Use, other.Algorithm = "enc", "RS512"
	f.extra = []string{string(symmetric), `{"kty":"nonsense"}`, `7`}
	f.publish(encryption, other, short, publicJWK("k1", testKey(0)), publicJWK("k1", unpublishedKey()))
	mustAccept(t, f.verify(t, f.validToken()))
	total := 0
	for group, rows := range map[string]map[string]string{
		"header": forgedHeaders(f), "form": malformedTokens(f),
		"claims": forgedClaims(f),
	} {
		for name, token := range rows {
			total++
			t.Run(group+"/"+name, func(t *testing.T) {
				mustRefuse(t, f.verify(t, token))
				mustRefuse(t, f.verify(t, token))
			})
		}
	}
	mustAccept(t, f.verify(t, f.validToken()))
	// Unknown headers that are not critical are ignored. These tokens differ from refused ones only in the signature.
	for _, name := range []string{"jku", "x5u"} {
		mustAccept(t, f.verify(t, sign(testKey(0), header("k1").with(name, `"https://evil.example.com/keys"`).String(),
			f.claims().String())))
	}
	if total < 150 {
		t.Errorf("the tables have %d tokens, want at least 150", total)
	}
}

// equivalentLetter returns another base64url letter that decodes to the same bits where only its first two bits count.
func equivalentLetter(c byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, c)^1])
}

func hs256(secret []byte, claims string) string {
	input := b64(header("k1").with("alg", `"HS256"`).String()) + "." + b64(claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + b64(string(mac.Sum(nil)))
}

func es256(claims string) string {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	input := b64(header("k1").with("alg", `"ES256"`).String()) + "." + b64(claims)
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
	if err != nil {
		panic(err)
	}
	return input + "." + b64(string(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)))
}

func ps256(claims string) string {
	input := b64(header("k1").with("alg", `"PS256"`).String()) + "." + b64(claims)
	sum := sha256.Sum256([]byte(input))
	signature, err := rsa.SignPSS(rand.Reader, testKey(0), crypto.SHA256, sum[:],
		&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	if err != nil {
		panic(err)
	}
	return input + "." + b64(string(signature))
}

func rs512(claims string) string {
	input := b64(header("k1").with("alg", `"RS512"`).String()) + "." + b64(claims)
	h := crypto.SHA512.New()
	h.Write([]byte(input))
	signature, err := rsa.SignPKCS1v15(rand.Reader, testKey(0), crypto.SHA512, h.Sum(nil))
	if err != nil {
		panic(err)
	}
	return input + "." + b64(string(signature))
}
