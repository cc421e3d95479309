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

// Each row is one way to get in without a good token. The token is good but for what the row names.
func hostileHeaders(w *world) map[string]string {
	claims := w.claims().String()
	jwk, _ := json.Marshal(public("k1", stranger()))
	with := func(k *rsa.PrivateKey, changes ...string) string {
		return sign(k, header("k1").with(changes...).String(), claims)
	}
	return map[string]string{
		"alg none":                    with(key(0), "alg", `"none"`),
		"alg none without signature":  b64(header("k1").with("alg", `"none"`).String()) + "." + b64(claims) + ".",
		"alg None":                    with(key(0), "alg", `"None"`),
		"alg rs256":                   with(key(0), "alg", `"rs256"`),
		"alg RS384 signed with RS256": with(key(0), "alg", `"RS384"`),
		"alg PS256 signed with RS256": with(key(0), "alg", `"PS256"`),
		"alg missing":                 with(key(0), "alg", ""),
		"alg null":                    with(key(0), "alg", "null"),
		"alg a list":                  with(key(0), "alg", `["RS256"]`),
		"alg with a space":            with(key(0), "alg", `"RS256 "`),
		"alg twice":                   sign(key(0), header("k1").and(`"alg":"RS256"`), claims),
		"alg twice, none first": sign(key(0), header("k1").with("alg", "").and(`"alg":"none","alg":"RS256"`),
			claims),
		"alg in two cases":              sign(key(0), header("k1").and(`"ALG":"none"`), claims),
		"kid missing":                   with(key(0), "kid", ""),
		"kid empty":                     with(key(0), "kid", `""`),
		"kid null":                      with(key(0), "kid", "null"),
		"kid a number":                  with(key(0), "kid", "1"),
		"kid a list":                    with(key(0), "kid", `["k1"]`),
		"kid twice":                     sign(key(0), header("k1").and(`"kid":"k1"`), claims),
		"kid a path":                    with(stranger(), "kid", `"../../../../dev/null"`),
		"kid a URL":                     with(stranger(), "kid", `"`+w.URL+`/keys"`),
		"kid SQL":                       with(stranger(), "kid", `"k1' UNION SELECT 'key' --"`),
		"kid a command":                 with(stranger(), "kid", `"k1|id"`),
		"kid with NUL":                  with(key(0), "kid", `"k1\u0000"`),
		"kid in capitals":               with(key(0), "kid", `"K1"`),
		"kid of 300 bytes":              with(key(0), "kid", `"`+strings.Repeat("k", 300)+`"`),
		"kid unknown":                   with(key(0), "kid", `"k9"`),
		"jku to the attacker's keys":    with(stranger(), "jku", `"https://evil.example.com/keys"`),
		"jwk with the attacker's key":   with(stranger(), "jwk", string(jwk)),
		"x5u to the attacker's keys":    with(stranger(), "x5u", `"https://evil.example.com/cert"`),
		"x5c with nonsense":             with(key(0), "x5c", `["AAAA"]`),
		"crit with an unknown name":     with(key(0), "crit", `["exp"]`),
		"crit empty":                    with(key(0), "crit", "[]"),
		"crit b64":                      with(key(0), "crit", `["b64"]`, "b64", "true"),
		"b64 false":                     with(key(0), "b64", "false"),
		"typ of an access token":        with(key(0), "typ", `"at+jwt"`),
		"typ of a logout token":         with(key(0), "typ", `"logout+jwt"`),
		"typ a number":                  with(key(0), "typ", "1"),
		"header a list":                 sign(key(0), "["+header("k1").String()+"]", claims),
		"header null":                   sign(key(0), "null", claims),
		"header followed by another":    sign(key(0), header("k1").String()+header("k1").String(), claims),
		"header cut off":                sign(key(0), strings.TrimSuffix(header("k1").String(), "}"), claims),
		"header not UTF-8":              sign(key(0), header("k1").and("\"x\":\"\xff\""), claims),
		"header bomb":                   sign(key(0), header("k1").and(`"x":`+strings.Repeat("[", 3000)), claims),
		"key of another use":            with(key(1), "kid", `"encryption"`),
		"key for another algorithm":     with(key(1), "kid", `"rs512"`),
		"key too short":                 with(key(3), "kid", `"short"`),
		"private-looking symmetric key": with(key(1), "kid", `"symmetric"`),
	}
}

