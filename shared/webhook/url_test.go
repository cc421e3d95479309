package webhook_test

import (
	"strings"
	"testing"

	"agents.example/controlplane/shared/webhook"
)

// hostileURLs lists URLs that must not reach a receiver, by what is wrong with them.
func hostileURLs() map[string][]string {
	return map[string][]string{
		"the URL must begin with https://": {
			"http://hooks.example.com/", "ftp://hooks.example.com/", "gopher://hooks.example.com/",
			"HTTP://example.com",
			"//hooks.example.com/", "ws://example.com/", "dict://hooks.example.com:11211/",
		},
		"the URL must have the form": {
			"", "https://", "https:///path", "https:hooks.example.com", "file:///etc/passwd", "javascript:alert(1)",
			"data:text/plain,x", "hooks.example.com", "https://[::1", "https://::1]/", "https://[fe80::1%25eth0",
			"https://exa%6dple.com:x/", "https://:443/", "https://hooks.example.com:-1/", "https://%zz/", "https://hooks.example%2ecom/",
		},
		"user name or password": {
			"https://user@hooks.example.com/", "https://user:pass@hooks.example.com/",
			"https://hooks.example.com@169.254.169.254/", "https://169.254.169.254@hooks.example.com/",
			"https://hooks.example.com:443@10.0.0.1/", "https://@hooks.example.com/", "https://:@hooks.example.com/",
			"https://a@b@hooks.example.com/",
		},
		"fragment": {"https://hooks.example.com/#x", "https://hooks.example.com#@10.0.0.1/"},
		"printable ASCII": {
			"https://hooks.example.com\\@10.0.0.1/", "https:\\\\hooks.example.com/", "https://hooks.example.com/ x",
			"https://hooks.example.com/\r\nHost: evil", "https://hooks.example.com\t/", " https://hooks.example.com/",
			"https://hooks.example.com/\x00", "https://hööks.example.com/", "https://ⓔⓧⓐⓜⓟⓛⓔ.com/", "https://１２７.０.０.１/",
			"https://example。com/", "https://аpple.com/", "https://hooks.example.com/\x7f", "https://ex\u200bample.com/",
		},
		"the port must be": {
			"https://hooks.example.com:22/", "https://hooks.example.com:25/", "https://hooks.example.com:80/",
			"https://hooks.example.com:0/", "https://hooks.example.com:65536/", "https://hooks.example.com:0443/",
			"https://hooks.example.com:99999999999/", "https://hooks.example.com:/",
		},
		"not an IP address": {
			"https://127.0.0.1/", "https://127.1/", "https://127.0.1/", "https://2130706433/", "https://0x7f000001/",
			"https://0x7f.0.0.1/", "https://0177.0.0.1/", "https://017700000001/", "https://0/", "https://0.0.0.0/",
			"https://10.0.0.1/", "https://169.254.169.254/latest/meta-data/", "https://169.254.169.254:443/",
			"https://2852039166/", "https://0xa9fea9fe/", "https://0251.0376.0251.0376/", "https://169.254.43518/",
			"https://100.64.0.1/", "https://192.168.0.1/", "https://172.16.0.1/", "https://8.8.8.8/",
			"https://255.255.255.255/", "https://224.0.0.1/", "https://198.18.0.1/", "https://203.0.113.1/",
			"https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/",
			"https://[::127.0.0.1]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[2002:7f00:1::]/",
			"https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/",
			"https://[fc00::1]/", "https://[fd00:ec2::254]/", "https://[ff02::1]/", "https://[2600:1901::1]/",
			"https://999.999.999.999/", "https://1.2.3.4.5/", "https://127.0.0.1.1/", "https://example.0x1/",
			"https://hooks.example.123/", "https://0x/", "https://08.8.8.8/",
		},
		"letters, digits, hyphens": {
			"https://127.0.0.1./", "https://localhost./", "https://hooks.example.com./", "https://hooks..example.com/",
			"https://.example.com/", "https://-a.example.com/", "https://a-.example.com/", "https://ho_oks.example.com/",
			"https://metadata.google.internal./", "https://hooks.example.com!/", "https://*.example.com/",
			"https://" + strings.Repeat("a", 64) + ".com/", "https://" + strings.Repeat("abcdefg.", 40) + "com/",
			"https://hooks,example.com/", "https://$(id).example.com/", "https://a;b.example.com/",
		},
		"a public name": {
			"https://localhost/", "https://LOCALHOST/", "https://localhost:8443/", "https://a.localhost/",
			"https://localhost.localdomain/", "https://metadata/", "https://metadata.google.internal/",
			"https://METADATA.google.INTERNAL/", "https://vm.c.project.internal/", "https://kubernetes/",
			"https://kubernetes.default/", "https://kubernetes.default.svc/", "https://kubernetes.default.svc.cluster.local/",
			"https://printer.local/", "https://1.0.0.127.in-addr.arpa/", "https://router.home.arpa/", "https://a.onion/",
			"https://nas.lan/", "https://wiki.corp/", "https://wiki.intranet/", "https://a.invalid/", "https://a.private/",
		},
		"must not exceed 2048": {"https://hooks.example.com/" + strings.Repeat("a", 2048)},
	}
}

