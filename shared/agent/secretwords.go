package agent

// SecretRule is the vocabulary of LooksSecret and LooksSecretValue. The console's copy of the rule is generated from
// it.
type SecretRule struct {
	Words SecretWords `json:"words"`
	// OpenAIKey is a regular expression. A value with a match that has a digit is a secret.
	OpenAIKey string `json:"openai_key"`
	// Forms are regular expressions. A value that matches one of them is a secret.
	Forms []string `json:"forms"`
}

// SecretWords are the words by which a key is a secret, in upper case.
type SecretWords struct {
	// Whole are secrets as a word of a key.
	Whole []string `json:"whole"`
	// Inside are secrets also inside a longer word.
	Inside []string `json:"inside"`
	// Harmless are beginnings of words that contain one of Inside, but name no secret: TOKENIZER, SECRETARY.
	Harmless []string `json:"harmless"`
	// Counting are words of keys that count tokens of text, such as MAX_TOKENS.
	Counting []string `json:"counting"`
	// Keys are secrets before KEY: API_KEY, APIKEY.
	Keys []string `json:"keys"`
	// Last are secrets as the last word of a key.
	Last []string `json:"last"`
	// LastOfSeveral are secrets as the last word of a key with several words. PAT is a token of GitHub or GitLab.
	LastOfSeveral []string `json:"last_of_several"`
	// Users are secrets with PASS or PWD behind them: DBPASS.
	Users []string `json:"users"`
}

// Secrets returns the vocabulary of LooksSecret and LooksSecretValue.
func Secrets() SecretRule {
	return SecretRule{Words: secretWords(), OpenAIKey: openAIKeyForm, Forms: secretForms()}
}

func secretWords() SecretWords {
	return SecretWords{
		Whole:    []string{"CRED", "CREDS"},
		Inside:   []string{"TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "SECRET", "CREDENTIAL"},
		Harmless: []string{"TOKENI", "SECRETAR", "PASSWORDLESS"},
		Counting: []string{
			"N", "NUM", "NUMBER", "COUNT", "TOTAL", "LIMIT", "BUDGET", "PER", "INPUT", "OUTPUT", "PROMPT", "COMPLETION",
			"CONTEXT", "THINKING", "REASONING", "STOP", "SPECIAL", "CHUNK", "OVERLAP", "WINDOW", "CACHED", "RESPONSE",
			"BATCH", "MAX", "MAXIMUM", "MIN", "MINIMUM", "MAXTOKENS", "MINTOKENS",
		},
		Keys: []string{
			"API", "PRIVATE", "ACCESS", "SIGNING", "SSH", "GPG", "PGP", "HMAC", "JWT", "ENCRYPTION", "DECRYPTION",
			"MASTER", "AUTH", "ACCOUNT", "ADMIN", "DEPLOY", "LICENSE", "SERVICE", "SESSION", "SHARED", "WEBHOOK",
		},
		Last:          []string{"PASS", "PWD", "DSN", "JWT", "JWTS"},
		LastOfSeveral: []string{"PAT", "PATS"},
		Users:         []string{"ADMIN", "DB", "FTP", "MYSQL", "PG", "REDIS", "ROOT", "SMTP", "USER"},
	}
}

const openAIKeyForm = `\bsk-[A-Za-z0-9_-]{20,}`

// secretForms returns regular expressions of the documented forms of secrets.
func secretForms() []string {
	return []string{
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
	}
}