func hostileForms(w *world) map[string]string {
	good, claims := w.good(), w.claims().String()
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	admin := w.claims().with("sub", `"user_2"`).String()
	der, _ := x509.MarshalPKIXPublicKey(key(0).Public())
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
		"another header":             b64(header("k1").and(`"x":1`)) + "." + body + "." + signature,
		"signature cut off":          good[:len(good)-4],
		"signature of zeros":         head + "." + body + "." + b64(string(make([]byte, 256))),
		"signature of another token": head + "." + b64(admin) + "." + signature,
		"signature in other letters": good[:len(good)-1] + sibling(good[len(good)-1]),
		"padded":                     good + "==",
		"standard base64": head + "." + body + "." +
			base64.StdEncoding.EncodeToString([]byte("\xff\xfe\xfd")),
		"leading space":       " " + good,
		"trailing line break": good + "\n",
		"line break inside":   head + ".\n" + body + "." + signature,
		"with its scheme":     "Bearer " + good,
		"JSON serialization": fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, head, body,
			signature),
		"signed by a stranger":      sign(stranger(), header("k1").String(), claims),
		"HS256 with the public DER": hs256(der, claims),
		"HS256 with the public PEM": hs256(asPEM, claims),
		"HS256 with the modulus":    hs256(key(0).N.Bytes(), claims),
		"HS256 with nothing":        hs256(nil, claims),
		"ES256 with psychic zeros": b64(header("k1").with("alg", `"ES256"`).String()) + "." + body + "." +
			b64(string(make([]byte, 64))),
		"ES256 with a stranger's key": es256(claims),
		"PS256 truly signed":          ps256(claims),
		"RS512 truly signed":          rs512(claims),
		"more than 8 KiB": sign(key(0), header("k1").String(),
			w.claims().with("x", `"`+strings.Repeat("x", 8<<10)+`"`).String()),
		"a megabyte": strings.Repeat("A", 1<<20),
		"an API key": "so_" + strings.Repeat("a", 49),
		"NUL":        "\x00",
	}
}

