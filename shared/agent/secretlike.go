package agent

import (
	"regexp"
	"slices"
	"strings"
)

// LooksSecret reports whether a key is named like a secret. Its value then belongs in the secret store.
//
// A word such as PASSWORD counts wherever it stands, also inside a longer word: PGPASSWORD, clientSecret. A word that
// is part of many harmless names only counts where it names the value: DB_PASS is a secret, and PASS_RATE and COMPASS
// are not.
func LooksSecret(key string) bool {
	camel := splitWords(camelCase.ReplaceAllString(key, "${1}_${2}"))
	plain := splitWords(key) // finds words in spellings such as PassWord
	counts := slices.ContainsFunc(slices.Concat(camel, plain), countsTokens)
	return anySecretWord(camel, counts) || anySecretWord(plain, counts)
}

// camelCase matches the border of two words in camel case.
var camelCase = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// splitWords splits a key at underscores. It drops digits at the end of words: DB_PASSWORD_2, DB_PASS2.
func splitWords(key string) []string {
	var words []string
	for _, w := range strings.Split(strings.ToUpper(key), "_") {
		if w = strings.TrimRight(w, "0123456789"); w != "" {
			words = append(words, w)
		}
	}
	return words
}

func anySecretWord(words []string, counts bool) bool {
	for i, word := range words {
		last, before := i == len(words)-1, ""
		if i > 0 {
			before = words[i-1]
		}
		switch {
		case secretAnywhere(word, counts), secretKey(before, word), last && secretAtEnd(before, word):
			return true
		}
	}
	return false
}

// harmless matches words that contain the name of a secret, but name none: TOKENIZER, SECRETARY, PASSWORDLESS.
var harmless = regexp.MustCompile("TOKENI|SECRETAR|PASSWORDLESS")

// secretAnywhere reports whether a word contains the name of a secret. counts is true for a key that counts tokens of
// text, such as MAX_TOKENS.
func secretAnywhere(word string, counts bool) bool {
	switch word {
	case "CRED", "CREDS":
		return true
	}
	word = harmless.ReplaceAllString(word, "")
	if counts {
		word = strings.ReplaceAll(word, "TOKENS", "")
	}
	return slices.ContainsFunc([]string{
		"TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "SECRET", "CREDENTIAL",
	}, func(name string) bool { return strings.Contains(word, name) })
}

// countsTokens reports whether a word of a key says that its tokens are a number or a piece of text.
func countsTokens(word string) bool {
	switch word {
	case "N", "NUM", "NUMBER", "COUNT", "TOTAL", "LIMIT", "BUDGET", "PER", "INPUT", "OUTPUT", "PROMPT", "COMPLETION",
		"CONTEXT", "THINKING", "REASONING", "STOP", "SPECIAL", "CHUNK", "OVERLAP", "WINDOW", "CACHED", "RESPONSE",
		"BATCH", "MAX", "MAXIMUM", "MIN", "MINIMUM", "MAXTOKENS", "MINTOKENS":
		return true
	default:
		return false
	}
}

// secretKey reports whether a word names a secret key: API_KEY, APIKEY, SIGNING_KEYS. Other keys, such as PUBLIC_KEY
// and CACHE_KEY, are no secrets.
func secretKey(before, word string) bool {
	name := strings.TrimSuffix(word, "S")
	if name == "KEY" {
		name = before + name
	}
	kind, isKey := strings.CutSuffix(name, "KEY")
	return isKey && slices.ContainsFunc([]string{
		"API", "PRIVATE", "ACCESS", "SIGNING", "SSH", "GPG", "PGP", "HMAC", "JWT", "ENCRYPTION", "DECRYPTION", "MASTER",
		"AUTH", "ACCOUNT", "ADMIN", "DEPLOY", "LICENSE", "SERVICE", "SESSION", "SHARED", "WEBHOOK",
	}, func(secret string) bool { return strings.HasSuffix(kind, secret) })
}

// secretAtEnd reports whether the last word of a key names a secret.
func secretAtEnd(before, word string) bool {
	switch word {
	case "PASS", "PWD", "DSN", "JWT", "JWTS":
		return true
	case "PAT", "PATS": // an access token of GitHub or GitLab
		return before != ""
	}
	user, ok := strings.CutSuffix(word, "PASS")
	if !ok {
		user, ok = strings.CutSuffix(word, "PWD")
	}
	return ok && slices.Contains([]string{
		"ADMIN", "DB", "FTP", "MYSQL", "PG", "REDIS", "ROOT", "SMTP", "USER",
	}, user)
}

// LooksSecretValue reports whether a value has the form of a secret, such as a key of a known service or a URL with a
// password. The value then belongs in the secret store, whatever its key is.
func LooksSecretValue(value string) bool {
	for _, found := range openAIKey.FindAllString(value, -1) {
		// Names such as sk-learn-text-classification have the form, too, but no digit.
		if strings.ContainsAny(found, "0123456789") {
			return true
		}
	}
	return secretValue.MatchString(value)
}

// openAIKey matches keys that begin with sk-, as those of OpenAI and Anthropic do.
var openAIKey = regexp.MustCompile(`\bsk-[A-Za-z0-9_-]{20,}`)

// secretValue matches the documented forms of secrets.
var secretValue = regexp.MustCompile(strings.Join([]string{
	`\b[rs]k_(live|test)_[A-Za-z0-9]{10,}`,                                      // Stripe
	`\bwhsec_[A-Za-z0-9+/]{16,}`,                                                // signatures of webhooks
	`\bso_[A-Za-z0-9]{49}\b`,                                                    // the control plane's API keys
	`\bgh[opsur]_[A-Za-z0-9]{20,}`,                                              // GitHub
	`\bgithub_pat_[A-Za-z0-9_]{20,}`,                                            // GitHub, fine-grained
	`\bglpat-[A-Za-z0-9_-]{20,}`,                                                // GitLab
	`\bnpm_[A-Za-z0-9]{36}\b`,                                                   // npm
	`\bhf_[A-Za-z0-9]{30,}`,                                                     // Hugging Face
	`\b(AKIA|ASIA)[A-Z0-9]{16}\b`,                                               // Amazon Web Services
	`\bxox[a-z]-[A-Za-z0-9-]{10,}`,                                              // Slack
	`\bAIza[A-Za-z0-9_-]{35}`,                                                   // Google API keys
	`\bya29\.[A-Za-z0-9_-]{20,}`,                                                // Google access tokens
	`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,                              // SendGrid
	`-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY( BLOCK)?-----`,                         // PEM and PGP
	`\beyJ[A-Za-z0-9_-]{5,}\.eyJ[A-Za-z0-9_-]{5,}\.`,                            // JSON Web Tokens
	`\b[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@:]*:[^\s/?#]+@`,                        // a URL with a password
	`(?i)(^|[\s?&;,-])(password|pwd|accountkey|sharedaccesskey)\s*=\s*[^\s&;]+`, // a connection string with a password
}, "|"))
