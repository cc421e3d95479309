package agent

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// LooksSecret reports whether a key is named like a secret. Its value then belongs in the secret store.
//
// A word such as PASSWORD counts wherever it stands, also inside a longer word: PGPASSWORD, clientSecret. A word that
// is part of many harmless names only counts where it names the value: DB_PASS is a secret, and PASS_RATE and COMPASS
// are not.
func LooksSecret(key string) bool {
	camel := splitWords(camelCase().ReplaceAllString(key, "${1}_${2}"))
	plain := splitWords(key) // finds words in spellings such as PassWord
	counts := slices.ContainsFunc(slices.Concat(camel, plain), countsTokens)
	return anySecretWord(camel, counts) || anySecretWord(plain, counts)
}

// camelCase matches the border of two words in camel case.
var camelCase = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`([a-z0-9])([A-Z])`) })

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

var harmless = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.Join(secretWords().Harmless, "|"))
})

// secretAnywhere reports whether a word contains the name of a secret. counts is true for a key that counts tokens of
// text, such as MAX_TOKENS.
func secretAnywhere(word string, counts bool) bool {
	words := secretWords()
	if slices.Contains(words.Whole, word) {
		return true
	}
	word = harmless().ReplaceAllString(word, "")
	if counts {
		word = strings.ReplaceAll(word, "TOKENS", "")
	}
	return slices.ContainsFunc(words.Inside, func(name string) bool { return strings.Contains(word, name) })
}

// countsTokens reports whether a word of a key says that its tokens are a number or a piece of text.
func countsTokens(word string) bool { return slices.Contains(secretWords().Counting, word) }

// secretKey reports whether a word names a secret key: API_KEY, APIKEY, SIGNING_KEYS. Other keys, such as PUBLIC_KEY
// and CACHE_KEY, are no secrets.
func secretKey(before, word string) bool {
	name := strings.TrimSuffix(word, "S")
	if name == "KEY" {
		name = before + name
	}
	kind, isKey := strings.CutSuffix(name, "KEY")
	return isKey && slices.ContainsFunc(secretWords().Keys, func(secret string) bool {
		return strings.HasSuffix(kind, secret)
	})
}

// secretAtEnd reports whether the last word of a key names a secret.
func secretAtEnd(before, word string) bool {
	words := secretWords()
	switch {
	case slices.Contains(words.Last, word):
		return true
	case slices.Contains(words.LastOfSeveral, word):
		return before != ""
	}
	user, ok := strings.CutSuffix(word, "PASS")
	if !ok {
		user, ok = strings.CutSuffix(word, "PWD")
	}
	return ok && slices.Contains(words.Users, user)
}

// LooksSecretValue reports whether a value has the form of a secret, such as a key of a known service or a URL with a
// password. The value then belongs in the secret store, whatever its key is.
func LooksSecretValue(value string) bool {
	for _, found := range openAIKey().FindAllString(value, -1) {
		// Names such as sk-learn-text-classification have the form, too, but no digit.
		if strings.ContainsAny(found, "0123456789") {
			return true
		}
	}
	return secretValue().MatchString(value)
}

// openAIKey matches keys that begin with sk-, as those of OpenAI and Anthropic do.
var openAIKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(openAIKeyForm) })

// secretValue matches the documented forms of secrets.
var secretValue = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.Join(secretForms(), "|"))
})