func hostileClaims(w *world) map[string]string {
	rows := map[string]string{
		"iss missing": w.claims().with("iss", "").String(),
		"sub twice":   w.claims().and(`"sub":"user_2"`), "sub in two cases": w.claims().and(`"Sub":"user_2"`),
		"sub with a long s": w.claims().and(`"ſub":"user_2"`),
		"iss with a long s": w.claims().and(`"iſs":"` + w.URL + `"`),
		"exp twice":         w.claims().and(`"exp":` + w.after(time.Hour)),
		"o twice":           w.claims().and(`"o":{"id":"org_2","rol":"admin"}`),
		"azp twice":         w.claims().and(`"azp":"` + webApp + `"`), "sts twice": w.claims().and(`"sts":"active"`),
		"iss only in capitals": w.claims().with("iss", "").and(`"ISS":"` + w.URL + `"`),
		"sub only in capitals": w.claims().with("sub", "").and(`"SUB":"user_1"`),
		"exp only in capitals": w.claims().with("exp", "").and(`"EXP":` + w.after(time.Hour)),
		"not an object":        "[" + w.claims().String() + "]", "not JSON": "sub=user_1", "null": "null",
		"a string":    `"user_1"`,
		"two objects": w.claims().String() + w.claims().String(),
		"cut off":     strings.TrimSuffix(w.claims().String(), "}"),
		"not UTF-8":   w.claims().and("\"x\":\"\xff\""), "a bomb": w.claims().and(`"x":` + strings.Repeat("[", 4000)),
	}
	one := func(claim string, values ...string) {
		for _, v := range values {
			rows[claim+" "+v] = w.claims().with(claim, v).String()
		}
	}
	u := `"` + w.URL
	one("iss", u+`/"`, u+`.evil.example.com"`, `"https://evil.example.com"`, `"`+strings.ToUpper(w.URL)+`"`, u+` "`,
		`["`+w.URL+`"]`, "null", `""`, "1",
		`"accounts.google.com"`)
	rows["exp missing"] = w.claims().with("exp", "").String()
	one("exp", "null", `"`+w.after(time.Minute)+`"`, "0", "-1", "1e30", "1e400", "9223372036854775807", "253402300800",
		"true", "[]", "{}",
		w.after(-time.Hour), `"2099-01-01T00:00:00Z"`, "1800000060000")
	one("nbf", w.after(time.Hour), "1e30", `"0"`, "null", "-5", "true", "[]")
	one("iat", w.after(time.Hour), `"now"`, "{}")
	one("azp", `"https://evil.example.com"`, `"`+webApp+`/"`, `""`, "1", `["`+webApp+`"]`,
		`"https://app.example.com.evil.example.com"`)
	one("sts", `"pending"`, `"PENDING"`, `"unknown"`, "1", `["active"]`)
	rows["sub missing"] = w.claims().with("sub", "").String()
	one("sub", `""`, `" "`, "null", "1", `["user_1"]`, `{"id":"user_1"}`, `"user_1\u0000"`, `"usér"`, `"\ud800"`, `"`+
		strings.Repeat("u", 256)+`"`)
	one("o", `[]`, `"org_1"`, "1", "true", `{"id":1}`, `{"id":["org_1"]}`, `{"id":{}}`, `{"id":"org_1","rol":1}`,
		`{"id":"org_1","rol":["admin"]}`,
		`{"id":"org_1","rol":true}`, `{"id":"org_1","id":"org_2"}`, `{"id":"org_1","ID":"org_2"}`,
		`{"id":"org_1","rol":"member","rol":"admin"}`,
		`{"id":"../org_2"}`, `{"id":"org_1/agents"}`, `{"id":".."}`, `{"id":"__org__"}`, `{"id":"org 1"}`, `{"id":"`+
			strings.Repeat("o", 129)+`"}`)
	one("email", "1", `["a@example.com"]`)
	one("name", "{}")
	tokens := make(map[string]string, len(rows))
	for name, payload := range rows {
		tokens[name] = sign(key(0), header("k1").String(), payload)
	}
	return tokens
}

func TestHostileTokensAreRefused(t *testing.T) {
	t.Parallel()
	// One world for all rows: none may leave anything behind that lets another in, or keeps the good one out.
	w := newWorld(t)
	symmetric, _ := json.Marshal(map[string]string{"kty": "oct", "kid": "symmetric", "alg": "HS256",
		"k": b64(string(key(1).N.Bytes()))})
	encryption, other, short := public("encryption", key(1)), public("rs512", key(1)), public("short", key(3))
	encryption.Use, other.Algorithm = "enc", "RS512"
	w.extra = []string{string(symmetric), `{"kty":"nonsense"}`, `7`}
	w.publish(encryption, other, short, public("k1", key(0)), public("k1", stranger()))
	mustAccept(t, w.check(t, w.good()))
	total := 0
	for group, rows := range map[string]map[string]string{"header": hostileHeaders(w), "form": hostileForms(w),
		"claims": hostileClaims(w)} {
		for name, token := range rows {
			total++
			t.Run(group+"/"+name, func(t *testing.T) {
				mustRefuse(t, w.check(t, token))
				mustRefuse(t, w.check(t, token))
			})
		}
	}
	mustAccept(t, w.check(t, w.good()))
	// What is not understood and not critical is no reason to refuse: these differ from hostile rows in the signature
	// alone.
	for _, name := range []string{"jku", "x5u"} {
		mustAccept(t, w.check(t, sign(key(0), header("k1").with(name, `"https://evil.example.com/keys"`).String(),
			w.claims().String())))
	}
	if total < 150 {
		t.Errorf("%d hostile tokens, want 150 or more", total)
	}
}

// sibling is another letter of base64url that decodes to the same bits where only the first two are used.
func sibling(c byte) string {
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
	signature, err := rsa.SignPSS(rand.Reader, key(0), crypto.SHA256, sum[:],
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
	signature, err := rsa.SignPKCS1v15(rand.Reader, key(0), crypto.SHA512, h.Sum(nil))
	if err != nil {
		panic(err)
	}
	return input + "." + b64(string(signature))
}