func TestURLPolicy_RefusesHostileURLs(t *testing.T) {
	t.Parallel()
	vectors := 0
	for want, urls := range hostileURLs() {
		for _, raw := range urls {
			vectors++
			got := webhook.URLPolicy{}.Violation(raw)
			if !strings.Contains(got, want) {
				t.Errorf("Violation(%q) = %q, want it to contain %q", raw, got, want)
			}
		}
	}
	if vectors < 80 {
		t.Errorf("only %d vectors, want at least 80", vectors)
	}
}

func TestURLPolicy_AcceptsPublicNames(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://hooks.example.com", "https://hooks.example.com/", "https://hooks.example.com:443/a?b=c&d=%20",
		"https://hooks.example.com:8443/x", "HTTPS://Hooks.Example.COM/Path", "https://xn--hks-sna.example.com/",
		"https://1.example.com/", "https://10-0-0-1.example.com/", "https://a.io/", "https://internal.example.com/",
		"https://localhost.example.com/", "https://example.co.uk:65535/",
	} {
		if got := (webhook.URLPolicy{}).Violation(raw); got != "" {
			t.Errorf("Violation(%q) = %q, want none", raw, got)
		}
	}
}

func TestURLPolicy_AllowsLoopbackOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	local := webhook.URLPolicy{AllowLoopback: true}
	for _, raw := range []string{
		"http://127.0.0.1:9999/hook", "https://localhost:8443/", "http://[::1]:80/", "http://localhost/",
	} {
		if got := local.Violation(raw); got != "" {
			t.Errorf("with loopback: Violation(%q) = %q, want none", raw, got)
		}
		if got := (webhook.URLPolicy{}).Violation(raw); got == "" {
			t.Errorf("without loopback: Violation(%q) = none, want a violation", raw)
		}
	}
	for _, raw := range []string{
		"http://10.0.0.1/", "http://hooks.example.com/", "https://169.254.169.254/", "ftp://localhost/",
		"http://user@localhost/", "http://metadata.google.internal/",
	} {
		if got := local.Violation(raw); got == "" {
			t.Errorf("with loopback: Violation(%q) = none, want a violation", raw)
		}
	}
}

func TestURLPolicy_ReportsTheFieldWithoutItsValue(t *testing.T) {
	t.Parallel()
	found := webhook.URLPolicy{}.Violations(map[string]any{"url": "http://user:canary@hooks.example.com/"})
	if len(found) != 1 || found[0].Loc[1] != "url" || strings.Contains(found[0].Msg, "canary") {
		t.Errorf("violations = %+v, want one at url that does not quote it", found)
	}
	for _, body := range []map[string]any{{}, {"url": 3}, {"url": "https://hooks.example.com/"}} {
		if found := (webhook.URLPolicy{}).Violations(body); len(found) != 0 {
			t.Errorf("violations of %v = %+v, want none", body, found)
		}
	}
}
