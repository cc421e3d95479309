package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// validator is a configuration whose variables must fit each other.
type validator interface{ validate() error }

func (c Common) validate() error { return c.separateSite(c.AuthorizedParties...) }

func (c Accounts) validate() error { return c.separateSite(append(c.AuthorizedParties, c.AppURL)...) }

func (c Worker) validate() error {
	return c.separateSite(append(c.AuthorizedParties, c.AppURL, c.KeysURL)...)
}

// separateSite refuses an agent domain that browsers take for the same site as one of the URLs. The pages of agents are
// those of customers: on the same site, they could set cookies for the web app and the API, and their requests to them
// would carry cookies that are meant for the same site only.
func (c Common) separateSite(urls ...string) error {
	agents := siteOf(c.AgentDomain)
	for _, text := range urls {
		u, err := url.Parse(text)
		if err != nil || agents == "" || siteOf(u.Hostname()) != agents {
			continue
		}
		return fmt.Errorf("configuration: AGENT_DOMAIN is invalid: %s and %s belong to the domain %s: choose a domain "+
			"for agents under which no other pages are served", c.AgentDomain, u.Hostname(), agents)
	}
	return nil
}

// siteOf returns the registrable domain of a host; "" if it has none, as an address or a public suffix.
func siteOf(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	site, err := publicsuffix.EffectiveTLDPlusOne(strings.ToLower(strings.TrimSuffix(host, ".")))
	if err != nil {
		return ""
	}
	return site
}
