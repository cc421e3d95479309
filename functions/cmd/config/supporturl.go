package config

import (
	"errors"
	"net/url"
	"regexp"
)

// SupportURL is the address of a page with the scheme https, or of a mailbox with the scheme mailto.
type SupportURL string

// EnvDecode implements envconfig.Decoder. The console makes a link of the address, so that it must not run a script.
func (s *SupportURL) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	valid := err == nil && u.RawQuery == ""
	if valid && u.Scheme == "mailto" {
		valid = regexp.MustCompile(`^[^@\s<>,]+@[^@\s<>,]+$`).MatchString(u.Opaque)
	} else if valid {
		valid = u.Scheme == "https" && u.Host != "" && u.User == nil
	}
	if !valid {
		return errors.New("want an address such as https://support.example.com or mailto:support@example.com")
	}
	*s = SupportURL(value)
	return nil
}
