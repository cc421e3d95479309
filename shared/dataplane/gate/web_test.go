package gate_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
)

// asked has what the hosts of a test were asked for.
type asked chan string

func (a asked) record(name string) http.HandlerFunc {
	return func(rw http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		a <- name + " " + req.Host + " " + req.RequestURI + req.Header.Get("Upgrade")
	}
}

// exchange sends raw bytes, and returns the answers to them, until there are as many as wanted or the connection ends.
func (w *world) exchange(t *testing.T, raw string, answers int) []answer {
	t.Helper()
	c := w.open(t, agentAddress, w.web)
	go func() { _, _ = io.WriteString(c, raw) }()
	var got []answer
	for r := bufio.NewReader(c); len(got) < answers; {
		a, err := readAnswer(r)
		if err != nil {
			break
		}
		got = append(got, a)
	}
	return got
}

func readAnswer(r *bufio.Reader) (answer, error) {
	res, err := http.ReadResponse(r, nil)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: string(body), proto: res.Proto}, err
}

// TestWeb_LeadsOnlyToWhatTheListHas sends requests to port 80.
func TestWeb_LeadsOnlyToWhatTheListHas(t *testing.T) {
	t.Parallel()
	const end = "\r\nConnection: close\r\n\r\n"
	for name, row := range map[string]struct {
		raw string
		// want are the statuses of the answers, and asks what reaches a host.
		want   []int
		asks   []string
		reason egress.Reason // of the last answer
	}{
		"listed": {
			raw:  "GET /a HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{200}, asks: []string{"api.example.com api.example.com /a"},
		},
		"upper case": {
			raw:  "GET / HTTP/1.1\r\nHost: API.example.COM" + end,
			want: []int{200}, asks: []string{"api.example.com api.example.com /"},
		},
		"dot at end": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com." + end,
			want: []int{200}, asks: []string{"api.example.com api.example.com /"},
		},
		"port 80": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com:80" + end,
			want: []int{200}, asks: []string{"api.example.com api.example.com /"},
		},
		"absolute": {
			raw:  "GET http://api.example.com/b HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{200}, asks: []string{"api.example.com api.example.com /b"},
		},
		"not absolute": {
			raw:  "GET //other.example.com/b HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{200}, asks: []string{"api.example.com api.example.com //other.example.com/b"},
		},
		"absolute, other Host": {
			raw: "GET http://api.example.com/ HTTP/1.1\r\nHost: other.example.com" + end, want: []int{200},
			asks: []string{"api.example.com api.example.com /"},
		},
		"absolute of another, listed Host": {
			raw:  "GET http://other.example.com/ HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{403}, reason: egress.NotListed,
		},
		"absolute with a user": {
			raw: "GET http://u:p@api.example.com/ HTTP/1.1\r\nHost: api.example.com" + end, want: []int{200},
			asks: []string{"api.example.com api.example.com /"},
		},
		"absolute, HTTPS": {
			raw:  "GET https://api.example.com/ HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{400}, reason: egress.Unsupported,
		},
		"absolute, FTP": {
			raw:  "GET ftp://api.example.com/ HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{400}, reason: egress.Unsupported,
		},
		"opaque": {
			raw:  "GET http:other.example.com/ HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{400}, reason: egress.Unsupported,
		},
		"asterisk": {
			raw:  "OPTIONS * HTTP/1.1\r\nHost: api.example.com" + end,
			want: []int{400}, reason: egress.Unsupported,
		},
		"CONNECT": {
			raw:  "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443" + end,
			want: []int{405}, reason: egress.Unsupported,
		},
		"CONNECT to 80": {
			raw:  "CONNECT api.example.com:80 HTTP/1.1\r\nHost: api.example.com:80" + end,
			want: []int{405}, reason: egress.Unsupported,
		},
		"not listed": {
			raw:  "GET / HTTP/1.1\r\nHost: other.example.com" + end,
			want: []int{403}, reason: egress.NotListed,
		},
		"denied": {
			raw:  "GET / HTTP/1.1\r\nHost: bad.wild.example" + end,
			want: []int{403}, reason: egress.Denied,
		},
		"private": {
			raw:  "GET / HTTP/1.1\r\nHost: private.example" + end,
			want: []int{403}, reason: egress.NotPublic,
		},
		"unreachable": {
			raw:  "GET / HTTP/1.1\r\nHost: gone.wild.example" + end,
			want: []int{502}, reason: egress.Unreachable,
		},
		"port 8443": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com:8443" + end,
			want: []int{403}, reason: egress.Unsupported,
		},
		"port 443": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com:443" + end,
			want: []int{403}, reason: egress.Unsupported,
		},
		"port 080": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com:080" + end,
			want: []int{403}, reason: egress.Unsupported,
		},
		"user in Host": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com@other.example.com" + end,
			want: []int{400},
		},
		"IPv4": {
			raw:  "GET / HTTP/1.1\r\nHost: 93.184.215.14" + end,
			want: []int{403}, reason: egress.NoName,
		},
		"metadata": {
			raw:  "GET / HTTP/1.1\r\nHost: 169.254.169.254\r\nMetadata-Flavor: Google" + end,
			want: []int{403}, reason: egress.NoName,
		},
		"IPv4, decimal": {raw: "GET / HTTP/1.1\r\nHost: 2130706433" + end, want: []int{403}, reason: egress.NoName},
		"IPv6": {
			raw:  "GET / HTTP/1.1\r\nHost: [2001:db8::1]" + end,
			want: []int{403}, reason: egress.NoName,
		},
		"IPv6 with a port": {raw: "GET / HTTP/1.1\r\nHost: [::1]:80" + end, want: []int{403}, reason: egress.NoName},
		"IPv6, bare":       {raw: "GET / HTTP/1.1\r\nHost: ::1" + end, want: []int{403}, reason: egress.NoName},
		"single label":     {raw: "GET / HTTP/1.1\r\nHost: localhost" + end, want: []int{403}, reason: egress.NoName},
		"no Host, 1.1":     {raw: "GET / HTTP/1.1" + end, want: []int{400}},
		"no Host, 1.0":     {raw: "GET / HTTP/1.0\r\n\r\n", want: []int{403}, reason: egress.NoName},
		"empty Host":       {raw: "GET / HTTP/1.1\r\nHost:" + end, want: []int{403}, reason: egress.NoName},
		"two Hosts": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com\r\nHost: other.example.com" + end,
			want: []int{400},
		},
		"folded Host": {raw: "GET / HTTP/1.1\r\nHost: api.example.com\r\n .wild.example" + end, want: []int{400}},
		"space before colon": {
			raw: "GET / HTTP/1.1\r\nHost : other.example.com\r\nHost: api.example.com" + end, want: []int{400},
		},
		"longest name": {
			raw:  "GET / HTTP/1.1\r\nHost: " + strings.Repeat("a", 63) + strings.Repeat(".a", 100) + end,
			want: []int{403}, reason: egress.NoName,
		},
		"second request elsewhere": {
			raw:  "GET /1 HTTP/1.1\r\nHost: api.example.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: other.example.com" + end,
			want: []int{200, 403}, asks: []string{"api.example.com api.example.com /1"}, reason: egress.NotListed,
		},
		"second request to another listed": {
			raw:  "GET /1 HTTP/1.1\r\nHost: api.example.com\r\n\r\nGET /2 HTTP/1.1\r\nHost: a.wild.example" + end,
			want: []int{200, 200},
			asks: []string{"api.example.com api.example.com /1", "a.wild.example a.wild.example /2"},
		},
		"hidden in a body": {
			raw: "POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 46" + end +
				"GET / HTTP/1.1\r\nHost: other.example.com\r\n\r\n\r\n\r\n",
			want: []int{200}, asks: []string{"api.example.com api.example.com /"},
		},
		"two lengths": {
			raw: "POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 0\r\nContent-Length: 44" + end +
				"GET / HTTP/1.1\r\nHost: other.example.com\r\n\r\n",
			want: []int{400},
		},
		"chunks and a length": {
			raw: "POST / HTTP/1.1\r\nHost: api.example.com\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"0\r\n\r\nGET /2 HTTP/1.1\r\nHost: other.example.com" + end,
			want: []int{200, 403}, asks: []string{"api.example.com api.example.com /"}, reason: egress.NotListed,
		},
		"other encoding": {
			raw: "POST / HTTP/1.1\r\nHost: api.example.com\r\nTransfer-Encoding: xchunked" + end, want: []int{501},
		},
		"HTTP/2 preface": {raw: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", want: []int{400}, reason: egress.Unsupported},
		"TLS":            {raw: "\x16\x03\x01\x00\x05hello\r\n\r\n", want: []int{400}},
		"too large": {
			raw:  "GET / HTTP/1.1\r\nHost: api.example.com\r\nX: " + strings.Repeat("x", 17<<10) + end,
			want: []int{431},
		},
		"upgrade to h2c": {
			raw: "GET / HTTP/1.1\r\nHost: api.example.com\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n" +
				"Connection: Upgrade, HTTP2-Settings\r\n\r\n",
			want: []int{200}, asks: []string{"api.example.com api.example.com /"},
		},
		"own other page": {raw: "GET /metrics HTTP/1.1\r\nHost: " + gateAddress + end, want: []int{404}},
		"own without policy": {
			raw: "GET " + dataplane.PathGateCA + " HTTP/1.1\r\nHost: " + gateAddress + end, want: []int{503},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, hosts := newWorld(t), make(asked, 10)
			w.set(agentAddress, agentID, &egress.Policy{
				Allow: []string{"api.example.com", "*.wild.example", "private.example"},
				Deny:  []string{"bad.wild.example"},
			})
			for _, host := range []string{
				"api.example.com", "a.wild.example", "bad.wild.example", "other.example.com",
			} {
				w.serveHTTP(t, host, hosts.record(host))
			}
			w.host("private.example:80", "private")
			got := w.exchange(t, row.raw, len(row.want))
			var statuses []int
			reason := egress.Reason("")
			for _, a := range got {
				statuses = append(statuses, a.status)
				reason = egress.Reason(a.header.Get(gate.HeaderReason))
			}
			close(hosts)
			var asks []string
			for a := range hosts {
				asks = append(asks, a)
			}
			if fmt.Sprint(statuses) != fmt.Sprint(row.want) || fmt.Sprint(asks) != fmt.Sprint(row.asks) ||
				reason != row.reason {
				t.Errorf("answers %v, last for %q, hosts were asked %q; want %v, %q, %q", statuses, reason, asks,
					row.want, row.reason, row.asks)
			}
		})
	}
}
