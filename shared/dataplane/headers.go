package dataplane

// IsHeader reports whether a program may take a header for the one with a name in lower case. See HasHeaderPrefix.
func IsHeader(name, plain string) bool {
	return len(name) == len(plain) && HasHeaderPrefix(name, plain)
}

// HasHeaderPrefix reports whether the name of a header begins with a prefix in lower case. It ignores case, and takes
// every character that is no letter and no digit for a dash: programs that get headers as environment variables do not
// tell them apart.
func HasHeaderPrefix(name, prefix string) bool {
	if len(name) < len(prefix) {
		return false
	}
	for i := range len(prefix) {
		c := name[i]
		switch {
		case c >= 'A' && c <= 'Z':
			c += 'a' - 'A'
		case (c < 'a' || c > 'z') && (c < '0' || c > '9'):
			c = '-'
		}
		if c != prefix[i] {
			return false
		}
	}
	return true
}

// IsIdentityHeader reports whether proxies use a header to pass on who the user is or where a request came from.
// Clients may not send such headers: an agent would believe that the front did.
func IsIdentityHeader(name string) bool {
	for _, h := range [...]string{
		"x-forwarded-", "x-auth-request-", "x-authenticated-", "x-remote-", "x-goog-authenticated-user-",
		"x-goog-iap-", "remote-",
	} {
		if HasHeaderPrefix(name, h) {
			return true
		}
	}
	for _, h := range [...]string{
		"forwarded", "x-user", "x-real-ip", "x-client-ip", "true-client-ip", "x-original-host", "x-webauth-user",
		"x-serverless-authorization",
	} {
		if IsHeader(name, h) {
			return true
		}
	}
	return false
}
