package config

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
)

// BaseURL is the address of the API, without a slash at its end.
type BaseURL string

// EnvDecode implements envconfig.Decoder. Clients send tokens to the address, so that it must have the scheme https,
// except for loopback addresses.
func (b *BaseURL) EnvDecode(value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return errors.New("want an address such as https://api.example.com")
	}
	*b = BaseURL(strings.TrimRight(value, "/"))
	return nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
